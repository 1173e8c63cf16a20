//! An indexed copy of all objects of one kind, kept current by one watch that all its readers share.
//!
//! Two things go beyond kube-runtime's reflector store. Objects are found by an index (the uid of their owner, a
//! label), so that a reconcile costs what its own object costs and not what the cluster holds. And a controller
//! that writes an object puts the server's answer in here at once ([`Mirror::observe`]), so that it always reads
//! its own writes, even if the watch is behind: what is older than the copy is dropped when the watch brings it.
//! That comparison needs resource versions that grow, which Kubernetes promises since 1.35 and etcd always gave.
//!
//! Tasks: one per mirror ([`Mirror::run`]); in: the watch; out: the copy and calls to the listeners.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use astrago_api::{ObjectKey, Readable};
use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::resume::Resume;

/// What happened to one object. At least one of the two is present.
#[derive(Debug)]
pub struct Change<K> {
    /// The object before, if the mirror knew it.
    pub old: Option<Arc<K>>,
    /// The object now, unless it was deleted.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The newest known state.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// Called after every change, outside of any lock. It must not block.
type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// The index entries of an object.
type IndexBy<K> = fn(&K) -> Vec<String>;

pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// A shared, indexed copy of all objects of one kind.
#[derive(Debug)]
pub struct Mirror<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<K> {
    index_by: IndexBy<K>,
    state: RwLock<State<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    ready: watch::Sender<bool>,
    /// Held by whoever follows the watch; another takes over when that one stops.
    turn: tokio::sync::Mutex<()>,
}

impl<K> Debug for Shared<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror")
            .field("ready", &*self.ready.borrow())
            .finish_non_exhaustive()
    }
}

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    index: HashMap<String, BTreeSet<ObjectKey>>,
    /// The newest resource version that the watch has delivered.
    seen: u64,
    /// During a relist: what it has named so far, and what we wrote ourselves meanwhile. All else is gone when it ends.
    listed: Option<HashSet<ObjectKey>>,
}

impl<K: Kind> Default for Mirror<K> {
    /// A mirror without an index.
    fn default() -> Self {
        Self::new(|_| Vec::new())
    }
}

