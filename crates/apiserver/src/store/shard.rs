//! One resource's share of the cache: current objects, their index, and the ring of recent events.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::object::{Name, Object};

/// How a revision changed an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub change: Change,
    pub object: Arc<Object>,
    /// The state that this event replaced.
    pub previous: Option<Arc<Object>>,
}

impl Event {
    /// The states that no reader of the present needs: what was replaced, and the last state of what was deleted.
    fn superseded(&self) -> impl Iterator<Item = &Arc<Object>> {
        let deleted = (self.change == Change::Deleted).then_some(&self.object);
        self.previous.iter().chain(deleted)
    }
}

/// Bounds of a ring. Two numbers, because a resource may have many small or few large objects.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub events: usize,
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events: 4096,
            bytes: 4 << 20,
        }
    }
}

/// The state of one resource, behind a lock of its own.
#[derive(Debug)]
pub(super) struct Shard {
    objects: BTreeMap<Name, Arc<Object>>,
    index: HashMap<Box<str>, BTreeSet<Name>>,
    ring: VecDeque<Event>,
    ring_bytes: usize,
    /// Events at or below this revision are gone.
    pub(super) compacted: u64,
    /// Events at or below this revision are kept in memory only, if at all.
    unloaded: u64,
    /// The newest revision applied here.
    pub(super) revision: u64,
    pub(super) wake: watch::Sender<u64>,
}

impl Shard {
    pub(super) fn new(compacted: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            index: HashMap::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            compacted,
            unloaded: 0,
            revision: compacted,
            wake: watch::Sender::new(0),
        }
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Arc<Object>> {
        self.objects.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Objects of a namespace (all when empty), after `after`, in order; taken from the index when
    /// `terms` says that all of them carry certain labels or fields.
    pub(super) fn range<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&Name>,
        terms: &[Box<str>],
    ) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
        let start = match after {
            Some(name) => Bound::Excluded(name.clone()),
            None => Bound::Included(Name::new(namespace, "")),
        };
        let inside = move |name: &Name| namespace.is_empty() || &*name.namespace == namespace;
        if terms.is_empty() {
            let range = self.objects.range((start, Bound::Unbounded));
            return Box::new(
                range
                    .take_while(move |(name, _)| inside(name))
                    .map(|(_, object)| object),
            );
        }
        let sets: Option<Vec<_>> = terms.iter().map(|term| self.index.get(term)).collect();
        let Some(smallest) = sets.and_then(|sets| sets.into_iter().min_by_key(|set| set.len()))
        else {
            return Box::new(std::iter::empty());
        };
        let range = smallest
            .range((start, Bound::Unbounded))
            .take_while(move |name| inside(name));
        Box::new(range.filter_map(|name| self.objects.get(name)))
    }

    /// Events after `revision`, oldest first, or `None` when some of them are gone.
    pub(super) fn events_after(
        &self,
        revision: u64,
    ) -> Option<impl DoubleEndedIterator<Item = &Event>> {
        if revision < self.compacted {
            return None;
        }
        let start = self
            .ring
            .partition_point(|event| event.object.revision <= revision);
        Some(self.ring.range(start..))
    }

    /// Takes over a committed event. Returns the rows of the log that became garbage.
    pub(super) fn apply(&mut self, event: Event, limits: Limits) -> Vec<u64> {
        let name = &event.object.name;
        if let Some(previous) = &event.previous {
            unindex(&mut self.index, previous);
            self.ring_bytes += previous.json.len();
        }
        if event.change == Change::Deleted {
            self.objects.remove(name);
        } else {
            for term in terms(&event.object) {
                self.index.entry(term).or_default().insert(name.clone());
            }
            self.objects.insert(name.clone(), Arc::clone(&event.object));
        }
        // While a store is opened, what is left of the log may be older than what was compacted.
        self.revision = self.revision.max(event.object.revision);
        self.ring.push_back(event);
        self.trim(limits)
    }

    fn trim(&mut self, limits: Limits) -> Vec<u64> {
        let mut garbage = Vec::new();
        while self.ring.len() > limits.events || self.ring_bytes > limits.bytes {
            let Some(event) = self.ring.pop_front() else {
                break;
            };
            self.compacted = self.compacted.max(event.object.revision);
            if let Some(previous) = &event.previous {
                self.ring_bytes -= previous.json.len();
            }
            if event.object.revision > self.unloaded {
                garbage.extend(event.superseded().map(|object| object.revision));
            }
        }
        garbage
    }

    /// Each event that is on disk: its revision, and how many bytes only the history needs there.
    pub(super) fn history(&self) -> impl Iterator<Item = (u64, usize)> {
        self.on_disk().map(|event| {
            let bytes = event.superseded().map(|object| object.json.len()).sum();
            (event.object.revision, bytes)
        })
    }

    /// Keeps what is at or below `revision` in memory only. Returns the rows that became garbage.
    pub(super) fn unload_until(&mut self, revision: u64) -> Vec<u64> {
        let events = self.on_disk();
        let events = events.take_while(|event| event.object.revision <= revision);
        let garbage = events
            .flat_map(Event::superseded)
            .map(|object| object.revision)
            .collect();
        self.unloaded = self.unloaded.max(revision);
        garbage
    }

    fn on_disk(&self) -> impl Iterator<Item = &Event> {
        let start = self
            .ring
            .partition_point(|event| event.object.revision <= self.unloaded);
        self.ring.range(start..)
    }

    /// Forgets what is at or below `revision`. Returns the rows that became garbage.
    pub(super) fn forget_until(&mut self, revision: u64) -> Vec<u64> {
        let keep = self.ring.len()
            - self
                .ring
                .partition_point(|event| event.object.revision <= revision);
        self.compacted = self.compacted.max(revision);
        self.trim(Limits {
            events: keep,
            bytes: usize::MAX,
        })
    }

    /// Forgets the whole history, as after `compact`. Returns the rows that became garbage.
    pub(super) fn forget(&mut self) -> Vec<u64> {
        self.trim(Limits {
            events: 0,
            bytes: 0,
        })
    }
}

/// The index entries of an equality requirement.
pub(super) fn label_term(key: &str, value: &str) -> Box<str> {
    format!("l{key}\0{value}").into()
}

pub(super) fn field_term(path: &str, value: &str) -> Box<str> {
    format!("f{path}\0{value}").into()
}

fn terms(object: &Object) -> impl Iterator<Item = Box<str>> {
    let labels = object
        .meta
        .labels
        .iter()
        .map(|(key, value)| label_term(key, value));
    labels.chain(
        object
            .meta
            .fields
            .iter()
            .map(|(path, value)| field_term(path, value)),
    )
}

fn unindex(index: &mut HashMap<Box<str>, BTreeSet<Name>>, object: &Object) {
    for term in terms(object) {
        if let Some(names) = index.get_mut(&term) {
            names.remove(&object.name);
            if names.is_empty() {
                index.remove(&term);
            }
        }
    }
}
