//! Watches: a cursor into a shard's ring, and a wake-up when the shard changes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use super::shard::{Event, Shard};
use super::{Shared, Store, read};

/// The history that was asked for is no longer kept.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the history begins after revision {oldest}")]
pub struct Expired {
    pub oldest: u64,
}

/// The events of one resource after some revision, in order, each once.
pub struct Watch {
    shared: Arc<Shared>,
    shard: Arc<RwLock<Shard>>,
    wake: watch::Receiver<u64>,
    cursor: u64,
}

impl Store {
    /// Watches a resource from just after `revision`.
    pub fn watch(&self, resource: &Arc<str>, revision: u64) -> Result<Watch, Expired> {
        let shard = self.shared.shard_or_new(resource);
        let guard = read(&shard);
        if revision < guard.compacted {
            return Err(Expired {
                oldest: guard.compacted,
            });
        }
        let wake = guard.wake.subscribe();
        drop(guard);
        Ok(Watch {
            shared: Arc::clone(&self.shared),
            shard,
            wake,
            cursor: revision,
        })
    }
}

impl Watch {
    /// The oldest events since the last call, without waiting: one, and more while there is room for their objects in so
    /// many bytes. Nobody who takes them slowly keeps more than these from being forgotten.
    pub fn take(&mut self, bytes: usize) -> Result<Vec<Event>, Expired> {
        self.wake.mark_unchanged();
        // Read before the shard: afterwards the cursor may be moved up to it, because every event of
        // this shard up to here has been applied.
        let complete = self.shared.revision.load(Ordering::Acquire);
        let shard = read(&self.shard);
        let events = shard.events_after(self.cursor).ok_or(Expired {
            oldest: shard.compacted,
        })?;
        let (mut taken, mut size) = (Vec::new(), 0);
        for event in events {
            if size >= bytes {
                let last = taken.last().map_or(0, |last: &Event| last.object.revision);
                self.cursor = self.cursor.max(last);
                return Ok(taken);
            }
            size += event.object.json.len();
            taken.push(event.clone());
        }
        self.cursor = self.cursor.max(complete).max(shard.revision);
        Ok(taken)
    }

    /// Waits until there may be something to take.
    pub async fn changed(&mut self) {
        // The sender lives in the shard, which this watch keeps alive.
        let _ = self.wake.changed().await;
    }

    /// Everything up to this revision has been taken.
    pub fn revision(&self) -> u64 {
        self.cursor
    }
}
