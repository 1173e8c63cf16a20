//! What the cluster looks like right now, kept current by watches.
//!
//! One task per kind follows a watch and writes into its table; a read takes a shared lock for
//! the time of a lookup and never waits for the network. Tables are indexed by the job that an
//! object belongs to, so that one job's view costs the same with ten jobs as with ten thousand.
//!
//! | task | input | output |
//! |---|---|---|
//! | one per kind | watch of the kind over all namespaces | its table, and a [`Change`] per job |

mod table;

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use astrago_api::{ClusterTrainingRuntime, JobSet, TrainJob, TrainingRuntime, labels};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Config};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::{broadcast, oneshot, watch as flag};
use tokio_util::sync::CancellationToken;

use crate::legacy;

pub(crate) use self::table::{Key, Table};

/// A job about which something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) job: Key,
    pub(crate) deleted: bool,
}

/// All tables. Fields are read through [`World::read`].
pub(crate) struct Tables {
    pub(crate) jobs: Table<TrainJob>,
    pub(crate) job_sets: Table<JobSet>,
    pub(crate) pods: Table<Pod>,
    pub(crate) events: Table<Event>,
    pub(crate) nodes: Table<Node>,
    pub(crate) namespaces: Table<Namespace>,
    pub(crate) cluster_runtimes: Table<ClusterTrainingRuntime>,
    pub(crate) runtimes: Table<TrainingRuntime>,
    pub(crate) legacy: legacy::Jobs,
}

impl Tables {
    /// Whether there is a job of this name, of whatever kind.
    pub(crate) fn has_job(&self, key: &Key) -> bool {
        self.jobs.get(key).is_some() || self.legacy.find(key).is_some()
    }
}

pub(crate) struct World {
    tables: RwLock<Tables>,
    changes: broadcast::Sender<Change>,
    synced: flag::Sender<u32>,
    /// Who waits for the first sign of a job.
    awaited: Mutex<HashMap<Key, Vec<oneshot::Sender<()>>>>,
}

thread_local! {
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Holds the tables still.
pub(crate) struct Reading<'world>(RwLockReadGuard<'world, Tables>);