impl<K: Kind> Mirror<K> {
    /// An empty mirror, to be filled by [`Mirror::run`].
    pub fn new(index_by: IndexBy<K>) -> Self {
        Self {
            shared: Arc::new(Shared {
                index_by,
                state: RwLock::new(State {
                    objects: BTreeMap::new(),
                    index: HashMap::new(),
                    seen: 0,
                    listed: None,
                }),
                listeners: RwLock::default(),
                ready: watch::Sender::new(false),
                turn: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Tells `listener` of all that is known, and of every change from now on.
    pub fn subscribe(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut listeners = self
            .shared
            .listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for object in self.all() {
            listener(&Change {
                old: None,
                new: Some(object),
            });
        }
        listeners.push(Box::new(listener));
    }

    /// Follows the API server until cancelled, or waits for its turn while another does. Errors are retried with
    /// back-off.
    pub async fn run(&self, client: Client, stop: CancellationToken) {
        let api: Api<Readable<K>> = Api::all(client);
        let events = watcher(api, watcher::Config::default()).backoff(Resume::default());
        let work = async {
            let _turn = self.shared.turn.lock().await;
            self.follow(events).await;
        };
        stop.run_until_cancelled(work).await;
    }

    async fn follow(
        &self,
        events: impl Stream<Item = watcher::Result<watcher::Event<Readable<K>>>>,
    ) {
        let mut events = pin!(events);
        let mut broken = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    broken = false;
                    self.take_in(event);
                }
                // A kind that a cluster need not have is looked for again and again.
                Err(error) if broken || is_missing(&error) => {
                    tracing::debug!(kind = %K::kind(&()), error = &error as &dyn std::error::Error, "still cannot be followed");
                }
                Err(error) => {
                    broken = true;
                    tracing::warn!(kind = %K::kind(&()), error = &error as &dyn std::error::Error, "watch broke; trying again");
                }
            }
        }
    }

    fn take_in(&self, event: watcher::Event<Readable<K>>) {
        match event {
            watcher::Event::Init => self.begin_list(),
            watcher::Event::InitApply(Readable(Ok(object))) => {
                self.store(object, Source::List);
            }
            watcher::Event::InitDone => self.end_list(),
            watcher::Event::Apply(Readable(Ok(object))) => {
                self.store(object, Source::Watch);
            }
            watcher::Event::Delete(Readable(Ok(object))) => self.remove(&object),
            watcher::Event::InitApply(Readable(Err(invalid)))
            | watcher::Event::Apply(Readable(Err(invalid))) => self.leave(&invalid),
            // Its metadata is all that a deletion needs.
            watcher::Event::Delete(Readable(Err(invalid))) => {
                self.forget(&key_of(&invalid), version_of(&invalid.metadata));
            }
        }
    }

    /// An object that cannot be read, such as one with a value that is newer than we are, must not keep the others from
    /// being seen. What was last read of it stays: to take it for gone could give its room away twice.
    fn leave(&self, invalid: &InvalidObject) {
        let key = key_of(invalid);
        tracing::warn!(kind = %K::kind(&()), object = %key, error = invalid.error, "object cannot be read and is left as it was");
        if let Some(listed) = &mut self.write().listed {
            listed.insert(key);
        }
    }

    /// Resolves once the first list is complete.
    pub async fn ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects under one index entry, in order of their keys.
    pub fn find(&self, entry: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let keys = state.index.get(entry);
        keys.into_iter()
            .flatten()
            .filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// All objects, in order of their keys. For lists and snapshots; whoever needs few uses [`Mirror::find`].
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// All objects of a namespace, in order of their names.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let here = state.objects.range(ObjectKey::new(namespace, "")..);
        here.take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Takes over the server's answer to a write of our own.
    pub fn observe(&self, object: K) -> Arc<K> {
        self.store(object, Source::Answer)
    }

    fn store(&self, mut object: K, source: Source) -> Arc<K> {
        let key = ObjectKey::of(&object);
        let version = version_of(object.meta());
        // Nobody here reads managed fields, and they are half of an object's size.
        object.meta_mut().managed_fields = None;
        let object = Arc::new(object);
        let change = {
            let mut state = self.write();
            let known = state.objects.get(&key).cloned();
            // The watch is past this version and the object is not there: it was deleted meanwhile.
            let passed = source == Source::Answer && known.is_none() && version <= state.seen;
            if source != Source::Answer {
                state.seen = state.seen.max(version);
            }
            if source != Source::Watch
                && let Some(listed) = &mut state.listed
            {
                listed.insert(key.clone());
            }
            let outdated = known
                .as_ref()
                .is_some_and(|known| version_of(known.meta()) >= version);
            if passed || outdated {
                return object;
            }
            state.insert(key, &object, self.shared.index_by);
            Change {
                old: known,
                new: Some(Arc::clone(&object)),
            }
        };
        self.tell(&change);
        object
    }

    fn remove(&self, object: &K) {
        self.forget(&ObjectKey::of(object), version_of(object.meta()));
    }

    fn forget(&self, key: &ObjectKey, version: u64) {
        let old = {
            let mut state = self.write();
            state.seen = state.seen.max(version);
            // A newer object of the same name is already here: the deletion was of its predecessor.
            let known = state.objects.get(key);
            if known.is_some_and(|known| version_of(known.meta()) > version) {
                return;
            }
            state.forget(key, self.shared.index_by)
        };
        if old.is_some() {
            self.tell(&Change { old, new: None });
        }
    }

    fn begin_list(&self) {
        self.write().listed = Some(HashSet::new());
    }

    fn end_list(&self) {
        let gone: Vec<_> = {
            let mut state = self.write();
            let listed = state.listed.take().unwrap_or_default();
            let keys: Vec<_> = state
                .objects
                .keys()
                .filter(|key| !listed.contains(*key))
                .cloned()
                .collect();
            keys.iter()
                .filter_map(|key| state.forget(key, self.shared.index_by))
                .collect()
        };
        for old in gone {
            self.tell(&Change {
                old: Some(old),
                new: None,
            });
        }
        self.shared.ready.send_replace(true);
    }

    fn tell(&self, change: &Change<K>) {
        let listeners = self
            .shared
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(change);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State<K>> {
        self.shared
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State<K>> {
        self.shared
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> State<K> {
    fn insert(&mut self, key: ObjectKey, object: &Arc<K>, index_by: IndexBy<K>) {
        self.unindex(&key, index_by);
        for entry in index_by(object) {
            self.index.entry(entry).or_default().insert(key.clone());
        }
        self.objects.insert(key, Arc::clone(object));
    }

    fn forget(&mut self, key: &ObjectKey, index_by: IndexBy<K>) -> Option<Arc<K>> {
        self.unindex(key, index_by);
        self.objects.remove(key)
    }

    fn unindex(&mut self, key: &ObjectKey, index_by: IndexBy<K>) {
        let Some(old) = self.objects.get(key) else {
            return;
        };
        for entry in index_by(old) {
            if let Some(keys) = self.index.get_mut(&entry) {
                keys.remove(key);
                if keys.is_empty() {
                    self.index.remove(&entry);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    List,
    Watch,
    Answer,
}

fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

fn key_of(invalid: &InvalidObject) -> ObjectKey {
    let meta = &invalid.metadata;
    ObjectKey::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Whether the cluster does not serve the kind.
fn is_missing(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests;
