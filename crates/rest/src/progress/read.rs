//! What one line says.

use std::sync::LazyLock;

use regex::Regex;

use super::Reading;

/// Longer lines are data, not progress.
const LONGEST: usize = 2000;

/// Words that are a position and not a metric, or that are no measurement of training.
const NOT_METRICS: [&str; 22] = [
    "epoch",
    "epochs",
    "step",
    "steps",
    "batch",
    "iter",
    "iteration",
    "global_step",
    "rank",
    "world_size",
    "port",
    "pid",
    "v_num",
    "node_rank",
    "local_rank",
    "seed",
    "worker",
    "workers",
    "replicas",
    "device",
    "eta",
    "num",
];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant and is covered by tests")
}

static EPOCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)\bepochs?\b['\x22]?\s*[:=#\[]?\s*\[?(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?")
});
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:batch|step|iter|iteration|global_step)\b['\x22]?\s*[:=#\[]?\s*\[?(\d+)(?:\s*(?:/|of)\s*(\d+))?",
    )
});
/// `164/469 [` of a progress bar, tqdm's or Keras'.
static BAR: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:^|[\s|])(\d+)/(\d+)\s+(?:\[|\x1b|━|[0-9.]+m?s)"));
static PERCENT: LazyLock<Regex> = LazyLock::new(|| regex(r"(\d{1,3}(?:\.\d+)?)%\|"));
/// `name: 1.5`, `name=1.5`, `'name': 1.5`; the name has letters and may have spaces before it.
static METRIC: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)['\x22]?([a-z][a-z0-9_/.@-]{0,63})['\x22]?\s*[:=]\s*['\x22]?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|-?inf)['\x22]?(?:[\s,;|)}\]]|$)",
    )
});

/// Reads a line. Carriage returns of progress bars are honoured: only what stands last counts.
pub(crate) fn read(line: &str) -> Reading {
    let line = line
        .trim_end()
        .rsplit(['\r', '\u{8}'])
        .next()
        .unwrap_or_default();
    if line.is_empty() || line.len() > LONGEST || !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return Reading::default();
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let mut reading = Reading::default();
    if let Some(found) = EPOCH.captures(line) {
        reading.epoch = number(&found[1]);
        reading.epochs = found.get(2).and_then(|total| number(total.as_str()));
    }
    if let Some(found) = STEP.captures(line) {
        reading.step = number(&found[1]);
        reading.steps = found.get(2).and_then(|total| number(total.as_str()));
    }
    if let Some(found) = BAR.captures(line) {
        reading.step = number(&found[1]);
        reading.steps = number(&found[2]);
    }
    if let Some(found) = PERCENT.captures(line) {
        reading.percent = number(&found[1]);
    }
    for found in METRIC.captures_iter(line) {
        let name = found[1].to_ascii_lowercase();
        if NOT_METRICS.contains(&name.as_str())
            || reading.metrics.iter().any(|(known, _)| *known == name)
        {
            continue;
        }
        if let Some(value) = number(&found[2]) {
            reading.metrics.push((name, value));
        }
    }
    // A lone number after a word is chatter unless the line is about training.
    if !is_about_training(&reading) {
        return Reading::default();
    }
    reading
}

/// Whether a line speaks of training: it has a position, or a metric that everybody knows.
fn is_about_training(reading: &Reading) -> bool {
    const KNOWN: [&str; 14] = [
        "loss",
        "acc",
        "accuracy",
        "lr",
        "learning_rate",
        "perplexity",
        "ppl",
        "f1",
        "auc",
        "mae",
        "mse",
        "rmse",
        "grad_norm",
        "error",
    ];
    reading.epoch.is_some()
        || reading.step.is_some() && (reading.steps.is_some() || !reading.metrics.is_empty())
        || reading.percent.is_some()
        || reading.metrics.iter().any(|(name, _)| {
            KNOWN.iter().any(|known| {
                name == known
                    || name.ends_with(&format!("_{known}"))
                    || name.ends_with(&format!("/{known}"))
            })
        })
}
