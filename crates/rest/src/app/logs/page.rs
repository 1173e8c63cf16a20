//! A log of any length, read page by page: from its end, back from where one is, forward, or around a
//! moment. A reader holds a place (as a follower does) and never the whole log.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::stream::Position;
use super::uid;
use crate::app::{Error, Result};
use crate::context::Context;
use crate::identity::Caller;
use crate::logbook::{Attempt, Logbook, Most, Placed};
use crate::model::{LogAttempt, LogPage};
use crate::world::Key;

#[derive(Debug)]
pub(crate) enum Where {
    End,
    Before(Position),
    /// What comes behind it.
    After(Position),
    /// Some lines before a place in the log of one worker, and some from it on.
    Around(Position),
    /// Some lines before a moment, and some from it on.
    Time(Timestamp),
    /// How far through the log, in thousandths.
    Thousandths(u64),
}

/// What is read, and how much of it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) worker: Option<i64>,
    /// How many attempts back; 0 is the last one.
    pub(crate) back: usize,
    pub(crate) at: Where,
    pub(crate) limit: usize,
}

/// One page of the log of all workers or one, in the order of time.
pub(crate) async fn page(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
    wanted: Wanted,
) -> Result<LogPage> {
    let uid = uid(context, caller, key, wanted.worker).await?;
    let context = Arc::clone(context);
    let read = tokio::task::spawn_blocking(move || read(&context.logbook, &uid, &wanted));
    read.await.map_err(Error::disk)?.map_err(Error::disk)
}

/// The attempts of a job, the last one first.
pub(crate) async fn attempts(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
) -> Result<Vec<LogAttempt>> {
    let uid = uid(context, caller, key, None).await?;
    let book = &context.logbook;
    let mut attempts = Vec::new();
    for back in 0.. {
        let of_workers = book.earlier(&uid, None, back);
        if of_workers.is_empty() {
            break;
        }
        let mut started_at = None;
        let mut bytes = 0;
        for attempt in &of_workers {
            bytes += book.length(&uid, attempt);
            let (first, _) = book
                .forwards(&uid, attempt, 0, Most::lines(1))
                .map_err(Error::disk)?;
            let time = first.first().and_then(|placed| placed.line.time);
            started_at = [started_at, time].into_iter().flatten().min();
        }
        attempts.push(LogAttempt {
            back,
            workers: of_workers.iter().map(|attempt| attempt.worker).collect(),
            started_at,
            bytes,
        });
    }
    Ok(attempts)
}

fn read(book: &Logbook, uid: &str, wanted: &Wanted) -> std::io::Result<LogPage> {
    let attempts = book.earlier(uid, wanted.worker, wanted.back);
    let (before, after, around) = match &wanted.at {
        Where::End => (wanted.limit, 0, ends(book, uid, &attempts)),
        Where::Before(position) => (wanted.limit, 0, position.clone()),
        Where::After(position) => (0, wanted.limit, position.clone()),
        Where::Time(time) => {
            let half = wanted.limit / 2;
            (
                half,
                wanted.limit - half,
                moment(book, uid, &attempts, *time)?,
            )
        }
        Where::Around(place) => {
            let half = wanted.limit / 2;
            let around = around(book, uid, &attempts, place)?;
            (half, wanted.limit - half, around)
        }
        Where::Thousandths(part) => {
            let longest = attempts.iter().max_by_key(|one| book.length(uid, one));
            let time = longest
                .map(|one| book.time_at(uid, one, *part))
                .transpose()?;
            let half = wanted.limit / 2;
            let place = match time.flatten() {
                Some(time) => moment(book, uid, &attempts, time)?,
                None => ends(book, uid, &attempts),
            };
            (half, wanted.limit - half, place)
        }
    };
    // Where a worker is not in the position, it had not begun.
    let mut start = around;
    for attempt in &attempts {
        start.begin(attempt);
    }
    let mut end = start.clone();
    let mut lines = Vec::new();
    if before > 0 {
        let of: Vec<Attempt> = start.attempts().collect();
        let of: Vec<Attempt> = of
            .into_iter()
            .filter(|one| in_page(one, wanted.worker))
            .collect();
        let most = Most::lines(before).of_each(of.len());
        let mut found = Vec::new();
        // Before the first line of a worker that has more, nobody's lines can be put in order yet.
        let mut horizon: Option<Timestamp> = None;
        for attempt in of {
            let read = book.backwards(uid, &attempt, start.offset(&attempt), most)?;
            if let Some(first) = read.first().filter(|first| first.start > 0)
                && read.len() < before
            {
                horizon = horizon.max(first.line.time);
            }
            found.push((attempt, read));
        }
        let merged = merge(found);
        let within =
            |(_, placed): &(Attempt, Placed)| placed.line.time.is_none_or(|at| Some(at) >= horizon);
        let early = merged.iter().position(within).unwrap_or(0);
        let skip = merged.len().saturating_sub(before).max(early);
        // Each worker's place moves back to the first of its lines that is kept.
        for (attempt, placed) in merged[skip..].iter().rev() {
            start.set(attempt, placed.start);
        }
        lines.extend(merged.into_iter().skip(skip).map(|(_, placed)| placed.line));
    }
    if after > 0 {
        let later = match wanted.back {
            0 => book.attempts(uid),
            _ => attempts.clone(),
        };
        let (merged, _) = news(book, uid, &later, wanted.worker, &end, after)?;
        for (attempt, placed) in merged.into_iter().take(after) {
            end.set(&attempt, placed.end);
            lines.push(placed.line);
        }
    }
    let total_bytes = attempts.iter().map(|one| book.length(uid, one)).sum();
    Ok(LogPage {
        lines,
        first: start.offsets().all(|offset| offset == 0),
        start: start.text(),
        last: attempts
            .iter()
            .all(|one| end.offset(one) >= book.length(uid, one)),
        end: end.text(),
        start_byte: start.offsets().sum(),
        end_byte: end.offsets().sum(),
        total_bytes,
    })
}

