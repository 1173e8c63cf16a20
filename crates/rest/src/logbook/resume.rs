//! Where a log goes on that is read once more.
//!
//! A node has what it still keeps of a container's log: from its beginning or, where older files of it were rotated away,
//! from somewhere in the middle. If that begins as our file does, the lines of our file are its first ones, and counting
//! them is exact. If it does not, time tells which lines we have; and near our last one, where lines of two pipes may be
//! out of order, their content does.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use jiff::{SignedDuration, Timestamp};

use super::{Attempt, Logbook, Most, line};
use crate::model::LogLine;

/// Lines that are further apart than this are in order.
const DISORDER: SignedDuration = SignedDuration::from_secs(5);

/// How many lines are read at once, and how many of the last ones are asked for their time: the parts of a line that was
/// too long have none.
const BATCH: usize = 1000;

/// Which of the lines that come are in our file.
pub(super) enum Known {
    None,
    /// The first so many.
    First(usize),
    /// Some of them.
    Some(Recent),
    /// The first `lines`, if the first of all has this digest; else some.
    Undecided {
        first: u64,
        lines: usize,
        recent: Recent,
    },
}

#[derive(Default)]
pub(super) struct Recent {
    newest: Option<Timestamp>,
    /// How often each line near the end occurs, by its digest.
    lines: HashMap<u64, usize>,
    /// The time of the line that came last.
    time: Option<Timestamp>,
}

impl Known {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// What is left of some whole lines without those in the file.
    pub(super) fn without<'lines>(&mut self, whole: &'lines [u8]) -> Cow<'lines, [u8]> {
        let mut rest = whole;
        let mut unknown = Vec::new();
        while !rest.is_empty() && !self.is_none() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (next, behind) = rest.split_at(end);
            // The number of the worker is no part of a file.
            if !self.has(&line(0, next)) {
                unknown.extend_from_slice(next);
            }
            rest = behind;
        }
        if unknown.is_empty() {
            return Cow::Borrowed(rest);
        }
        unknown.extend_from_slice(rest);
        Cow::Owned(unknown)
    }

    fn has(&mut self, next: &LogLine) -> bool {
        match std::mem::replace(self, Self::None) {
            Self::None => false,
            Self::Undecided { first, lines, .. } if first == digest(next) => {
                *self = Self::after(lines);
                true
            }
            Self::First(lines) => {
                *self = Self::after(lines);
                true
            }
            Self::Some(mut recent) | Self::Undecided { mut recent, .. } => {
                let known = recent.has(next);
                if !recent.is_past() {
                    *self = Self::Some(recent);
                }
                known
            }
        }
    }

    /// What is known behind the first of so many lines.
    fn after(lines: usize) -> Self {
        match lines {
            0 | 1 => Self::None,
            more => Self::First(more - 1),
        }
    }
}

impl Recent {
    fn has(&mut self, next: &LogLine) -> bool {
        self.time = next.time.or(self.time);
        let is_old = |(time, newest): (Timestamp, Timestamp)| time < newest - DISORDER;
        if self.time.zip(self.newest).is_some_and(is_old) {
            return true;
        }
        let Some(count) = self.lines.get_mut(&digest(next)) else {
            return false;
        };
        let known = *count > 0;
        *count = count.saturating_sub(1);
        known
    }

    /// Whether nothing of the file can come any more.
    fn is_past(&self) -> bool {
        let both = self.time.zip(self.newest);
        both.is_some_and(|(time, newest)| time > newest + DISORDER)
    }
}

impl Logbook {
    /// Which lines of an attempt are in its file, which has so many.
    pub(super) fn known(&self, uid: &str, attempt: &Attempt, lines: usize) -> io::Result<Known> {
        let (beginning, _) = self.forwards(uid, attempt, 0, Most::lines(1))?;
        let Some(first) = beginning.first() else {
            return Ok(Known::None);
        };
        let length = self.length(uid, attempt);
        let last = self.backwards(uid, attempt, length, Most::lines(BATCH))?;
        let newest = last.iter().filter_map(|placed| placed.line.time).max();
        let mut recent = Recent {
            newest,
            ..Recent::default()
        };
        let mut from = match newest {
            // Further back than lines are compared, because those are not quite in order either.
            Some(newest) => self.place_of(uid, attempt, newest - DISORDER - DISORDER)?,
            None => last.first().map_or(0, |placed| placed.start),
        };
        loop {
            let (some, more) = self.forwards(uid, attempt, from, Most::lines(BATCH))?;
            for placed in &some {
                *recent.lines.entry(digest(&placed.line)).or_default() += 1;
                from = placed.end;
            }
            if !more || some.is_empty() {
                break;
            }
        }
        Ok(Known::Undecided {
            first: digest(&first.line),
            lines,
            recent,
        })
    }
}

fn digest(line: &LogLine) -> u64 {
    let mut hasher = DefaultHasher::new();
    (line.time, &line.text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `second:text`, or the text alone for a line without a time, in the order in which they came.
    fn log(lines: &str) -> String {
        let one = |part: &str| match part.split_once(':') {
            Some((second, text)) => format!("2025-11-05T13:00:{second}Z {text}\n"),
            None => format!("{part}\n"),
        };
        lines.split_whitespace().map(one).collect()
    }

    #[rstest]
    #[case::all_there("01:a 02:b", "01:a 02:b 03:c", "03:c")]
    #[case::nothing_written("", "01:a 02:b", "01:a 02:b")]
    #[case::nothing_new("01:a 02:b", "01:a 02:b", "")]
    #[case::rotated_among_ours("01:a 02:b 30:c", "30:c 31:d", "31:d")]
    #[case::rotated_behind_ours("01:a 02:b", "40:x 41:y 42:z", "40:x 41:y 42:z")]
    #[case::the_same_text_at_another_time("01:a 02:a 03:a", "03:a 04:a 05:a", "04:a 05:a")]
    #[case::twice_at_the_same_time("01:a 30:b 30:b", "30:b 30:b 30:b", "30:b")]
    #[case::out_of_order("01:a 31:b", "31:b 30:late 32:c", "30:late 32:c")]
    #[case::without_a_time("01:a 30:b part", "30:b part 31:c part", "31:c part")]
    #[case::a_clock_that_went_back("01:a 50:b", "01:a 50:b 20:c", "20:c")]
    #[case::old_lines_that_are_not_the_last_ones(
        "01:a 02:b 03:c 30:d",
        "02:b 03:c 30:d 31:e",
        "31:e"
    )]
    fn every_line_is_taken_once(#[case] ours: &str, #[case] theirs: &str, #[case] want: &str) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let attempt = Attempt::of_test(0, 1, 0);
        std::fs::create_dir_all(book.folder("u")).unwrap();
        std::fs::write(book.path("u", &attempt), log(ours)).unwrap();
        let count = ours.split_whitespace().count();
        let theirs = log(theirs);
        // In one piece, and line by line.
        let mut known = book.known("u", &attempt, count).unwrap();
        let got = known.without(theirs.as_bytes()).into_owned();
        assert_eq!(String::from_utf8(got).unwrap(), log(want));
        let mut known = book.known("u", &attempt, count).unwrap();
        let lines = theirs.split_inclusive('\n');
        let got = lines.flat_map(|line| known.without(line.as_bytes()).into_owned());
        assert_eq!(String::from_utf8(got.collect()).unwrap(), log(want));
    }
}
