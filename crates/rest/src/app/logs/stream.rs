//! Following a job's log, and going on after a break.
//!
//! A follower is a position in each worker's files. The position after a line is that line's id,
//! so that a client that comes back with the last id it saw gets the next line: none is lost and
//! none comes twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{page, uid};
use crate::app::lease::Lease;
use crate::app::{Error, Result};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::logbook::Attempt;
use crate::logbook::recorder::started;
use crate::model::LogLine;
use crate::view::Job;
use crate::world::Key;

/// What a follower is sent.
#[derive(Debug)]
pub(crate) enum Item {
    Line {
        id: String,
        line: LogLine,
    },
    /// The job is over and everything has been sent.
    End,
}

/// Lines that are read at once from one file.
const BATCH: usize = 500;

/// Lines that wait for whoever follows, each of which may be long.
const WAITING: usize = 16;

/// The furthest place in a file.
const FURTHEST: u64 = 1 << 50;

/// How long lines are gathered while they keep coming.
const PACE: Duration = Duration::from_millis(20);

/// How long a follower waits before it looks again by itself.
const LOOK: Duration = Duration::from_secs(2);

/// Per worker: the attempt that is being read, and how far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(BTreeMap<i64, (String, u64)>);

impl Position {
    /// `worker:attempt:offset`, joined by commas. Whoever sends it may have made it up, and an attempt is a part of the name
    /// of a file.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut position = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut fields = part.split(':');
            let worker = fields.next()?.parse().ok()?;
            let attempt = fields.next()?.to_owned();
            let offset = fields.next()?.parse().ok()?;
            let named = attempt
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !named || offset > FURTHEST {
                return None;
            }
            position.0.insert(worker, (attempt, offset));
        }
        Some(position)
    }

    /// How far this attempt has been read.
    pub(super) fn offset(&self, attempt: &Attempt) -> u64 {
        match self.0.get(&attempt.worker) {
            Some((id, offset)) if *id == attempt.id => *offset,
            _ => 0,
        }
    }

    /// Whether this attempt is older than the one that is being read.
    pub(super) fn is_past(&self, attempt: &Attempt) -> bool {
        let reading = self.0.get(&attempt.worker);
        reading.is_some_and(|(id, _)| *id > attempt.id)
    }

    pub(super) fn set(&mut self, attempt: &Attempt, offset: u64) {
        self.0.insert(attempt.worker, (attempt.id.clone(), offset));
    }

    /// Puts a worker that has no place yet before its first line.
    pub(super) fn begin(&mut self, attempt: &Attempt) {
        let begun = self.0.entry(attempt.worker);
        begun.or_insert_with(|| (attempt.id.clone(), 0));
    }

    pub(super) fn attempts(&self) -> impl Iterator<Item = Attempt> + use<> {
        let places = self.0.clone().into_iter();
        places.map(|(worker, (id, _))| Attempt { worker, id })
    }

    pub(super) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.0.values().map(|(_, offset)| *offset)
    }

    pub(super) fn text(&self) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(worker, (attempt, offset))| format!("{worker}:{attempt}:{offset}"))
            .collect();
        parts.join(",")
    }
}

/// Follows the log of a job from a position, or its last lines first.
pub(crate) async fn follow(
    context: &Arc<Context>,
    caller: &Caller,
    token: Option<String>,
    key: Key,
    worker: Option<i64>,
    after: Option<&str>,
    tail: Option<usize>,
) -> Result<mpsc::Receiver<Item>> {
    let uid = uid(context, caller, &key, worker).await?;
    let position = match after {
        Some(after) => Position::parse(after)
            .ok_or_else(|| Error::invalid("Last-Event-ID", "is not an id of this stream"))?,
        None => Position::default(),
    };
    let skip = tail.filter(|_| after.is_none());
    let (sender, receiver) = mpsc::channel(WAITING);
    let context_ = Arc::clone(context);
    let mut access = Access::core("get", "pods", &key.namespace);
    access.subresource = "log";
    let lease = Lease {
        context: Arc::clone(context),
        caller: caller.clone(),
        token,
        access: Some(access),
    };
    context.tasks.spawn(async move {
        let follower = Follower {
            context: context_,
            key,
            uid,
            worker,
            position,
            sender,
        };
        tokio::select! {
            // An error here is that nobody listens any more.
            _ = follower.run(skip) => {}
            () = lease.ended() => {}
        }
    });
    Ok(receiver)
}

struct Follower {
    context: Arc<Context>,
    key: Key,
    uid: String,
    worker: Option<i64>,
    position: Position,
    sender: mpsc::Sender<Item>,
}

impl Follower {
    async fn run(mut self, tail: Option<usize>) -> Result<(), mpsc::error::SendError<Item>> {
        if let Some(tail) = tail {
            self.skip_to_tail(tail);
        }
        let mut grows = self.context.logbook.grows(&self.uid);
        loop {
            // In this order: what comes while this looks is looked at next.
            grows.mark_unchanged();
            let over = self.is_over();
            let sent = self.send_news().await?;
            if sent > 0 {
                // A line that comes alone was sent at once; of a flood, much is sent together.
                if sent < BATCH {
                    tokio::time::sleep(PACE).await;
                }
                continue;
            }
            if over {
                return self.sender.send(Item::End).await;
            }
            tokio::select! {
                _ = grows.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = self.sender.closed() => return Ok(()),
                () = self.context.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// Whether nothing more will be written. What ran so shortly that nobody has begun to record it
    /// is still to come.
    fn is_over(&self) -> bool {
        let book = &self.context.logbook;
        let Some(job) = Job::find(&self.context.world.mirrors, &self.key) else {
            return book.all_complete(&self.uid);
        };
        job.state().is_finished()
            && book.all_complete(&self.uid)
            && started(&job)
                .iter()
                .all(|(attempt, _)| book.is_complete(&self.uid, attempt))
    }

    /// Sends what is new in every file; tells how many lines that was.
    async fn send_news(&mut self) -> Result<usize, mpsc::error::SendError<Item>> {
        let book = &self.context.logbook;
        let attempts = book.attempts(&self.uid);
        let read = page::news(
            book,
            &self.uid,
            &attempts,
            self.worker,
            &self.position,
            BATCH,
        );
        let (news, _) = read.unwrap_or_default();
        let count = news.len();
        for (attempt, placed) in news {
            self.position.set(&attempt, placed.end);
            let item = Item::Line {
                id: self.position.text(),
                line: placed.line,
            };
            self.sender.send(item).await?;
        }
        Ok(count)
    }

    /// Moves to the last lines of each worker's last attempt.
    fn skip_to_tail(&mut self, tail: usize) {
        let book = &self.context.logbook;
        for attempt in book.latest(&self.uid, self.worker, false) {
            let length = book.length(&self.uid, &attempt);
            let last = book.last_lines(&self.uid, &attempt, 0..length, tail as u64);
            let start = last.map_or(length, |(start, _)| start);
            self.position.set(&attempt, start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_their_text() {
        let position = Position::parse("0:000000000010-0001:120,3:000000000009-0000:7").unwrap();
        assert_eq!(Position::parse(&position.text()), Some(position));
        assert_eq!(Position::parse(""), Some(Position::default()));
        for wrong in [
            "0:x",
            "0:/../../other/00000.x:0",
            "0:..:0",
            "0:a%2f:0",
            "0:x:18446744073709551615",
            "0:x:-1",
            "99999999999999999999:x:0",
        ] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