/// What is new behind a position, in the order of time, and whether there may be more. Each worker
/// goes on with its next attempt when one is read to its end.
pub(super) fn news(
    book: &Logbook,
    uid: &str,
    attempts: &[Attempt],
    worker: Option<i64>,
    position: &Position,
    most: usize,
) -> std::io::Result<(Vec<(Attempt, Placed)>, bool)> {
    let attempts: Vec<&Attempt> = attempts.iter().filter(|one| in_page(one, worker)).collect();
    let workers: BTreeSet<i64> = attempts.iter().map(|one| one.worker).collect();
    let most = Most::lines(most).of_each(workers.len());
    let mut found: Vec<(Attempt, Vec<Placed>)> = Vec::new();
    let mut unfinished: Option<i64> = None;
    // Beyond the last line of a worker that has more, nobody's lines can be put in order yet.
    let mut horizon: Option<Timestamp> = None;
    for attempt in attempts {
        if unfinished == Some(attempt.worker) || position.is_past(attempt) {
            continue;
        }
        let from = position.offset(attempt);
        let (lines, more) = book.forwards(uid, attempt, from, most)?;
        if more {
            unfinished = Some(attempt.worker);
            let last = lines.iter().rev().find_map(|placed| placed.line.time);
            horizon = [horizon, last].into_iter().flatten().min();
        }
        found.push((attempt.clone(), lines));
    }
    let mut merged = merge(found);
    if let Some(horizon) = horizon {
        let within =
            |(_, placed): &(Attempt, Placed)| placed.line.time.is_none_or(|at| at <= horizon);
        let kept = merged.iter().take_while(|one| within(one)).count();
        // A clock that went backwards must not bring reading to a halt.
        merged.truncate(kept.max(1));
    }
    Ok((merged, unfinished.is_some()))
}

fn in_page(attempt: &Attempt, worker: Option<i64>) -> bool {
    worker.is_none_or(|wanted| wanted == attempt.worker)
}

/// Each worker's lines stay in their order; between workers, time decides.
fn merge(found: Vec<(Attempt, Vec<Placed>)>) -> Vec<(Attempt, Placed)> {
    let mut keyed = Vec::new();
    for (attempt, lines) in found {
        let mut latest = None;
        for placed in lines {
            latest = latest.max(placed.line.time);
            keyed.push((latest, attempt.clone(), placed));
        }
    }
    keyed.sort_by_key(|(time, _, _)| *time);
    let pairs = keyed.into_iter();
    pairs
        .map(|(_, attempt, placed)| (attempt, placed))
        .collect()
}

fn ends(book: &Logbook, uid: &str, attempts: &[Attempt]) -> Position {
    let mut position = Position::default();
    for attempt in attempts {
        position.set(attempt, book.length(uid, attempt));
    }
    position
}

