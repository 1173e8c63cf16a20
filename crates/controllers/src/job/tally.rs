//! Puts a Job's pods in order, once: who runs, who ended how, and what that adds up to.
//!
//! Pods carry no finalizer. That the counts still survive the deletion of pods and a crash of the controller rests
//! on three records in the API server: `status.completedIndexes` (an index that completed once stays completed),
//! the count of earlier failures in each pod's annotation (a successor carries its predecessors' failures), and
//! `status.failed`, which only grows: failures that no pod testifies to any more are charged to the next new pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::fetch::Observed;
use super::indexes;
use super::pod_failure_policy::{Meaning, meaning};
use super::validate::ValidatedJob;
use crate::pod;

/// The pods of a Job, in order.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Pods that run or will run.
    pub(crate) active: Vec<Arc<Pod>>,
    /// Pods that are on their way out.
    pub(crate) terminating: usize,
    /// Active pods that are ready.
    pub(crate) ready: usize,
    /// Pods that ended well, or indexes that completed.
    pub(crate) succeeded: i32,
    /// Pods that failed and count.
    pub(crate) failed: i32,
    /// Container restarts inside of active pods.
    pub(crate) restarts: i32,
    /// Indexes that completed; empty without indexes.
    pub(crate) completed: BTreeSet<i32>,
    /// Indexes that failed for good; empty without a limit per index.
    pub(crate) failed_indexes: BTreeSet<i32>,
    /// Per rank, what a new pod of that rank must know.
    pub(crate) ranks: BTreeMap<i32, Rank>,
    /// Failures on record that no pod testifies to.
    pub(crate) unaccounted: i32,
    /// Why the pod failure policy fails the Job.
    pub(crate) fatal: Option<String>,
    /// When pods failed, for the back-off.
    pub(crate) failures: Vec<Timestamp>,
    /// When pods succeeded, for the back-off.
    pub(crate) successes: Vec<Timestamp>,
}

/// One rank of an Indexed Job.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    /// Whether a pod of this rank may still run, be it of this Job or of a deleted one of the same name.
    pub(crate) occupied: bool,
    /// How many pods of this rank there were.
    pub(crate) attempts: i32,
    /// How many of them failed and count.
    pub(crate) failures: i32,
}

/// Counts the pods of `job`: its own, and those of deleted Jobs of the same name that may still run.
pub(crate) fn tally(job: &ValidatedJob, observed: &Observed) -> Tally {
    let mut tally = Tally {
        completed: recorded(job),
        ..Tally::default()
    };
    for pod in &observed.own {
        tally.add(job, pod);
    }
    for pod in &observed.strangers {
        if let Some(index) = pod::index(pod)
            && !pod::is_terminal(pod)
        {
            tally.ranks.entry(index).or_default().occupied = true;
        }
    }
    let testified = if job.indexed {
        tally.ranks.values().map(|rank| rank.failures).sum()
    } else {
        tally.failed
    };
    let lost = observed
        .lost
        .iter()
        .filter(|pod| job.is_of_this_run(pod))
        .count();
    let on_record = job
        .recorded_failures()
        .saturating_add(i32::try_from(lost).unwrap_or(i32::MAX));
    tally.unaccounted = (on_record - testified).max(0);
    tally.failed = testified + tally.unaccounted;
    tally.succeeded = if job.indexed {
        i32::try_from(tally.completed.len()).unwrap_or(i32::MAX)
    } else {
        tally.succeeded.max(job.recorded_successes())
    };
    if let Some(limit) = job.backoff_limit_per_index {
        let spent = tally.ranks.iter().filter(|(_, rank)| rank.failures > limit);
        tally.failed_indexes.extend(spent.map(|(index, _)| *index));
        let completed = &tally.completed;
        tally
            .failed_indexes
            .retain(|index| !completed.contains(index));
    }
    tally
}

impl Tally {
    /// How many pods may still run.
    pub(crate) fn live(&self) -> usize {
        self.active.len() + self.terminating
    }

    fn add(&mut self, job: &ValidatedJob, pod: &Arc<Pod>) {
        let index = pod::index(pod).filter(|index| job.has_index(*index));
        if job.indexed && index.is_none() {
            return;
        }
        let rank = index.unwrap_or(0);
        let mut failures = pod::count(pod, pod::FAILURES);
        if pod::is_active(pod) {
            self.active.push(Arc::clone(pod));
            self.ready += usize::from(pod::is_ready(pod));
            self.restarts = self.restarts.saturating_add(pod::restarts(pod));
        } else if pod::is_terminating(pod) {
            self.terminating += 1;
            // Deleted from outside while it ran: the work is lost, as by a failure. Pods from before a
            // suspension were deleted by us and are no failure.
            if job.is_of_this_run(pod) {
                failures += 1;
                self.failed += 1;
            }
        } else if pod::has_succeeded(pod) {
            self.succeeded += 1;
            self.completed.extend(index);
            self.successes.extend(pod::finished_at(pod));
        } else {
            self.failures.extend(pod::finished_at(pod));
            match meaning(job.pod_failure_policy(), pod) {
                Meaning::Ignore => {}
                Meaning::Count => {
                    failures += 1;
                    self.failed += 1;
                }
                Meaning::FailIndex => {
                    failures += 1;
                    self.failed += 1;
                    self.failed_indexes.extend(index);
                }
                Meaning::FailJob(reason) => {
                    failures += 1;
                    self.failed += 1;
                    self.fatal.get_or_insert(reason);
                }
            }
        }
        let entry = self.ranks.entry(rank).or_default();
        entry.occupied |= !pod::is_terminal(pod);
        entry.attempts = entry
            .attempts
            .max(pod::count(pod, pod::ATTEMPT).saturating_add(1));
        entry.failures = entry.failures.max(failures);
    }
}

fn recorded(job: &ValidatedJob) -> BTreeSet<i32> {
    let text = job.status().completed_indexes.clone().unwrap_or_default();
    indexes::parse(&text, job.completions.unwrap_or(0))
}
