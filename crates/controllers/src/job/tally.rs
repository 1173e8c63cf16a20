//! Puts a Job's pods in order, once: who runs, who ended how, and what that adds up to.
//!
//! Pods carry no finalizer. That the counts still survive the deletion of pods and a crash of the controller rests
//! on three records in the API server: `status.completedIndexes` (an index that completed once stays completed),
//! the count of earlier failures in each pod's annotation (a successor carries its predecessors' failures), and
//! `status.failed`, which only grows: failures that no pod testifies to any more are charged to the next new pod.
//!
//! A pod that was ended on purpose counts for nothing. In a gang (an Indexed Job of a JobSet, all of whose pods run at
//! once) the others notice, and end too before anybody asks them to: so while a gang is held, no end counts that came
//! after that was written down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::fetch::Observed;
use super::indexes;
use super::pod_failure_policy::{Meaning, meaning, meaning_of_disruption};
use super::validate::ValidatedJob;
use crate::pod;

/// The pods of a Job, in order.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Pods that run or will run.
    pub(crate) active: Vec<Arc<Pod>>,
    /// Pods that are on their way out.
    pub(crate) terminating: usize,
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
    /// How many were ended on purpose, by others than this controller or by it.
    pub(crate) interrupted: usize,
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
    tally.interrupted += vanished(job, observed, &tally);
    tally.unaccounted = (job.recorded_failures() - testified).max(0);
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
        } else if pod::is_interrupted(pod) || job.is_after_its_hold(pod) {
            self.terminating += usize::from(!pod::is_terminal(pod));
            match meaning_of_disruption(job.pod_failure_policy(), pod) {
                None => self.interrupted += 1,
                Some(meaning) => failures += self.fail(meaning, index),
            }
        } else if pod::has_succeeded(pod) {
            self.succeeded += 1;
            self.completed.extend(index);
            self.successes.extend(pod::finished_at(pod));
        } else {
            self.failures.extend(pod::finished_at(pod));
            failures += self.fail(meaning(job.pod_failure_policy(), pod), index);
        }
        let entry = self.ranks.entry(rank).or_default();
        entry.occupied |= !pod::is_terminal(pod);
        entry.attempts = entry
            .attempts
            .max(pod::count(pod, pod::ATTEMPT).saturating_add(1));
        entry.failures = entry.failures.max(failures);
    }

    /// Takes in what a pod's failure means; answers how many failures that is.
    fn fail(&mut self, meaning: Meaning, index: Option<i32>) -> i32 {
        match meaning {
            Meaning::Ignore => return 0,
            Meaning::Count => {}
            Meaning::FailIndex => self.failed_indexes.extend(index),
            Meaning::FailJob(reason) => drop(self.fatal.get_or_insert(reason)),
        }
        self.failed += 1;
        1
    }
}

/// How many pods of a gang are gone without a trace. The pods of a gang get their nodes together; so where one has a
/// node, every rank had a pod.
fn vanished(job: &ValidatedJob, observed: &Observed, tally: &Tally) -> usize {
    let has_node = |pod: &Arc<Pod>| {
        let spec = pod.spec.as_ref();
        spec.is_some_and(|spec| spec.node_name.is_some())
    };
    if !job.is_gang() || job.is_placed_by_its_template() || !observed.own.iter().any(has_node) {
        return 0;
    }
    let missing =
        |index: &i32| !tally.ranks.contains_key(index) && !tally.completed.contains(index);
    (0..job.completions.unwrap_or(0)).filter(missing).count()
}

fn recorded(job: &ValidatedJob) -> BTreeSet<i32> {
    let text = job.status().completed_indexes.clone().unwrap_or_default();
    indexes::parse(&text, job.completions.unwrap_or(0))
}
