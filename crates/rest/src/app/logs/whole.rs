//! A log of any length, from its start or its last lines on, in the order of time. Only a few lines of
//! each worker are held at a time.

use std::io;
use std::sync::Arc;

use futures::Stream;
use jiff::Timestamp;

use super::page;
use super::stream::Position;
use crate::context::Context;
use crate::logbook::{Attempt, Logbook};
use crate::model::LogLine;

/// Lines that are read at once, of all workers together; of each, at least [`FEWEST`].
const BATCH: usize = 5000;
const FEWEST: usize = 50;

/// Where reading stands.
struct Reading {
    attempts: Vec<Attempt>,
    position: Position,
    /// How long each attempt's log was at first; what is written later is not waited for.
    until: Vec<u64>,
    /// Lines that come before those that are wanted.
    skip: u64,
}

/// The lines of these attempts in batches: all of them, or only the last ones; from a moment on, if one is given.
pub(super) fn lines(
    context: &Arc<Context>,
    uid: String,
    attempts: Vec<Attempt>,
    tail: Option<u64>,
    since: Option<Timestamp>,
) -> impl Stream<Item = io::Result<Vec<LogLine>>> + Send + use<> {
    let context = Arc::clone(context);
    futures::stream::try_unfold(None, move |reading| {
        let (context, uid, attempts) = (Arc::clone(&context), uid.clone(), attempts.clone());
        async move {
            let step = tokio::task::spawn_blocking(move || {
                let book = &context.logbook;
                let mut reading = match reading {
                    Some(reading) => reading,
                    None => Reading::begin(book, &uid, attempts, tail, since)?,
                };
                let lines = reading.next(book, &uid)?;
                Ok::<_, io::Error>(lines.map(|lines| (lines, Some(reading))))
            });
            step.await.map_err(io::Error::other)?
        }
    })
}

impl Reading {
    fn begin(
        book: &Logbook,
        uid: &str,
        attempts: Vec<Attempt>,
        tail: Option<u64>,
        since: Option<Timestamp>,
    ) -> io::Result<Self> {
        let mut position = Position::default();
        let mut until = Vec::new();
        let mut total = 0;
        for attempt in &attempts {
            let length = book.length(uid, attempt);
            let mut from = match since {
                Some(since) => book.place_of(uid, attempt, since)?,
                None => 0,
            };
            if let Some(tail) = tail {
                let (start, count) = book.last_lines(uid, attempt, from..length, tail)?;
                from = start;
                total += count;
            }
            position.set(attempt, from);
            until.push(length);
        }
        Ok(Self {
            attempts,
            position,
            until,
            skip: tail.map_or(0, |tail| total.saturating_sub(tail)),
        })
    }

    /// The next lines, at the end `None`.
    fn next(&mut self, book: &Logbook, uid: &str) -> io::Result<Option<Vec<LogLine>>> {
        let most = (BATCH / self.attempts.len().max(1)).max(FEWEST);
        loop {
            let pairs = self.attempts.iter().zip(&self.until);
            let left: Vec<Attempt> = pairs
                .filter(|(attempt, until)| self.position.offset(attempt) < **until)
                .map(|(attempt, _)| attempt.clone())
                .collect();
            let (news, _) = page::news(book, uid, &left, None, &self.position, most)?;
            if news.is_empty() {
                return Ok(None);
            }
            let mut lines = Vec::with_capacity(news.len());
            for (attempt, placed) in news {
                self.position.set(&attempt, placed.end);
                if self.skip > 0 {
                    self.skip -= 1;
                } else {
                    lines.push(placed.line);
                }
            }
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three workers, of which the second prints twice as much as the others.
    fn book() -> (tempfile::TempDir, Logbook, Vec<Attempt>) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let mut texts = vec![String::new(); 3];
        for n in 0..8000_usize {
            let worker = [0, 1, 2, 1][n % 4];
            let line = format!(
                "2025-11-05T{:02}:{:02}:{:02}Z {n}\n",
                n / 3600,
                n / 60 % 60,
                n % 60
            );
            texts[worker].push_str(&line);
        }
        let attempts: Vec<Attempt> = (0..3)
            .map(|worker| Attempt::of_test(worker, 1, 0))
            .collect();
        for (attempt, text) in attempts.iter().zip(texts) {
            let path = book.path("u", attempt);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text + "half a li").unwrap();
        }
        (folder, book, attempts)
    }

    fn read(tail: Option<u64>, since: Option<&str>) -> Vec<usize> {
        let (_folder, book, attempts) = book();
        let since = since.map(|since| since.parse().unwrap());
        let mut reading = Reading::begin(&book, "u", attempts, tail, since).unwrap();
        let mut all = Vec::new();
        while let Some(lines) = reading.next(&book, "u").unwrap() {
            assert!(lines.len() <= BATCH, "{}", lines.len());
            all.extend(lines.iter().map(|line| line.text.parse::<usize>().unwrap()));
        }
        all
    }

    #[test]
    fn all_of_a_log_or_its_end_is_read_in_order() {
        let numbers = |from: usize| (from..8000).collect::<Vec<_>>();
        assert_eq!(read(None, None), numbers(0));
        assert_eq!(read(Some(10), None), numbers(7990));
        assert_eq!(read(Some(7000), None), numbers(1000));
        assert_eq!(read(Some(100_000), None), numbers(0));
        assert_eq!(read(Some(0), None), Vec::<usize>::new());
        assert_eq!(read(None, Some("2025-11-05T02:00:00Z")), numbers(7200));
        assert_eq!(read(Some(3), Some("2025-11-05T02:00:00Z")), numbers(7997));
    }
}