impl<'world> Reading<'world> {
    fn begin(tables: &'world RwLock<Tables>) -> Self {
        let nested = READS.replace(true);
        debug_assert!(!nested, "this thread holds the tables already");
        Self(tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for Reading<'_> {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.0
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        READS.set(false);
    }
}

/// How long the watches may take to tell of something that has been done.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How many kinds are followed.
const KINDS: u32 = 8;

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let tables = Tables {
            jobs: Table::new(|job: &TrainJob| Some(Key::of(job))),
            job_sets: Table::new(|set: &JobSet| Some(Key::of(set))),
            pods: Table::new(job_of_pod),
            events: Table::new(|_| None),
            nodes: Table::new(|_| None),
            namespaces: Table::new(|_| None),
            cluster_runtimes: Table::new(|_| None),
            runtimes: Table::new(|_| None),
            legacy: legacy::Jobs::new(),
        };
        let (changes, _) = broadcast::channel(4096);
        let (synced, _) = flag::channel(0);
        Arc::new(Self {
            tables: RwLock::new(tables),
            changes,
            synced,
            awaited: Mutex::default(),
        })
    }

    /// Follows every kind until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let all = futures::future::join_all([
            self.table(&client, |tables| &mut tables.jobs),
            self.table(&client, |tables| &mut tables.job_sets),
            self.table(&client, |tables| &mut tables.pods),
            self.table(&client, |tables| &mut tables.events),
            self.table(&client, |tables| &mut tables.nodes),
            self.table(&client, |tables| &mut tables.namespaces),
            self.table(&client, |tables| &mut tables.cluster_runtimes),
            self.table(&client, |tables| &mut tables.runtimes),
            self.optional(&client, |tables| &mut tables.legacy.pytorch),
            self.optional(&client, |tables| &mut tables.legacy.tensorflow),
            self.optional(&client, |tables| &mut tables.legacy.mpi),
            self.optional(&client, |tables| &mut tables.legacy.xgboost),
            self.optional(&client, |tables| &mut tables.legacy.paddle),
            self.optional(&client, |tables| &mut tables.legacy.mxnet),
            self.optional(&client, |tables| &mut tables.legacy.jax),
        ]);
        tokio::select! {
            _ = all => {}
            () = stop.cancelled() => {}
        }
    }

    /// Waits until every table has been filled once.
    pub(crate) async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = synced.wait_for(|kinds| *kinds >= KINDS).await;
    }

    /// The tables as they are now. Not to be asked for again while they are held: a writer that came in between
    /// would wait for the first reader, and the second reader for the writer.
    pub(crate) fn read(&self) -> Reading<'_> {
        Reading::begin(&self.tables)
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Waits until a job that exists is known here, so that whoever made it sees it; not for long, because a watch
    /// may be broken.
    pub(crate) async fn until_known(&self, job: &Key) {
        // In this order: a job that comes after the question finds who waits for it.
        let (known, mut told) = oneshot::channel();
        self.awaited().entry(job.clone()).or_default().push(known);
        let missing = !self.read().has_job(job);
        if missing && tokio::time::timeout(CATCH_UP, &mut told).await.is_err() {
            tracing::warn!(
                namespace = job.namespace,
                job = job.name,
                "the watch is late"
            );
        }
        drop(told);
        if let Entry::Occupied(mut waiting) = self.awaited().entry(job.clone()) {
            waiting.get_mut().retain(|known| !known.is_closed());
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<Key, Vec<oneshot::Sender<()>>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a kind that every cluster with Trainer has.
    fn table<K>(
        self: &Arc<Self>,
        client: &Client,
        select: fn(&mut Tables) -> &mut Table<K>,
    ) -> futures::future::BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
        K: serde::de::DeserializeOwned,
    {
        self.follow_kind(client, select, true)
    }

    /// Follows a kind that a cluster need not have; it is looked for again and again.
    fn optional<K>(
        self: &Arc<Self>,
        client: &Client,
        select: fn(&mut Tables) -> &mut Table<K>,
    ) -> futures::future::BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
        K: serde::de::DeserializeOwned,
    {
        self.follow_kind(client, select, false)
    }

    fn follow_kind<K>(
        self: &Arc<Self>,
        client: &Client,
        select: fn(&mut Tables) -> &mut Table<K>,
        required: bool,
    ) -> futures::future::BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
        K: serde::de::DeserializeOwned,
    {
        let world = Arc::clone(self);
        let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
        Box::pin(async move {
            let mut events = watch(api, Config::default()).default_backoff().boxed();
            let mut filled = false;
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => {
                        let done = matches!(event, watcher::Event::InitDone);
                        world.apply(event, select);
                        if done && !filled && required {
                            filled = true;
                            world.synced.send_modify(|kinds| *kinds += 1);
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        let error = crate::error::chain(&error);
                        if !required {
                            tracing::debug!(kind = %K::kind(&()), error, "cannot be followed; trying again");
                            continue;
                        }
                        tracing::warn!(kind = %K::kind(&()), error, "watch broke; trying again");
                    }
                }
            }
        })
    }

    /// An object that cannot be read, such as one with a value that is newer than we are, is left out: it must not
    /// keep the others from being seen.
    fn apply<K>(
        &self,
        event: watcher::Event<DeserializeGuard<K>>,
        select: fn(&mut Tables) -> &mut Table<K>,
    ) where
        K: Resource<DynamicType = ()> + Clone,
    {
        let changed = {
            let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
            let table = select(&mut tables);
            match event {
                watcher::Event::Init => {
                    table.begin();
                    Vec::new()
                }
                watcher::Event::InitApply(DeserializeGuard(Ok(object)))
                | watcher::Event::Apply(DeserializeGuard(Ok(object))) => {
                    table.insert(object).into_iter().collect()
                }
                watcher::Event::InitDone => table.finish(),
                watcher::Event::Delete(DeserializeGuard(Ok(object))) => {
                    table.remove(&Key::of(&object)).into_iter().collect()
                }
                watcher::Event::InitApply(DeserializeGuard(Err(unread)))
                | watcher::Event::Apply(DeserializeGuard(Err(unread)))
                | watcher::Event::Delete(DeserializeGuard(Err(unread))) => {
                    let (namespace, name) = (unread.metadata.namespace, unread.metadata.name);
                    let key = Key {
                        namespace: namespace.unwrap_or_default(),
                        name: name.unwrap_or_default(),
                    };
                    tracing::warn!(
                        kind = %K::kind(&()), namespace = key.namespace, name = key.name, error = unread.error,
                        "object cannot be read and is left out",
                    );
                    table.remove(&key).into_iter().collect()
                }
            }
        };
        for job in changed {
            let deleted = !self.read().has_job(&job);
            if !deleted {
                for known in self.awaited().remove(&job).unwrap_or_default() {
                    // Some wait no longer.
                    let _ = known.send(());
                }
            }
            // Nobody listening is not an error.
            let _ = self.changes.send(Change { job, deleted });
        }
    }
}

pub(crate) fn job_of_pod(pod: &Pod) -> Option<Key> {
    let labels = pod.labels();
    let job = labels
        .get(labels::JOBSET_NAME)
        .or_else(|| labels.get(labels::TRAINING_JOB_NAME))?;
    Some(Key {
        namespace: pod.namespace().unwrap_or_default(),
        name: job.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, operator: &str) -> DeserializeGuard<JobSet> {
        let object: Value = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": { "name": name, "namespace": "ns" },
            "spec": { "replicatedJobs": [], "successPolicy": { "operator": operator } },
        });
        serde_json::from_value(object).expect("the guard takes whatever has metadata")
    }

    #[test]
    fn an_object_that_cannot_be_read_does_not_hide_the_others() {
        let world = World::new();
        let tell = |event| world.apply(event, |tables| &mut tables.job_sets);
        tell(watcher::Event::Init);
        tell(watcher::Event::InitApply(set("newer", "MostOfThem")));
        tell(watcher::Event::InitApply(set("known", "All")));
        tell(watcher::Event::InitDone);
        let known = |name| world.read().job_sets.get(&Key::new("ns", name)).is_some();
        assert!(known("known") && !known("newer"));

        tell(watcher::Event::Apply(set("known", "MostOfThem")));
        assert!(!known("known"), "what it was is not shown as what it is");
        tell(watcher::Event::Delete(set("known", "MostOfThem")));
    }
}
