//! The work queue of a controller: which objects to look at, each at most once at a time.
//!
//! A key that is added while it waits is not added again, and one that is added while it is being worked on is
//! worked on once more afterwards, so that no change is missed and no object is reconciled by two workers.
//! Delays go by the injected clock. (kube-runtime's own scheduler hangs on tokio's timers, which a fake clock
//! cannot move; that is why this exists.)

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use astrago_api::ObjectKey;
use astrago_mirror::{Change, Kind, Mirror};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::clock::SharedClock;

/// A queue of keys, in order of arrival, without duplicates, with delays.
#[derive(Debug)]
pub struct Queue {
    clock: SharedClock,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<ObjectKey>,
    waiting: HashSet<ObjectKey>,
    running: HashSet<ObjectKey>,
    again: HashSet<ObjectKey>,
    delayed: BTreeSet<(Timestamp, ObjectKey)>,
    due: HashMap<ObjectKey, Timestamp>,
}

impl Queue {
    pub fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Work on `key` as soon as possible.
    pub fn add(&self, key: ObjectKey) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Works on what `find` makes of each object of `mirror`, of those that are known and whenever one changes.
    pub(crate) fn follow<K: Kind>(
        self: &Arc<Self>,
        mirror: &Mirror<K>,
        find: impl Fn(&K) -> Option<ObjectKey> + Send + Sync + 'static,
    ) {
        self.hear(mirror, move |change| find(change.latest()?));
    }

    /// Works on what `find` makes of each object of `mirror` that goes away.
    pub(crate) fn follow_ends<K: Kind>(
        self: &Arc<Self>,
        mirror: &Mirror<K>,
        find: impl Fn(&K) -> Option<ObjectKey> + Send + Sync + 'static,
    ) {
        self.hear(mirror, move |change| {
            find(change.old.as_ref().filter(|_| change.new.is_none())?)
        });
    }

    fn hear<K: Kind>(
        self: &Arc<Self>,
        mirror: &Mirror<K>,
        find: impl Fn(&Change<K>) -> Option<ObjectKey> + Send + Sync + 'static,
    ) {
        let queue = Arc::clone(self);
        mirror.subscribe(move |change| {
            if let Some(key) = find(change) {
                queue.add(key);
            }
        });
    }

    /// Work on `key` at `moment`, or earlier if something else asks for it. The earliest delay wins.
    pub fn add_at(&self, key: ObjectKey, moment: Timestamp) {
        let mut state = self.lock();
        if state.due.get(&key).is_some_and(|due| *due <= moment) {
            return;
        }
        if let Some(later) = state.due.insert(key.clone(), moment) {
            state.delayed.remove(&(later, key.clone()));
        }
        state.delayed.insert((moment, key));
        drop(state);
        self.changed.notify_one();
    }

    /// The next key to work on. The caller must call [`Queue::finish`] with it afterwards.
    pub async fn next(&self) -> ObjectKey {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut state = self.lock();
                state.release_due(self.clock.now());
                if let Some(key) = state.take() {
                    return key;
                }
                state.delayed.first().map(|(moment, _)| *moment)
            };
            match wake {
                Some(moment) => tokio::select! {
                    () = changed => {}
                    () = self.clock.sleep_until(moment) => {}
                },
                None => changed.await,
            }
        }
    }

    /// The work on `key` is done; it may be handed out again.
    pub fn finish(&self, key: &ObjectKey) {
        let mut state = self.lock();
        state.running.remove(key);
        if state.again.remove(key) {
            state.add(key.clone());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// How many keys wait or are being worked on now, delayed ones not counted.
    pub fn busy(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + state.running.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: ObjectKey) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn release_due(&mut self, now: Timestamp) {
        while let Some((moment, _)) = self.delayed.first() {
            if *moment > now {
                break;
            }
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self) -> Option<ObjectKey> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;
    use crate::clock::SystemClock;

    fn queue() -> Queue {
        Queue::new(Arc::new(SystemClock))
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    #[test]
    fn a_key_that_waits_is_not_added_twice() {
        let queue = queue();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().now_or_never(), Some(key("a")));
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[test]
    fn a_key_in_work_is_handed_out_only_after_it_is_finished() {
        let queue = queue();
        queue.add(key("a"));
        assert_eq!(queue.next().now_or_never(), Some(key("a")));
        queue.add(key("a"));
        assert_eq!(queue.next().now_or_never(), None);
        queue.finish(&key("a"));
        assert_eq!(queue.next().now_or_never(), Some(key("a")));
        queue.finish(&key("a"));
        assert_eq!(queue.busy(), 0);
    }

    #[tokio::test]
    async fn the_earliest_delay_wins() {
        let queue = queue();
        queue.add_at(key("a"), Timestamp::MAX);
        assert_eq!(queue.next().now_or_never(), None);
        queue.add_at(key("a"), Timestamp::UNIX_EPOCH);
        queue.add_at(key("a"), Timestamp::MAX);
        assert_eq!(queue.next().now_or_never(), Some(key("a")));
        queue.finish(&key("a"));
        assert_eq!(queue.next().now_or_never(), None);
    }
}
