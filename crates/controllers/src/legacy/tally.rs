//! The pods of a v1 job, each in its place, and their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use astrago_api::legacy::ReplicaStatus;
use astrago_plan::legacy::{Replica, TrainingJob};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::restart_policy::{self, Verdict, judge};
use crate::pod;

/// The pods of a job, by type and index.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Every place that the job has, with the pod in it.
    pub(crate) places: Vec<Place>,
    /// Pods without a place: the job has fewer replicas than before.
    pub(crate) superfluous: Vec<Arc<Pod>>,
}

/// The place of one replica.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) kind: &'static str,
    pub(crate) index: i32,
    /// The pod in it, if there is one.
    pub(crate) pod: Option<Arc<Pod>>,
    /// What it means that the pod failed, if it did.
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) verdict: Verdict,
    /// How it ended, if it ended by itself.
    pub(crate) exit_code: Option<i32>,
    /// Whether it counts: a pod that was ended on purpose does not, nor one that failed while others were.
    pub(crate) counts: bool,
}

impl Tally {
    /// Puts `pods` into the places of `job`.
    pub(crate) fn of(job: &TrainingJob, pods: &[Arc<Pod>]) -> Self {
        let mut by_name: HashMap<String, Arc<Pod>> = pods
            .iter()
            .map(|pod| (pod.name_any(), Arc::clone(pod)))
            .collect();
        let disrupted = pods.iter().any(|pod| pod::is_interrupted(pod));
        let mut places = Vec::new();
        for replica in &job.replicas {
            for index in 0..replica.count {
                let pod = by_name.remove(&job.pod_name(replica.kind, index));
                let failed = pod.as_deref().filter(|pod| pod::has_failed(pod));
                let failure = failed.and_then(|pod| failure(job, replica, pod, disrupted));
                places.push(Place {
                    kind: replica.kind,
                    index,
                    pod,
                    failure,
                });
            }
        }
        let mut superfluous: Vec<_> = by_name.into_values().collect();
        superfluous.sort_by_key(|pod| pod.name_any());
        Self {
            places,
            superfluous,
        }
    }

    /// The places of a type.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |place| place.kind == kind)
    }

    /// The places whose pod failed with this meaning.
    pub(crate) fn failed(&self, verdict: Verdict) -> impl Iterator<Item = &Place> {
        let meant = move |failure: &Failure| failure.verdict == verdict;
        self.places
            .iter()
            .filter(move |place| place.failure.as_ref().is_some_and(meant))
    }

    /// How many pods of a type run, succeeded and failed.
    pub(crate) fn count(&self, kind: &str) -> ReplicaStatus {
        let mut counts = ReplicaStatus::default();
        let pods = self.of_kind(kind).filter_map(|place| place.pod.as_deref());
        for pod in pods.filter(|pod| !pod::is_interrupted(pod)) {
            match pod::phase(pod) {
                "Running" if pod.metadata.deletion_timestamp.is_none() => counts.active += 1,
                "Succeeded" => counts.succeeded += 1,
                "Failed" => counts.failed += 1,
                _ => {}
            }
        }
        counts
    }

    /// Restarts of containers in pods that are there and in place.
    pub(crate) fn restarts_in_place(&self) -> i32 {
        let pods = self.places.iter().filter_map(|place| place.pod.as_deref());
        pods.filter(|pod| !pod::has_failed(pod))
            .map(pod::restarts)
            .fold(0, i32::saturating_add)
    }
}

impl Place {
    pub(crate) fn runs(&self) -> bool {
        let running = |pod: &Pod| pod::phase(pod) == "Running" && pod::is_active(pod);
        self.pod.as_deref().is_some_and(running)
    }

    pub(crate) fn succeeded(&self) -> bool {
        let ended = |pod: &Pod| pod::has_succeeded(pod) && !pod::is_interrupted(pod);
        self.pod.as_deref().is_some_and(ended)
    }
}

fn failure(job: &TrainingJob, replica: &Replica, pod: &Pod, disrupted: bool) -> Option<Failure> {
    // One that is being deleted was judged before.
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let main = job.main_container(replica).map_or("", |main| &main.name);
    let exit_code = restart_policy::exit_code(pod, main);
    let verdict = if disrupted {
        Verdict::Replace
    } else {
        judge(replica.restart_policy, exit_code)
    };
    Some(Failure {
        verdict,
        exit_code,
        counts: !disrupted,
    })
}
