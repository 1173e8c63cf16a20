//! Searching the logs of a job, over all workers, line by line.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

use super::{Attempt, Logbook};
use crate::model::{SearchHit, SearchResult};

/// The most bytes of lines in a result, however long they are and however often one is near a hit.
const MOST_BYTES: usize = 4 << 20;

/// What is looked for.
pub(crate) enum Query {
    /// These very letters.
    Plain(String),
    Pattern(Regex),
}

impl Query {
    /// A pattern, or what is wrong with it.
    pub(crate) fn pattern(text: &str) -> Result<Self, String> {
        // The limit keeps a hostile pattern from taking the memory of the server.
        let built = RegexBuilder::new(text).size_limit(1 << 20).build();
        built.map(Self::Pattern).map_err(|error| error.to_string())
    }
}

/// Searches these attempts; `context` lines are given around each hit.
pub(crate) fn search(
    book: &Logbook,
    uid: &str,
    attempts: &[Attempt],
    query: &Query,
    context: usize,
    limit: usize,
) -> io::Result<SearchResult> {
    let mut result = SearchResult {
        hits: Vec::new(),
        searched: 0,
        truncated: false,
    };
    for attempt in attempts {
        let file = match File::open(book.path(uid, attempt)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        search_one(file, attempt, query, context, limit, &mut result)?;
        if result.truncated {
            break;
        }
    }
    Ok(result)
}

fn search_one(
    file: File,
    attempt: &Attempt,
    query: &Query,
    context: usize,
    limit: usize,
    result: &mut SearchResult,
) -> io::Result<()> {
    let finder = match query {
        Query::Plain(text) => Some(Finder::new(text.as_bytes())),
        Query::Pattern(_) => None,
    };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut before: VecDeque<String> = VecDeque::with_capacity(context);
    let first = result.hits.len();
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut end = 0;
    let mut held: usize = result.hits.iter().map(size).sum();
    loop {
        bytes.clear();
        let read = reader.read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        let offset = end;
        end += read;
        number += 1;
        result.searched += 1;
        // The time before the text is ours and is not searched.
        let start = memchr::memchr(b' ', &bytes).map_or(0, |at| at + 1);
        let text = without_colours(bytes[start..].trim_ascii_end());
        let found = match query {
            Query::Plain(_) => finder
                .as_ref()
                .is_some_and(|finder| finder.find(&text).is_some()),
            Query::Pattern(pattern) => pattern.is_match(&text),
        };
        // Text is only made where it is shown.
        let waiting = result.hits[first..]
            .iter()
            .rev()
            .take(context + 1)
            .any(|hit| hit.line + context >= number);
        if !found && !waiting && context == 0 {
            continue;
        }
        let line = super::line(attempt.worker, &bytes);
        for hit in result.hits[first..].iter_mut().rev().take(context + 1) {
            if hit.line < number && number <= hit.line + context {
                hit.after.push(line.text.clone());
                held += line.text.len();
            }
        }
        if found {
            if result.hits.len() >= limit || held >= MOST_BYTES {
                result.truncated = true;
                return Ok(());
            }
            let before: Vec<String> = before.iter().cloned().collect();
            let hit = SearchHit {
                worker: attempt.worker,
                line: number,
                place: format!("{}:{}:{offset}", attempt.worker, attempt.id),
                time: line.time,
                text: line.text.clone(),
                before,
                after: Vec::new(),
            };
            held += size(&hit);
            result.hits.push(hit);
        }
        if context > 0 {
            if before.len() == context {
                before.pop_front();
            }
            before.push_back(line.text);
        }
    }
}

fn size(hit: &SearchHit) -> usize {
    let around = hit.before.iter().chain(&hit.after);
    hit.text.len() + around.map(String::len).sum::<usize>()
}

/// The text as a terminal shows it: colours in the middle of a word must not hide the word.
fn without_colours(text: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if memchr::memchr(ESCAPE, text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut shown = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        shown.extend_from_slice(&rest[..at]);
        let code = &rest[at + 1..];
        // `[`, numbers, and a letter that ends it.
        let length = match code.strip_prefix(b"[") {
            Some(numbers) => numbers
                .iter()
                .position(u8::is_ascii_alphabetic)
                .map_or(code.len(), |end| end + 2),
            None => 0,
        };
        rest = &code[length..];
    }
    shown.extend_from_slice(rest);
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> (tempfile::TempDir, Logbook) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        std::fs::create_dir_all(book.folder("u")).unwrap();
        let lines: Vec<String> = (1..=10)
            .map(|n| format!("2025-11-05T13:00:00Z line {n}\n"))
            .collect();
        let text = lines.concat();
        std::fs::write(book.path("u", &Attempt::of_test(0, 1, 0)), text).unwrap();
        (folder, book)
    }

    #[test]
    fn hits_come_with_their_surroundings() {
        let (_folder, book) = book();
        let query = Query::Plain("line 5".to_owned());
        let result = search(&book, "u", &book.attempts("u"), &query, 2, 10).unwrap();
        assert_eq!(result.searched, 10);
        assert_eq!(result.hits.len(), 1);
        let hit = &result.hits[0];
        assert_eq!((hit.line, hit.text.as_str()), (5, "line 5"));
        // Four lines of 28 bytes lie before it.
        assert!(hit.place.ends_with(":112"), "{}", hit.place);
        assert_eq!(hit.before, ["line 3", "line 4"]);
        assert_eq!(hit.after, ["line 6", "line 7"]);
    }

    #[test]
    fn colours_do_not_hide_words() {
        assert_eq!(*without_colours(b"\x1b[1;31mst\x1b[0mep 1"), *b"step 1");
        assert_eq!(*without_colours(b"step\x1b"), *b"step");
        assert_eq!(*without_colours(b"\x1b[3"), *b"");
        assert_eq!(*without_colours(b"plain"), *b"plain");
    }

    #[test]
    fn patterns_match_the_text_and_not_its_time() {
        let (_folder, book) = book();
        let query = Query::pattern("^line [12]$").unwrap();
        let result = search(&book, "u", &book.attempts("u"), &query, 0, 10).unwrap();
        assert_eq!(
            result.hits.iter().map(|hit| hit.line).collect::<Vec<_>>(),
            [1, 2]
        );
        let none = search(
            &book,
            "u",
            &book.attempts("u"),
            &Query::Plain("2025".to_owned()),
            0,
            10,
        )
        .unwrap();
        assert!(none.hits.is_empty());
    }

    #[test]
    fn long_lines_that_are_found_have_an_end() {
        let (_folder, book) = book();
        let lines = format!("2025-11-05T13:00:00Z {}\n", "x".repeat(64 << 10)).repeat(300);
        std::fs::write(book.path("u", &Attempt::of_test(0, 1, 0)), lines).unwrap();
        let query = Query::Plain("x".to_owned());
        let result = search(&book, "u", &book.attempts("u"), &query, 20, 1000).unwrap();
        let held: usize = result.hits.iter().map(size).sum();
        // The last hit comes with what is around it.
        assert!(
            result.truncated && held < MOST_BYTES + ((42 * 65) << 10),
            "{held}"
        );
    }

    #[test]
    fn there_is_an_end_to_the_hits() {
        let (_folder, book) = book();
        let result = search(
            &book,
            "u",
            &book.attempts("u"),
            &Query::Plain("line".to_owned()),
            0,
            3,
        )
        .unwrap();
        assert_eq!(result.hits.len(), 3);
        assert!(result.truncated);
        assert!(Query::pattern("(").is_err());
    }
}
