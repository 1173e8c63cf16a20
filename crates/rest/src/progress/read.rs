//! What one line says.

use std::sync::LazyLock;

use regex::Regex;

use super::Reading;

/// Longer lines are data, not progress.
const LONGEST: usize = 2000;

/// Words that are a position and not a metric, or that say how training was set up.
#[rustfmt::skip]
const NOT_METRICS: [&str; 36] = [
    "epoch", "epochs", "step", "steps", "batch", "iter", "iteration", "iterations", "global_step",
    "rank", "world", "port", "pid", "v_num", "seed", "worker", "workers", "replicas", "device",
    "devices", "eta", "num", "line", "version", "node", "nodes", "nnodes", "nproc", "gpu", "gpus",
    "cpu", "cpus", "threads", "host", "id", "timeout",
];

/// How names of settings and files begin or end.
const SETTINGS: [&str; 3] = ["num_", "n_", "max_"];
const SETTING_ENDS: [&str; 10] = [
    "_size", "_rank", "_id", "_port", "_steps", "_epochs", "_workers", "_version", "_seed", "_dim",
];
const FILE_ENDS: [&str; 10] = [
    ".py", ".cpp", ".cc", ".c", ".cu", ".h", ".hpp", ".rs", ".go", ".pyx",
];

/// What training comes to, as the last word of a metric's name. A learning rate alone is a setting.
#[rustfmt::skip]
const RESULTS: [&str; 22] = [
    "loss", "acc", "accuracy", "perplexity", "ppl", "f1", "auc", "mae", "mse", "rmse", "error",
    "logloss", "mlogloss", "merror", "precision", "recall", "bleu", "iou", "reward", "wer",
    "mape", "ndcg",
];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant and is covered by tests")
}

static EPOCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\bepoch(s?)\b['\x22]?\s*[:=#\[]?\s*['\x22\[]?(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?",
    )
});
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:batch|step|iter|iteration|global_step)\b['\x22]?\s*[:=#\[]?\s*\[?(\d+)(?:\s*(?:/|of)\s*(\d+))?",
    )
});
/// `164/469 [` of a progress bar: tqdm's, Keras' or Rich's.
static BAR: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:^|[\s|])(\d+)/(\d+)\s+(?:\[|━|[0-9.]+m?s|\d+:\d\d:\d\d)"));
static PERCENT: LazyLock<Regex> = LazyLock::new(|| regex(r"(\d{1,3}(?:\.\d+)?)%\|"));
/// `[19]` before the results of a round of boosting; a tracker puts the time before it.
static ROUND: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:\[[\d:. -]+\]\s*)?\[(\d+)\]\s+[A-Za-z][\w' -]*:"));
/// `name: 1.5`, `name=1.5`, `'name': 1.5`; the name has letters and may have spaces before it.
static METRIC: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)['\x22]?([a-z][a-z0-9_/.@-]{0,63})(['\x22]?\s*[:=]\s*['\x22]?)(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|-?inf(?:inity)?)['\x22]?(?:[\s,;|)}\]]|$)",
    )
});
/// `loss 0.25`: only names that can mean nothing else, and numbers that are no count.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[\s,(])((?:[a-z]+[_/])?(?:loss|accuracy|acc|perplexity|ppl))\s+(-?\d+\.\d+(?:e[+-]?\d+)?|nan|-?inf(?:inity)?)(?:[\s,;|)%]|$)",
    )
});
static COLOURS: LazyLock<Regex> = LazyLock::new(|| regex(r"\x1b\[[0-9;?]*[A-Za-z]"));
/// Lines that speak of the program and not of the training: warnings, exceptions, and objects printed with their settings.
static NOISE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i:\bwarn(?:ing)?\b)|Warning\b|^\[?[WE]\d{4} |^\[[WE] |^\s*File "|\b[A-Z]\w*(?:Error|Exception)\b|\b[A-Z]\w*\(\w+="#,
    )
});

/// Reads a line. Carriage returns of progress bars are honoured: only what stands last counts.
pub(crate) fn read(line: &str) -> Reading {
    let line = line
        .trim_end()
        .rsplit(['\r', '\u{8}'])
        .next()
        .unwrap_or_default();
    let has_number = |line: &str| {
        line.bytes().any(|byte| byte.is_ascii_digit())
            || line.contains("nan")
            || line.contains("NaN")
            || line.contains("inf")
    };
    if line.is_empty() || line.len() > LONGEST || !has_number(line) || NOISE.is_match(line) {
        return Reading::default();
    }
    let line = &COLOURS.replace_all(line, "");
    let number = |text: &str| text.parse::<f64>().ok();
    let mut reading = Reading::default();
    if let Some(found) = EPOCH.captures(line)
        // `epochs=10` is a setting.
        && (found[1].is_empty() || found.get(3).is_some())
    {
        reading.epoch = number(&found[2]);
        reading.epochs = found.get(3).and_then(|total| number(total.as_str()));
        if line.contains('━') {
            // Lightning counts from 0, to one less than there are.
            reading.epoch = reading.epoch.map(|epoch| epoch + 1.0);
            reading.epochs = reading.epochs.map(|epochs| epochs + 1.0);
        }
    }
    if let Some(found) = STEP.captures(line) {
        reading.step = number(&found[1]);
        reading.steps = found.get(2).and_then(|total| number(total.as_str()));
    }
    // Rich's bar has the epochs before the steps.
    if let Some(found) = BAR.captures_iter(line).last() {
        reading.step = number(&found[1]);
        reading.steps = number(&found[2]);
    }
    if let Some(found) = ROUND.captures(line) {
        reading.step = number(&found[1]);
    }
    if let Some(found) = PERCENT.captures(line) {
        reading.percent = number(&found[1]);
    }
    for found in METRIC.captures_iter(line) {
        if !is_place(&found[2], &found[3]) {
            reading.add(&found[1], number(&found[3]));
        }
    }
    for found in WORD.captures_iter(line) {
        reading.add(&found[1], number(&found[2]));
    }
    // A lone number after a word is chatter unless the line is about training.
    if !is_about_training(&reading) {
        return Reading::default();
    }
    reading
}

impl Reading {
    fn add(&mut self, name: &str, value: Option<f64>) {
        let name = name.to_ascii_lowercase();
        let known = self.metrics.iter().any(|(known, _)| *known == name);
        if let Some(value) = value.filter(|_| !known && !is_setting(&name)) {
            self.metrics.push((name, value));
        }
    }
}

/// Whether `name:1545` is a line of a file or a port of a host.
fn is_place(separator: &str, number: &str) -> bool {
    separator == ":" && number.len() > 1 && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_setting(name: &str) -> bool {
    NOT_METRICS.contains(&name)
        || SETTINGS.iter().any(|start| name.starts_with(start))
        || SETTING_ENDS.iter().any(|end| name.ends_with(end))
        || FILE_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a line speaks of training: it has a position, or a metric that everybody knows.
fn is_about_training(reading: &Reading) -> bool {
    reading.epoch.is_some()
        || reading.step.is_some() && (reading.steps.is_some() || !reading.metrics.is_empty())
        || reading.percent.is_some()
        || reading.metrics.iter().any(|(name, _)| {
            let last = name.rsplit(['_', '/', '-', '.', '@']).next();
            last.is_some_and(|last| RESULTS.contains(&last))
        })
}
