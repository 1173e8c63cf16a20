//! How much a namespace may hold, with or without a ResourceQuota: everything is kept in memory, so one user must not be
//! able to fill it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kinds::builtin::quantity;
use crate::store::{Change, Event, Name, Query, Store};

/// Annotations of a namespace with which an administrator sets other limits.
const MAX_OBJECTS: &str = "astrago.io/max-objects";
const MAX_BYTES: &str = "astrago.io/max-bytes";

/// Objects, and their bytes as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub objects: usize,
    pub bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            objects: 200_000,
            bytes: 256 << 20,
        }
    }
}

impl Room {
    /// The limits of a namespace: its own, or these.
    fn of(self, store: &Store, namespace: &str) -> Self {
        let Some(object) = store.get("namespaces", &Name::new("", namespace)) else {
            return self;
        };
        if memchr::memmem::find(&object.json, b"astrago.io/max-").is_none() {
            return self;
        }
        let value = object.value();
        let own = |name: &str, other: usize| {
            let text = value["metadata"]["annotations"][name].as_str();
            let nanos = text.and_then(quantity::nanos);
            let amount = nanos.and_then(|nanos| usize::try_from(nanos / 1_000_000_000).ok());
            amount.unwrap_or(other)
        };
        Self {
            objects: own(MAX_OBJECTS, self.objects),
            bytes: own(MAX_BYTES, self.bytes),
        }
    }
}

/// What each namespace holds, and what is about to be added.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    held: Mutex<HashMap<Arc<str>, Held>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    objects: usize,
    bytes: usize,
    coming_objects: usize,
    coming_bytes: usize,
}

/// Counts as held until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    rooms: Arc<Rooms>,
    namespace: Arc<str>,
    objects: usize,
    bytes: usize,
}

impl Rooms {
    /// Counts what a store that was just opened holds.
    pub(crate) fn load(&self, store: &Store) {
        let mut held = self.lock();
        for resource in store.resources() {
            let page = store.list(&resource, &Query::default());
            for object in page.map(|page| page.objects).unwrap_or_default() {
                let namespace = held.entry(Arc::clone(&object.name.namespace)).or_default();
                namespace.objects += 1;
                namespace.bytes += object.json.len();
            }
        }
    }

    /// Follows a committed event. Runs on the writer's thread.
    pub(crate) fn observe(&self, event: &Event) {
        let mut held = self.lock();
        let namespace = &event.object.name.namespace;
        let here = held.entry(Arc::clone(namespace)).or_default();
        if event.change != Change::Deleted {
            here.objects += 1;
            here.bytes += event.object.json.len();
        }
        if let Some(previous) = &event.previous {
            here.objects = here.objects.saturating_sub(1);
            here.bytes = here.bytes.saturating_sub(previous.json.len());
        }
        if here.objects == 0 && here.coming_objects == 0 && here.coming_bytes == 0 {
            held.remove(namespace);
        }
    }

    /// Makes room for `bytes`, of a new object or of one that grows; or says why there is none. What is not in a
    /// namespace, or in one of the system's, is an administrator's doing.
    pub(crate) fn take(
        self: &Arc<Self>,
        store: &Store,
        limits: Room,
        namespace: &Arc<str>,
        is_new: bool,
        bytes: usize,
    ) -> Result<Option<Place>, String> {
        if namespace.is_empty() || namespace.starts_with("kube-") {
            return Ok(None);
        }
        let limits = limits.of(store, namespace);
        let objects = usize::from(is_new);
        let mut held = self.lock();
        let here = held.entry(Arc::clone(namespace)).or_default();
        let taken = Room {
            objects: here.objects + here.coming_objects + objects,
            bytes: here.bytes + here.coming_bytes + bytes,
        };
        if is_new && taken.objects > limits.objects {
            return Err(full(namespace, "objects", limits.objects, MAX_OBJECTS));
        }
        if taken.bytes > limits.bytes {
            return Err(full(namespace, "bytes", limits.bytes, MAX_BYTES));
        }
        here.coming_objects += objects;
        here.coming_bytes += bytes;
        Ok(Some(Place {
            rooms: Arc::clone(self),
            namespace: Arc::clone(namespace),
            objects,
            bytes,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(here) = self.rooms.lock().get_mut(&self.namespace) {
            here.coming_objects = here.coming_objects.saturating_sub(self.objects);
            here.coming_bytes = here.coming_bytes.saturating_sub(self.bytes);
        }
    }
}

fn full(namespace: &str, what: &str, limit: usize, annotation: &str) -> String {
    format!(
        "namespace {namespace:?} holds as many {what} as it may ({limit}); delete what is no longer needed, or ask an \
         administrator to set the annotation {annotation} of the namespace"
    )
}