/// The place itself for its own worker; for the others, where they were at that time.
fn around(
    book: &Logbook,
    uid: &str,
    attempts: &[Attempt],
    place: &Position,
) -> std::io::Result<Position> {
    let mut position = ends(book, uid, attempts);
    for attempt in place.attempts() {
        let (line, _) = book.forwards(uid, &attempt, place.offset(&attempt), Most::lines(1))?;
        if let Some(time) = line.first().and_then(|placed| placed.line.time) {
            position = moment(book, uid, attempts, time)?;
        }
        position.set(&attempt, place.offset(&attempt));
    }
    Ok(position)
}

fn moment(
    book: &Logbook,
    uid: &str,
    attempts: &[Attempt],
    time: Timestamp,
) -> std::io::Result<Position> {
    let mut position = Position::default();
    for attempt in attempts {
        position.set(attempt, book.place_of(uid, attempt, time)?);
    }
    Ok(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers that take turns: worker 0 prints at even seconds, worker 1 at odd ones.
    fn book() -> (tempfile::TempDir, Logbook) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        for worker in 0..2 {
            let attempt = Attempt::of_test(worker, 1, 0);
            #[expect(clippy::format_collect, reason = "a test's log")]
            let lines: String = (0..1000)
                .map(|n| n * 2 + worker)
                .map(|n| format!("2025-11-05T13:{:02}:{:02}Z {n}\n", n / 60, n % 60))
                .collect();
            let path = book.path("u", &attempt);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, lines).unwrap();
        }
        (folder, book)
    }

    fn page(book: &Logbook, at: Where, limit: usize) -> LogPage {
        let wanted = Wanted {
            worker: None,
            back: 0,
            at,
            limit,
        };
        read(book, "u", &wanted).unwrap()
    }

    fn numbers(page: &LogPage) -> Vec<i64> {
        let lines = page.lines.iter();
        lines.map(|line| line.text.parse().unwrap()).collect()
    }

    fn place(text: &str) -> Position {
        Position::parse(text).unwrap()
    }

    #[test]
    fn pages_from_the_end_to_the_start_are_the_whole_log_in_order() {
        let (_folder, book) = book();
        let mut page_ = page(&book, Where::End, 300);
        assert!(page_.last && !page_.first);
        let mut all = numbers(&page_);
        while !page_.first {
            page_ = page(&book, Where::Before(place(&page_.start)), 300);
            all.splice(0..0, numbers(&page_));
        }
        assert_eq!(all, (0..2000).collect::<Vec<i64>>());
        assert_eq!(page_.start_byte, 0);
    }

    #[test]
    fn pages_from_a_moment_on_reach_the_end() {
        let (_folder, book) = book();
        let time = "2025-11-05T13:10:00Z".parse().unwrap();
        let middle = page(&book, Where::Time(time), 10);
        assert_eq!(numbers(&middle), (595..605).collect::<Vec<i64>>());
        let mut next = page(&book, Where::After(place(&middle.end)), 500);
        let mut count = 605;
        while !next.lines.is_empty() {
            let read = numbers(&next);
            assert_eq!(
                read,
                (count..count + i64::try_from(read.len()).unwrap()).collect::<Vec<i64>>()
            );
            count += i64::try_from(read.len()).unwrap();
            next = page(&book, Where::After(place(&next.end)), 500);
        }
        assert_eq!(count, 2000);
        assert!(next.last);
        let half = page(&book, Where::Thousandths(500), 2);
        assert!((900..1100).contains(&numbers(&half)[0]));
    }

    #[test]
    fn a_page_is_read_around_a_line_of_one_worker() {
        let (_folder, book) = book();
        let lines = book
            .forwards("u", &Attempt::of_test(1, 1, 0), 0, Most::lines(1000))
            .unwrap();
        let wanted = &lines.0[300];
        let around = place(&format!(
            "1:{}:{}",
            Attempt::of_test(1, 1, 0).id,
            wanted.start
        ));
        let page = page(&book, Where::Around(around), 10);
        assert_eq!(numbers(&page), (596..606).collect::<Vec<i64>>());
        assert_eq!(wanted.line.text, "601");
    }

    #[test]
    fn news_are_in_order_although_one_worker_has_more() {
        let (_folder, book) = book();
        let mut position = Position::default();
        let mut all: Vec<i64> = Vec::new();
        loop {
            let attempts = book.attempts("u");
            let (news, _) = news(&book, "u", &attempts, None, &position, 100).unwrap();
            if news.is_empty() {
                break;
            }
            for (attempt, placed) in news {
                position.set(&attempt, placed.end);
                all.push(placed.line.text.parse().unwrap());
            }
        }
        assert_eq!(all, (0..2000).collect::<Vec<i64>>());
    }
}
