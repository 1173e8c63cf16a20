//! Following a job's log, and going on after a break.
//!
//! A follower is a position in each worker's files. The position after a line is that line's id,
//! so that a client that comes back with the last id it saw gets the next line: none is lost and
//! none comes twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::uid;
use crate::app::{Error, Result};
use crate::context::Context;
use crate::identity::Caller;
use crate::logbook::Attempt;
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

/// How long a follower waits before it looks again by itself.
const LOOK: Duration = Duration::from_secs(2);

/// Per worker: the attempt that is being read, and how far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(BTreeMap<i64, (String, u64)>);

impl Position {
    /// `worker:attempt:offset`, joined by commas.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut position = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut fields = part.split(':');
            let worker = fields.next()?.parse().ok()?;
            let attempt = fields.next()?.to_owned();
            let offset = fields.next()?.parse().ok()?;
            position.0.insert(worker, (attempt, offset));
        }
        Some(position)
    }

    fn text(&self) -> String {
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
    key: Key,
    worker: Option<i64>,
    after: Option<&str>,
    tail: Option<usize>,
) -> Result<mpsc::Receiver<Item>> {
    let uid = uid(context, caller, &key).await?;
    let position = match after {
        Some(after) => Position::parse(after)
            .ok_or_else(|| Error::invalid("Last-Event-ID", "is not an id of this stream"))?,
        None => Position::default(),
    };
    let skip = tail.filter(|_| after.is_none());
    let (sender, receiver) = mpsc::channel(BATCH);
    let context_ = Arc::clone(context);
    context.tasks.spawn(async move {
        let follower = Follower {
            context: context_,
            key,
            uid,
            worker,
            position,
            sender,
        };
        // An error here is that nobody listens any more.
        let _ = follower.run(skip).await;
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
        loop {
            let grows = self.context.logbook.grows(&self.uid);
            let over = self.is_over();
            let sent = self.send_news().await?;
            if sent {
                continue;
            }
            if over {
                return self.sender.send(Item::End).await;
            }
            let growth = async {
                match grows {
                    Some(mut grows) => _ = grows.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = growth => {}
                () = tokio::time::sleep(LOOK) => {}
                () = self.sender.closed() => return Ok(()),
                () = self.context.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// Whether nothing more will be written.
    fn is_over(&self) -> bool {
        let job = Job::find(&self.context.world.read(), &self.key);
        let finished = job.is_none_or(|job| job.state().is_finished());
        finished && self.context.logbook.all_complete(&self.uid)
    }

    /// Sends what is new in every file; tells whether there was anything.
    async fn send_news(&mut self) -> Result<bool, mpsc::error::SendError<Item>> {
        let mut news = Vec::new();
        for attempt in self.attempts() {
            let from = match self.position.0.get(&attempt.worker) {
                Some((id, _)) if *id > attempt.id => continue,
                Some((id, offset)) if *id == attempt.id => *offset,
                _ => 0,
            };
            let read = self.context.logbook.read(&self.uid, &attempt, from, BATCH);
            let lines = read.unwrap_or_default();
            let full = lines.len() == BATCH;
            news.extend(
                lines
                    .into_iter()
                    .map(|(offset, line)| (attempt.clone(), offset, line)),
            );
            if full {
                // Later attempts of this worker wait until this one has been read.
                break;
            }
        }
        if news.is_empty() {
            return Ok(false);
        }
        // Each worker's lines stay in their order; between workers, time decides.
        news.sort_by_key(|(attempt, offset, line)| (line.time, attempt.clone(), *offset));
        for (attempt, offset, line) in news {
            self.position.0.insert(attempt.worker, (attempt.id, offset));
            self.sender
                .send(Item::Line {
                    id: self.position.text(),
                    line,
                })
                .await?;
        }
        Ok(true)
    }

    fn attempts(&self) -> Vec<Attempt> {
        let all = self.context.logbook.attempts(&self.uid).into_iter();
        all.filter(|attempt| self.worker.is_none_or(|worker| worker == attempt.worker))
            .collect()
    }

    /// Moves to the last lines of each worker's last attempt.
    fn skip_to_tail(&mut self, tail: usize) {
        for attempt in self.context.logbook.latest(&self.uid, self.worker, false) {
            let path = self.context.logbook.path(&self.uid, &attempt);
            let length = std::fs::metadata(path).map_or(0, |data| data.len());
            let lines = self
                .context
                .logbook
                .read(&self.uid, &attempt, 0, usize::MAX)
                .unwrap_or_default();
            let offset = match lines.len().checked_sub(tail + 1) {
                Some(at) => lines[at].0,
                None => 0,
            };
            self.position
                .0
                .insert(attempt.worker, (attempt.id, offset.min(length)));
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
        assert_eq!(Position::parse("0:x"), None);
    }
}
