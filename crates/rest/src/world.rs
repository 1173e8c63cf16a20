//! What the cluster looks like right now, kept current by watches, and which jobs have changed.
//!
//! Reads never wait for the network. Objects are found by the job that they belong to, so that one job's view costs the
//! same with ten jobs as with ten thousand.

mod line;

use std::sync::Arc;

pub(crate) use astrago_api::ObjectKey as Key;
use astrago_mirror::{Change as ObjectChange, Kind, Mirror, Mirrors};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub(crate) use self::line::Line;
use crate::legacy;

/// A job about which something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) job: Key,
    pub(crate) deleted: bool,
}

pub(crate) struct World {
    pub(crate) mirrors: Mirrors,
    pub(crate) line: Arc<Line>,
    changes: broadcast::Sender<Change>,
}

impl World {
    pub(crate) fn new(mirrors: Mirrors) -> Arc<Self> {
        let (changes, _) = broadcast::channel(4096);
        let world = Arc::new(Self {
            line: Line::new(&mirrors),
            mirrors,
            changes,
        });
        let mirrors = &world.mirrors;
        world.tell_of(&mirrors.train_jobs, |job| Some(Key::of(job)));
        world.tell_of(&mirrors.job_sets, |set| Some(Key::of(set)));
        world.tell_of(&mirrors.pods, |pod: &Pod| Key::of_training_job(pod));
        legacy::subscribe(&world);
        world
    }

    /// Tells of the jobs that the objects of a mirror belong to.
    pub(crate) fn tell_of<K: Kind>(
        self: &Arc<Self>,
        mirror: &Mirror<K>,
        job_of: fn(&K) -> Option<Key>,
    ) {
        // The mirror may outlive this API, and must not keep it.
        let world = Arc::downgrade(self);
        mirror.subscribe(move |change: &ObjectChange<K>| {
            let job = change.latest().and_then(|object| job_of(object));
            if let Some((world, job)) = world.upgrade().zip(job) {
                world.tell(job);
            }
        });
    }

    /// Tells of a change that no object shows, too.
    pub(crate) fn tell(&self, job: Key) {
        let deleted = !self.has_job(&job);
        // Nobody listening is not an error.
        let _ = self.changes.send(Change { job, deleted });
    }

    /// Follows every kind until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let mirrors = &self.mirrors;
        macro_rules! run {
            ($($mirror:ident)*) => {
                join_all([$(Box::pin(mirrors.$mirror.run(client.clone(), stop.clone()))
                    as futures::future::BoxFuture<'_, ()>,)*]).await
            };
        }
        run!(
            train_jobs job_sets jobs pods events nodes namespaces cluster_runtimes runtimes
            priority_classes quotas claims
            pytorch_jobs tf_jobs mpi_jobs xgboost_jobs paddle_jobs mx_jobs jax_jobs
        );
    }

    /// Waits until every kind that a cluster with Trainer has is known.
    pub(crate) async fn synced(&self) {
        let mirrors = &self.mirrors;
        tokio::join!(
            mirrors.train_jobs.ready(),
            mirrors.job_sets.ready(),
            mirrors.pods.ready(),
            mirrors.events.ready(),
            mirrors.nodes.ready(),
            mirrors.namespaces.ready(),
            mirrors.cluster_runtimes.ready(),
            mirrors.runtimes.ready(),
        );
    }

    /// Whether there is a job of this name, of whatever kind.
    pub(crate) fn has_job(&self, key: &Key) -> bool {
        self.mirrors.train_jobs.get(key).is_some() || legacy::kind_of(&self.mirrors, key).is_some()
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}
