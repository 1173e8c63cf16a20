//! What programs, jobs and other users wrote, as a terminal may be given it.
//!
//! A terminal obeys what it is shown: it can be made to write to the clipboard, to type an answer into the shell, to
//! overwrite lines that others wrote. Of all that only colours are left. It is decided within a line, so that nothing
//! that is begun and never ended hides what follows.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';

/// Longer commands to a terminal are shown as the text that they are.
const LONGEST: usize = 4096;

/// The text without what steers a terminal.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(steers) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len());
    shown.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(letter) = rest.chars().next() {
        let code = &rest[letter.len_utf8()..];
        let length = if letter == ESCAPE { sequence(code) } else { 0 };
        let (code, behind) = code.split_at(length);
        if is_colour(code) {
            shown.extend([ESCAPE]);
            shown.push_str(code);
        }
        let next = behind.find(steers).unwrap_or(behind.len());
        shown.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    Cow::Owned(shown)
}

/// The same on one line, for a place where others stand below.
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    let text = harmless(text);
    if text.contains(['\n', '\r', '\t']) {
        return Cow::Owned(text.replace(['\n', '\r', '\t'], " "));
    }
    text
}

/// Control characters but those of plain text, and what turns the direction of the text that follows.
fn steers(letter: char) -> bool {
    let plain = matches!(letter, '\n' | '\r' | '\t');
    letter.is_control() && !plain
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How many bytes behind an escape character belong to it; none where it is alone.
fn sequence(code: &str) -> usize {
    let bytes = code.as_bytes();
    let many = |from: usize, range: std::ops::RangeInclusive<u8>| {
        let rest = bytes.iter().skip(from);
        from + rest.take_while(|byte| range.contains(byte)).count()
    };
    let ended = |at: usize, range: std::ops::RangeInclusive<u8>| {
        let ends = bytes.get(at).is_some_and(|byte| range.contains(byte));
        if ends { at + 1 } else { 0 }
    };
    match bytes.first() {
        Some(b'[') => ended(many(many(1, 0x30..=0x3f), 0x20..=0x2f), 0x40..=0x7e),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let mut part = bytes.iter().take(LONGEST);
            match part.position(|byte| matches!(byte, 0x07 | 0x1b | b'\n')) {
                Some(at) if bytes[at] == 0x07 => at + 1,
                Some(at) if bytes[at..].starts_with(b"\x1b\\") => at + 2,
                _ => 0,
            }
        }
        Some(_) => ended(many(0, 0x20..=0x2f), 0x30..=0x7e),
        None => 0,
    }
}

/// Colours and the like, behind their escape character.
fn is_colour(code: &str) -> bool {
    let inner = code
        .strip_prefix('[')
        .and_then(|code| code.strip_suffix('m'));
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    inner.is_some_and(|inner| inner.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_are_left() {
        for (what, text, want) in [
            ("plain", "loss 0.5\tstep 3\n", "loss 0.5\tstep 3\n"),
            (
                "colours",
                "\u{1b}[1;38:5:196mred\u{1b}[0m",
                "\u{1b}[1;38:5:196mred\u{1b}[0m",
            ),
            ("the cursor", "a\u{1b}[2J\u{1b}[1;1H\u{1b}[3Ab", "ab"),
            ("the mouse", "\u{1b}[?1003h\u{1b}[?25lx", "x"),
            (
                "a question that the terminal types an answer to",
                "\u{1b}[6n\u{1b}[c\u{1b}P$qm\u{1b}\\x",
                "x",
            ),
            ("the clipboard", "\u{1b}]52;c;cm0gLXJmIH4K\u{7}x", "x"),
            ("the title", "\u{1b}]0;owned\u{1b}\\x", "x"),
            (
                "a link",
                "\u{1b}]8;;http://evil\u{1b}\\docs\u{1b}]8;;\u{1b}\\",
                "docs",
            ),
            (
                "begun and never ended",
                "\u{1b}]0;hides\nnext\n\u{1b}P\nlast",
                "]0;hides\nnext\nP\nlast",
            ),
            ("one within another", "\u{1b}]0;\u{1b}[2Jx\u{7}y", "]0;xy"),
            ("cut", "a\u{1b}[38;", "a[38;"),
            ("no colour at all", "\u{1b}[?1mx\u{1b}[ mx", "xx"),
            ("letters", "\u{1b}c\u{1b}(0\u{1b}#8x\u{1b}", "x"),
            (
                "one character codes",
                "a\u{9b}2Jb\u{9d}0;c\u{7}d\u{8}\u{7f}e\0",
                "a2Jb0;cde",
            ),
            ("backwards", "\u{202e}gnp.exe\u{2066}x", "gnp.exex"),
            (
                "letters of all sizes",
                "학\u{1b}[31m습\u{1b}é\u{1b}[",
                "학\u{1b}[31m습é[",
            ),
        ] {
            assert_eq!(harmless(text), want, "{what}");
            assert_eq!(harmless(&harmless(text)), want, "what was left of {what}");
        }
    }

    #[test]
    fn a_cell_is_one_line() {
        assert_eq!(on_one_line("a\r\n\u{1b}[Ab\tc"), "a  b c");
    }

    /// What a job prints in a loop must not take its reader's time: this is 64 kB, as long as a line can be.
    #[test]
    fn many_that_are_begun_end_soon() {
        let text = "\u{1b}]".repeat(32 << 10);
        assert_eq!(harmless(&text).len(), 32 << 10);
        let far = format!("\u{1b}]{}\u{7}", "x".repeat(LONGEST));
        assert_eq!(harmless(&far).len(), far.len() - 2);
    }
}
