//! `astrago metrics`: curves in the terminal.

use std::fmt::Write as _;
use std::io::IsTerminal;

use anyhow::Result;
use astrago_rest::model::{Metric, MetricValue};
use owo_colors::OwoColorize;

use super::job::{connect, path};
use crate::args::{Connection, Format, Metrics};
use crate::exit::Failure;
use crate::output;

/// Rows of a curve; each has four dots.
const ROWS: usize = 8;

/// Columns of a curve; each has two dots.
const COLUMNS: usize = 60;

pub(crate) async fn metrics(
    connection: &Connection,
    format: Format,
    wanted: &Metrics,
) -> Result<()> {
    let (client, query) = connect(connection).await?;
    let mut found: Vec<Metric> = client.get(&path(&wanted.name, "/metrics"), &query).await?;
    if let Some(unknown) = wanted
        .metrics
        .iter()
        .find(|name| found.iter().all(|it| it.name != **name))
    {
        let known: Vec<&str> = found.iter().map(|metric| metric.name.as_str()).collect();
        let failure = Failure::theirs(format!("{} has no metric {unknown:?}", wanted.name));
        let hint = if known.is_empty() {
            "it has none yet; lines such as `loss=0.5` become metrics".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        return Err(failure.hint(hint).into());
    }
    found.retain(|metric| wanted.metrics.is_empty() || wanted.metrics.contains(&metric.name));
    let draws = std::io::stdout().is_terminal();
    output::print(format, &found, |_| draw(&found, draws))
}

pub(super) fn draw(metrics: &[Metric], draws: bool) -> String {
    if metrics.is_empty() {
        return "no metrics yet; lines such as `loss=0.5` become metrics\n".to_owned();
    }
    let rows: Vec<Vec<String>> = metrics.iter().map(row).collect();
    let mut text = output::table(&["METRIC", "LAST", "LOWEST", "HIGHEST", "POINTS"], &rows);
    if draws {
        for metric in metrics {
            let values = finite(metric);
            if values.len() > 1 {
                let _ = write!(text, "\n{}\n{}", metric.name.bold(), curve(&values));
            }
        }
    }
    text
}

fn row(metric: &Metric) -> Vec<String> {
    let values = finite(metric);
    let dash = |value: f64| {
        if value.is_finite() {
            shown(value)
        } else {
            "-".to_owned()
        }
    };
    vec![
        metric.name.clone(),
        match metric.value {
            MetricValue::Finite(value) => shown(value),
            other @ MetricValue::NotFinite(_) => other.to_string(),
        },
        dash(values.iter().copied().fold(f64::INFINITY, f64::min)),
        dash(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        metric.points.len().to_string(),
    ]
}

fn finite(metric: &Metric) -> Vec<f64> {
    let values = metric.points.iter().map(|point| point.value);
    let finite = values.filter_map(|value| match value {
        MetricValue::Finite(value) => Some(value),
        MetricValue::NotFinite(_) => None,
    });
    finite.collect()
}

/// Four digits that count.
fn shown(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Values in the order of time, as dots of Braille letters, with the highest and the lowest beside them.
fn curve(values: &[f64]) -> String {
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let (wide, tall) = (COLUMNS * 2, ROWS * 4);
    let mut dots = vec![[0_u8; COLUMNS]; ROWS];
    for x in 0..wide {
        let value = values[x * (values.len() - 1) / (wide - 1)];
        let span = if high > low { high - low } else { 1.0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a few dots"
        )]
        let y = ((high - value) / span * (tall - 1) as f64).round() as usize;
        // How Braille numbers its dots: three rows, and the fourth was added later.
        let dot = match (x % 2, y % 4) {
            (0, 3) => 6,
            (1, 3) => 7,
            (column, row) => column * 3 + row,
        };
        dots[y / 4][x / 2] |= 1 << dot;
    }
    let labels = [shown(high), shown(low)];
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (number, row) in dots.iter().enumerate() {
        let label = match number {
            0 => &labels[0],
            last if last == ROWS - 1 => &labels[1],
            _ => "",
        };
        let line: String = row.iter().map(|dots| braille(*dots)).collect();
        let _ = writeln!(
            text,
            "{label:>width$} ┤{}",
            line.trim_end_matches('\u{2800}')
        );
    }
    text
}

fn braille(dots: u8) -> char {
    char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_from_its_highest_to_its_lowest() {
        let values: Vec<f64> = (0..=100)
            .map(|step| 1.0 - f64::from(step) / 100.0)
            .collect();
        let text = curve(&values);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), ROWS);
        assert!(lines[0].starts_with("1 ┤⠉"), "{text}");
        assert!(lines[ROWS - 1].starts_with("0 ┤"), "{text}");
        assert!(lines[ROWS - 1].ends_with('⣀'), "{text}");
        // What never changes is a line, and not a division by nothing.
        assert!(curve(&[2.0, 2.0]).starts_with("2 ┤⠉⠉"));
    }

    #[test]
    fn numbers_keep_what_counts() {
        for (value, want) in [
            (0.5, "0.5"),
            (0.0, "0"),
            (1e-5, "1.00e-5"),
            (123.456_78, "123.4568"),
        ] {
            assert_eq!(shown(value), want);
        }
    }
}
