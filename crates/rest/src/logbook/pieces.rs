//! Reading a part of an attempt's log, from any place, forwards and backwards.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use jiff::Timestamp;

use super::{Attempt, Logbook, line};
use crate::model::LogLine;

/// A piece has at most about so many bytes, however long its lines are: it is held as long as nobody reads it.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// How much is read at once: at least one line, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) lines: usize,
    bytes: u64,
}

impl Most {
    pub(crate) fn lines(lines: usize) -> Self {
        Self {
            lines,
            bytes: MOST_BYTES,
        }
    }

    /// The same for each of so many logs that are read together.
    pub(crate) fn of_each(self, logs: usize) -> Self {
        let bytes = self.bytes / (logs as u64).max(1);
        Self { bytes, ..self }
    }
}

/// A line with the bytes of the file that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) line: LogLine,
}

impl Logbook {
    /// How many bytes an attempt's log has.
    pub(crate) fn length(&self, uid: &str, attempt: &Attempt) -> u64 {
        std::fs::metadata(self.path(uid, attempt)).map_or(0, |data| data.len())
    }

    /// The lines from a place on, and whether more may follow.
    pub(crate) fn forwards(
        &self,
        uid: &str,
        attempt: &Attempt,
        from: u64,
        most: Most,
    ) -> io::Result<(Vec<Placed>, bool)> {
        let Some(mut file) = self.file(uid, attempt)? else {
            return Ok((Vec::new(), false));
        };
        file.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::new(file);
        let mut lines = Vec::new();
        let mut start = from;
        let mut bytes = Vec::new();
        while lines.is_empty() || lines.len() < most.lines && start - from < most.bytes {
            bytes.clear();
            let read = reader.read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                return Ok((lines, false));
            }
            let end = start + read as u64;
            lines.push(Placed {
                start,
                end,
                line: line(attempt.worker, &bytes),
            });
            start = end;
        }
        Ok((lines, true))
    }

    /// The lines that end at a place.
    pub(crate) fn backwards(
        &self,
        uid: &str,
        attempt: &Attempt,
        until: u64,
        most: Most,
    ) -> io::Result<Vec<Placed>> {
        let Some(mut file) = self.file(uid, attempt)? else {
            return Ok(Vec::new());
        };
        let until = until.min(file.metadata()?.len());
        // Most lines are short; twice the guess until there are enough, or too much.
        let mut window = ((most.lines as u64 + 1) * 128).min(most.bytes.max(1));
        loop {
            let from = until.saturating_sub(window);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.by_ref().take(until - from).read_to_end(&mut bytes)?;
            let lines = placed(attempt.worker, &bytes, from);
            if lines.len() >= most.lines || from == 0 || (window >= most.bytes && !lines.is_empty())
            {
                let skip = lines.len().saturating_sub(most.lines);
                return Ok(lines.into_iter().skip(skip).collect());
            }
            window = if lines.is_empty() {
                window * 2
            } else {
                (window * 2).min(most.bytes)
            };
        }
    }

    /// Where the last so many lines of a part of the log begin, and how many there are. Nothing of them
    /// is kept, however many they are.
    pub(crate) fn last_lines(
        &self,
        uid: &str,
        attempt: &Attempt,
        part: Range<u64>,
        most: u64,
    ) -> io::Result<(u64, u64)> {
        let Some(mut file) = self.file(uid, attempt)? else {
            return Ok((part.start, 0));
        };
        let mut block = vec![0; 64 << 10];
        let (mut end, mut found) = (part.end, 0);
        while end > part.start {
            let start = end.saturating_sub(block.len() as u64).max(part.start);
            let bytes = &mut block[..usize::try_from(end - start).unwrap_or(0)];
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(bytes)?;
            for at in memchr::memrchr_iter(b'\n', bytes) {
                // Each ends a line, and the one before the first that is wanted begins it.
                if found == most {
                    return Ok((start + at as u64 + 1, found));
                }
                found += 1;
            }
            end = start;
        }
        Ok((part.start, found))
    }

    /// Where the first line begins that is not older than `time`.
    pub(crate) fn place_of(
        &self,
        uid: &str,
        attempt: &Attempt,
        time: Timestamp,
    ) -> io::Result<u64> {
        let Some(file) = self.file(uid, attempt)? else {
            return Ok(0);
        };
        let mut high = file.metadata()?.len();
        let mut low = 0;
        // The lines of a file come in the order of time. `low` is always where a line begins.
        while high - low > 4096 {
            let middle = low + (high - low) / 2;
            let Some((start, found)) = line_after(&file, attempt.worker, middle)? else {
                high = middle;
                continue;
            };
            if start >= high || found.time.is_none_or(|at| at >= time) {
                high = middle;
            } else {
                low = start;
            }
        }
        loop {
            let (lines, more) = self.forwards(uid, attempt, low, Most::lines(1000))?;
            let reached = lines
                .iter()
                .find(|placed| placed.line.time.is_some_and(|at| at >= time));
            match (reached, lines.last()) {
                (Some(placed), _) => return Ok(placed.start),
                (None, Some(last)) if more => low = last.end,
                (None, last) => return Ok(last.map_or(low, |last| last.end)),
            }
        }
    }

    /// The time of the line at so many thousandths of the file.
    pub(crate) fn time_at(
        &self,
        uid: &str,
        attempt: &Attempt,
        thousandths: u64,
    ) -> io::Result<Option<Timestamp>> {
        let Some(file) = self.file(uid, attempt)? else {
            return Ok(None);
        };
        let at = file.metadata()?.len() / 1000 * thousandths.min(1000);
        Ok(line_after(&file, attempt.worker, at)?.and_then(|(_, line)| line.time))
    }

    fn file(&self, uid: &str, attempt: &Attempt) -> io::Result<Option<File>> {
        match File::open(self.path(uid, attempt)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The first whole line that begins behind `at`, or at the very start.
fn line_after(mut file: &File, worker: i64, at: u64) -> io::Result<Option<(u64, LogLine)>> {
    let from = at.saturating_sub(1);
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file);
    let mut start = from;
    let mut bytes = Vec::new();
    if at > 0 {
        start += reader.read_until(b'\n', &mut bytes)? as u64;
        bytes.clear();
    }
    reader.read_until(b'\n', &mut bytes)?;
    let whole = bytes.last() == Some(&b'\n');
    Ok(whole.then(|| (start, line(worker, &bytes))))
}

/// The whole lines of a part of a file that begins at `from`.
fn placed(worker: i64, bytes: &[u8], from: u64) -> Vec<Placed> {
    let skip = match from {
        0 => 0,
        _ => memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1),
    };
    let mut start = from + skip as u64;
    let lines = bytes[skip..].split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|bytes| bytes.last() == Some(&b'\n'))
        .map(|bytes| {
            let end = start + bytes.len() as u64;
            let placed = Placed {
                start,
                end,
                line: line(worker, bytes),
            };
            start = end;
            placed
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(count: usize) -> (tempfile::TempDir, Logbook, Attempt) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let attempt = Attempt::of_test(0, 1, 0);
        std::fs::create_dir_all(book.folder("u")).unwrap();
        #[expect(clippy::format_collect, reason = "a test's log")]
        let lines: String = (0..count)
            .map(|n| format!("2025-11-05T13:{:02}:{:02}Z line {n}\n", n / 60, n % 60))
            .collect();
        std::fs::write(book.path("u", &attempt), lines + "half a li").unwrap();
        (folder, book, attempt)
    }

    fn texts(lines: &[Placed]) -> Vec<&str> {
        lines
            .iter()
            .map(|placed| placed.line.text.as_str())
            .collect()
    }

    #[test]
    fn reading_back_and_forth_meets_at_the_same_place() {
        let (_folder, book, attempt) = book(1000);
        let end = book.length("u", &attempt);
        let last = book.backwards("u", &attempt, end, Most::lines(3)).unwrap();
        assert_eq!(texts(&last), ["line 997", "line 998", "line 999"]);
        let before = book
            .backwards("u", &attempt, last[0].start, Most::lines(2))
            .unwrap();
        assert_eq!(texts(&before), ["line 995", "line 996"]);
        let (again, more) = book
            .forwards("u", &attempt, before[0].start, Most::lines(3))
            .unwrap();
        assert_eq!(texts(&again), ["line 995", "line 996", "line 997"]);
        assert!(more);
        let (rest, more) = book
            .forwards("u", &attempt, last[2].start, Most::lines(3))
            .unwrap();
        assert_eq!((texts(&rest), more), (vec!["line 999"], false));
        let first = book
            .backwards("u", &attempt, again[0].start, Most::lines(5000))
            .unwrap();
        assert_eq!((first.len(), first[0].start), (995, 0));
    }

    #[test]
    fn long_lines_are_read_in_pieces_that_have_an_end() {
        let (_folder, book, attempt) = book(0);
        let lines: String = (0..100)
            .map(|n| format!("2025-11-05T13:{n:02}:00Z {}\n", "x".repeat(64 << 10)))
            .collect::<Vec<_>>()
            .concat();
        std::fs::write(book.path("u", &attempt), &lines).unwrap();
        let held = |read: &[Placed]| {
            read.iter()
                .map(|placed| placed.line.text.len())
                .sum::<usize>()
        };
        let line = 65 << 10;
        for (logs, most) in [(1, 1 << 20), (4, 256 << 10), (1000, 0)] {
            let wanted = Most::lines(5000).of_each(logs);
            let (mut from, mut count) = (0, 0);
            loop {
                let (read, more) = book.forwards("u", &attempt, from, wanted).unwrap();
                assert!(held(&read) <= most + line, "{logs} logs, from {from}");
                count += read.len();
                from = read.last().map_or(from, |placed| placed.end);
                if !more {
                    break;
                }
            }
            assert_eq!(count, 100, "{logs} logs");
            let end = lines.len() as u64;
            let read = book.backwards("u", &attempt, end, wanted).unwrap();
            assert_eq!(read.last().map(|placed| placed.end), Some(end));
            assert!(held(&read) <= 2 * (most + line), "{logs} logs, backwards");
        }
        let tail = book.tail("u", &attempt, 1000).unwrap();
        assert!(tail.len() < 20, "{} lines", tail.len());
    }

    #[test]
    fn a_time_is_found_wherever_it_lies() {
        let (_folder, book, attempt) = book(3000);
        for n in [0, 1, 700, 2999] {
            let time = format!("2025-11-05T13:{:02}:{:02}Z", n / 60, n % 60);
            let place = book.place_of("u", &attempt, time.parse().unwrap()).unwrap();
            let (found, _) = book.forwards("u", &attempt, place, Most::lines(1)).unwrap();
            assert_eq!(texts(&found), [format!("line {n}")]);
        }
        let late = "2026-01-01T00:00:00Z".parse().unwrap();
        let place = book.place_of("u", &attempt, late).unwrap();
        assert!(
            book.forwards("u", &attempt, place, Most::lines(1))
                .unwrap()
                .0
                .is_empty()
        );
    }
}
