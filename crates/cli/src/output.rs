//! Printing answers: as a table for people, as JSON or YAML for programs.

mod harmless;

use std::io::{self, IsTerminal, Write as _};

use anyhow::{Context, Result};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::args::Format;

/// Prints `value` in the format that was asked for; `table` draws it for people.
pub(crate) fn print<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(bool) -> String,
) -> Result<()> {
    let text = render(format, value, table)?;
    match format {
        // A program gets what there is, to the letter.
        Format::Json | Format::Yaml if !io::stdout().is_terminal() => {
            pass(io::stdout(), text.as_bytes())
        }
        _ => write(&text),
    }
}

/// The same as a text.
pub(crate) fn render<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(bool) -> String,
) -> Result<String> {
    Ok(match format {
        Format::Table => table(false),
        Format::Wide => table(true),
        Format::Json => serde_json::to_string_pretty(value)? + "\n",
        Format::Yaml => serde_saphyr::to_string(value)?,
    })
}

/// Whoever read our output has seen enough. It is raised where we write to it and nowhere else: a pipe may break in many
/// places, and only here is that no failure.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any longer")]
pub(crate) struct Unread;

/// Writes to standard output. Whatever of the text others wrote can colour a terminal and nothing else.
pub(crate) fn write(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let text = harmless::harmless(text);
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Says something beside the output. Whether anybody hears it, and whether it can be written, changes nothing.
pub(crate) fn say(text: &str) {
    let mut stream = anstream::stderr().lock();
    let text = harmless::harmless(text);
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
}

/// Moves the cursor of a terminal, also of one that wants no colours: those are taken from everything else.
pub(crate) fn steer(mut terminal: impl io::Write, sequence: &str) {
    let _ = terminal
        .write_all(sequence.as_bytes())
        .and_then(|()| terminal.flush());
}

/// Whether a terminal can do that.
pub(crate) fn can_be_steered(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Passes on to one of our own streams what a program elsewhere wrote.
pub(crate) fn pass(mut stream: impl io::Write, data: &[u8]) -> Result<()> {
    printed(stream.write_all(data).and_then(|()| stream.flush()))
}

/// What became of writing to one of our own streams.
pub(crate) fn printed(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Unread.into()),
        other => other.context("failed to write to the output"),
    }
}

/// Lines up cells under their headings, two spaces apart.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    let cells = |row: &Vec<String>| {
        let cells = row
            .iter()
            .map(|cell| harmless::on_one_line(cell).into_owned());
        cells.collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| (*heading).to_owned())
        .collect();
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(&rows) {
        let last = row.len().saturating_sub(1);
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column < last {
                text.extend(std::iter::repeat_n(' ', widths[column] - width(cell) + 2));
            }
        }
        text.push('\n');
    }
    text
}

/// How many columns a text takes on a terminal: escape sequences none, Hangul and the like two.
fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(str::width).sum()
}

/// A duration in at most two units, as `2h 5m`.
pub(crate) fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// Bytes in the largest unit that leaves a number above one.
pub(crate) fn bytes(amount: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut value = amount as f64;
    for unit in ["B", "Ki", "Mi", "Gi"] {
        if value < 1024.0 {
            return format!("{}{unit}", short(value));
        }
        value /= 1024.0;
    }
    format!("{}Ti", short(value))
}

/// A number with one decimal, or none where it is whole.
pub(crate) fn short(value: f64) -> String {
    if (value - value.round()).abs() < 0.05 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// A value, or a dash where there is none.
pub(crate) fn dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_under_hangul_and_colours() {
        let rows = vec![
            vec!["학습".to_owned(), "a".to_owned()],
            vec!["\u{1b}[31mred\u{1b}[0m".to_owned(), "b".to_owned()],
        ];
        let text = table(&["NAME", "X"], &rows);
        assert_eq!(text, "NAME  X\n학습  a\n\u{1b}[31mred\u{1b}[0m   b\n");
    }

    #[test]
    fn a_cell_of_many_lines_that_steers_the_terminal_is_one_cell() {
        let rows = vec![vec!["a\nb\u{1b}[2J".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["X", "Y"], &rows), "X    Y\na b  c\n");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(duration(59), "59s");
        assert_eq!(duration(3_725), "1h 2m");
        assert_eq!(duration(200_000), "2d 7h");
        assert_eq!(bytes(16 << 30), "16Gi");
        assert_eq!(bytes(1536), "1.5Ki");
    }
}
