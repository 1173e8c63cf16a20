//! The queue as the scheduler sees it, with one more job at its end. Quotas are left out: the API does not follow them.

use std::collections::BTreeMap;
use std::sync::Arc;

use astrago_plan::fit::{Cause, Cluster, PodNeed, Resources, Waiting};
use astrago_plan::queue::{Gang, GangKey, Member, PodKey, Rank, Running, Snapshot, decide};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::app::places::{Queued, holds_room, queued};
use crate::view;
use crate::world::{Key, Tables, job_of_pod};

/// How long a pod may take to end once it is told to, unless it says otherwise.
const GRACE: i64 = 30;

/// A job that nobody has made yet.
pub(super) struct Candidate {
    pub(super) needs: Vec<PodNeed>,
    pub(super) priority: i64,
    /// After so many seconds it is ended.
    pub(super) deadline: Option<i64>,
}

/// What the scheduler would decide from at this moment.
pub(super) fn snapshot(tables: &Tables, cluster: Cluster, now: Timestamp) -> Snapshot {
    Snapshot {
        now,
        cluster,
        pending: queued(tables)
            .iter()
            .filter(|entry| waits_for_room(entry))
            .map(|entry| gang(entry, now))
            .collect(),
        running: running(tables),
        quotas: Vec::new(),
    }
}

/// Why the candidate would wait, if it came now; nothing if it would be started.
pub(super) fn foresee(mut snapshot: Snapshot, candidate: Candidate) -> Option<Waiting> {
    // No name of an object has it.
    let key = GangKey::default();
    let member = |need| Member {
        need: Arc::new(need),
        ..Member::default()
    };
    snapshot.pending.push(Gang {
        rank: Rank {
            priority: clamped(candidate.priority),
            since: snapshot.now,
            // Behind all that were made in this second.
            uid: "~".to_owned(),
            key: key.clone(),
        },
        pods: candidate.needs.into_iter().map(member).collect(),
        whole_since: snapshot.now,
        longest: candidate.deadline.map(|seconds| seconds + GRACE),
        ..Gang::default()
    });
    let decision = decide(snapshot);
    let wait = decision.wait.into_iter().find(|wait| wait.gang == key);
    wait.map(|wait| wait.waiting)
}

/// Whoever waits for something else, such as its volume, has nobody waiting behind it. The pod says so itself, and its
/// owner could make it lie: the worst that comes of it is a forecast that is wrong.
fn waits_for_room(entry: &Queued) -> bool {
    let cause = entry.job.waiting().map(|waiting| waiting.cause);
    !matches!(
        cause,
        Some(
            Cause::Pods { .. }
                | Cause::Gated { .. }
                | Cause::NoClaim { .. }
                | Cause::Quota { .. }
                | Cause::OverQuota { .. }
        )
    )
}

fn gang(entry: &Queued, now: Timestamp) -> Gang {
    let job = &entry.job.job;
    let live = || entry.job.pods.iter().filter(|pod| is_live(pod));
    let waiting = || live().filter(|pod| node_of(pod).is_none());
    let member = |pod: &Arc<Pod>| Member {
        key: PodKey {
            namespace: entry.key.namespace.clone(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
        },
        need: Arc::new(need_of(pod)),
        ..Member::default()
    };
    let created = |pod: &Arc<Pod>| pod.creation_timestamp().map(|time| time.0);
    Gang {
        rank: Rank {
            priority: clamped(entry.priority),
            since: entry.job.created_at(),
            uid: job.uid().unwrap_or_default(),
            key: gang_key(&entry.key),
        },
        bound: live().count() - waiting().count(),
        whole_since: waiting().filter_map(created).max().unwrap_or_default(),
        longest: astrago_plan::deadline(job)
            .map(|end| end.duration_since(now).as_secs().max(0) + GRACE),
        pods: waiting().map(member).collect(),
        ..Gang::default()
    }
}

/// The jobs, and the pods of no job, that hold room.
fn running(tables: &Tables) -> Vec<Arc<Running>> {
    let mut gangs: BTreeMap<Key, Vec<&Arc<Pod>>> = BTreeMap::new();
    for (key, pod) in tables.pods.iter() {
        if holds_room(pod) && node_of(pod).is_some() {
            let job = job_of_pod(pod).unwrap_or_else(|| key.clone());
            gangs.entry(job).or_default().push(pod);
        }
    }
    let running = |(key, pods): (Key, Vec<&Arc<Pod>>)| {
        let job = tables.jobs.get(&key);
        let mut held: BTreeMap<String, Resources> = BTreeMap::new();
        for pod in &pods {
            let node = node_of(pod).unwrap_or_default().to_owned();
            held.entry(node).or_default().add(&need_of(pod).requests);
        }
        let created = job.and_then(|job| job.creation_timestamp());
        let end = job.and_then(|job| astrago_plan::deadline(job));
        Arc::new(Running {
            rank: Rank {
                since: created.map(|time| time.0).unwrap_or_default(),
                uid: job.and_then(|job| job.uid()).unwrap_or_default(),
                key: gang_key(&key),
                ..Rank::default()
            },
            started: pods.iter().filter_map(|pod| view::scheduled_at(pod)).min(),
            ends: end.map(|end| {
                let grace = jiff::SignedDuration::from_secs(GRACE);
                end.checked_add(grace).unwrap_or(Timestamp::MAX)
            }),
            held,
        })
    };
    gangs.into_iter().map(running).collect()
}

fn is_live(pod: &Pod) -> bool {
    holds_room(pod) && pod.metadata.deletion_timestamp.is_none()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// What cannot be read counts as nothing, as it does for the scheduler.
fn need_of(pod: &Pod) -> PodNeed {
    let need = pod.spec.as_ref().and_then(|spec| PodNeed::of(spec).ok());
    need.unwrap_or_default()
}

fn gang_key(key: &Key) -> GangKey {
    GangKey {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn clamped(priority: i64) -> i32 {
    i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX })
}
