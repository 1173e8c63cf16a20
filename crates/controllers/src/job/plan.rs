//! The third step: from what is observed to what is done. Pure; everything else in this module only feeds it or
//! carries out what it says.

use std::collections::HashSet;
use std::sync::Arc;

use astrago_api::conditions::job as condition;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::build::{Slot, build};
use super::conditions::set;
use super::fetch::Observed;
use super::tally::{Tally, tally};
use super::validate::ValidatedJob;
use super::verdict::{Verdict, deadline, verdict};
use super::{backoff_policy, indexes};
use crate::clock::stamp;
use crate::events::{Notice, reference};
use crate::pod;
use crate::ttl_policy::{Ttl, ttl};

/// The most pods that are made in one go, as in Kubernetes; each of them brings the Job back here.
const MOST_AT_ONCE: usize = 500;

/// What is to be done about a Job.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) create: Vec<Pod>,
    pub(crate) delete: Vec<Arc<Pod>>,
    /// Whether the Job itself is to be deleted.
    pub(crate) expired: bool,
    /// The status afterwards, if it is ours to write.
    pub(crate) status: Option<JobStatus>,
    /// What to tell once the status is written.
    pub(crate) notices: Vec<Notice>,
    /// When something falls due.
    pub(crate) next: Option<Timestamp>,
}

/// What is to be done about `job` at `now`.
pub(crate) fn plan(job: &ValidatedJob, observed: &Observed, now: Timestamp) -> Plan {
    // Its pods go with it; that is the garbage collector's work.
    if job.object.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    if let Some(finished) = finished_at(job) {
        return clean_up(job, observed, finished, now);
    }
    let mut tally = tally(job, observed);
    let mut plan = Plan::default();
    let mut status = JobStatus {
        uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
        ..job.status().clone()
    };
    if let Some(verdict) = verdict(job, &tally, now) {
        plan.delete.clone_from(&tally.active);
        conclude(job, &tally, &verdict, &mut status, &mut plan, now);
    } else if job.suspended || !is_over(job, observed, &tally) {
        hold(job, observed, &mut tally, &mut status, &mut plan, now);
    } else {
        start(job, &mut status, &mut plan, now);
        plan.delete = superfluous(job, &tally);
        create(job, &tally, &mut plan, now);
        plan.next = [plan.next, deadline(job)].into_iter().flatten().min();
    }
    count(job, &tally, &plan, &mut status);
    plan.status = Some(status);
    plan
}

/// What is done about a Job that cannot run: it has failed, and says of what.
pub(crate) fn refuse(job: &Job, problem: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if job.metadata.deletion_timestamp.is_none() {
        let mut status = job.status.clone().unwrap_or_default();
        for kind in [condition::FAILURE_TARGET, condition::FAILED] {
            set(
                &mut status,
                kind,
                true,
                condition::REASON_INVALID,
                problem,
                now,
            );
        }
        plan.status = Some(status);
        plan.notices.push(Notice::warning(
            reference(job),
            condition::REASON_INVALID,
            problem,
        ));
    }
    plan
}

/// When a Job that ended did so.
fn finished_at(job: &ValidatedJob) -> Option<Timestamp> {
    let ended = job
        .condition(condition::COMPLETE)
        .or_else(|| job.condition(condition::FAILED))?;
    Some(
        ended
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

fn clean_up(job: &ValidatedJob, observed: &Observed, finished: Timestamp, now: Timestamp) -> Plan {
    let seconds = job
        .object
        .spec
        .as_ref()
        .and_then(|spec| spec.ttl_seconds_after_finished);
    // Nothing of a finished Job may run, whoever brought it back.
    let delete = observed
        .own
        .iter()
        .filter(|pod| pod::is_active(pod))
        .cloned()
        .collect();
    match ttl(seconds, Some(finished), now) {
        Ttl::Keep => Plan {
            delete,
            ..Plan::default()
        },
        Ttl::Until(due) => Plan {
            delete,
            next: Some(due),
            ..Plan::default()
        },
        Ttl::Expired => Plan {
            expired: true,
            ..Plan::default()
        },
    }
}

/// Whether nothing keeps the Job from running that is left of the time when it was held.
fn is_over(job: &ValidatedJob, observed: &Observed, tally: &Tally) -> bool {
    job.held_since().is_none() || (tally.live() == 0 && (!job.is_gang() || observed.own.is_empty()))
}

/// Ends what runs of a Job that is held. Of a gang nothing stays: it starts again as a whole.
fn hold(
    job: &ValidatedJob,
    observed: &Observed,
    tally: &mut Tally,
    status: &mut JobStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    status.start_time = None;
    plan.delete.clone_from(&tally.active);
    if job.is_gang() {
        let ended = observed.own.iter().filter(|pod| pod::is_terminal(pod));
        plan.delete.extend(ended.cloned());
        tally.completed.clear();
        tally.succeeded = 0;
    }
    if job.held_since().is_none() {
        let (reason, message) = ("JobSuspended", "Job suspended");
        set(status, condition::SUSPENDED, true, reason, message, now);
        plan.notices.push(Notice::normal(
            reference(&*job.object),
            "Suspended",
            message,
        ));
    }
}

/// Notes since when a Job that is not held runs.
fn start(job: &ValidatedJob, status: &mut JobStatus, plan: &mut Plan, now: Timestamp) {
    if job.held_since().is_some() {
        let (reason, message) = ("JobResumed", "Job resumed");
        status.start_time = None;
        set(status, condition::SUSPENDED, false, reason, message, now);
        plan.notices
            .push(Notice::normal(reference(&*job.object), "Resumed", message));
    }
    status.start_time.get_or_insert_with(|| stamp(now));
}

/// Writes the verdict down; it is executed when nothing runs any more.
fn conclude(
    job: &ValidatedJob,
    tally: &Tally,
    verdict: &Verdict,
    status: &mut JobStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    let (interim, last) = if verdict.success {
        (condition::SUCCESS_CRITERIA_MET, condition::COMPLETE)
    } else {
        (condition::FAILURE_TARGET, condition::FAILED)
    };
    set(
        status,
        interim,
        true,
        &verdict.reason,
        &verdict.message,
        now,
    );
    if tally.live() > 0 {
        return;
    }
    set(status, last, true, &verdict.reason, &verdict.message, now);
    let subject = reference(&*job.object);
    if verdict.success {
        // One that has nothing to do ends before it could begin.
        if !job.suspended {
            status.start_time.get_or_insert_with(|| stamp(now));
        }
        status.completion_time = Some(stamp(now));
        plan.notices
            .push(Notice::normal(subject, "Completed", "Job completed"));
    } else {
        plan.notices
            .push(Notice::warning(subject, &verdict.reason, &verdict.message));
    }
    let seconds = job
        .object
        .spec
        .as_ref()
        .and_then(|spec| spec.ttl_seconds_after_finished);
    if let Ttl::Until(due) = ttl(seconds, Some(stamp(now).0), now) {
        plan.next = Some(due);
    }
}

/// Active pods beyond the parallelism (which may be lowered while the Job runs), and pods of indexes that are
/// done or gone: the youngest first.
fn superfluous(job: &ValidatedJob, tally: &Tally) -> Vec<Arc<Pod>> {
    let useless = |pod: &Arc<Pod>| {
        job.indexed
            && pod::index(pod).is_none_or(|index| {
                tally.completed.contains(&index) || tally.failed_indexes.contains(&index)
            })
    };
    let (mut delete, mut keep): (Vec<_>, Vec<_>) = tally.active.iter().cloned().partition(useless);
    keep.sort_by_key(|pod| (!pod::is_ready(pod), pod::index(pod), pod::created_at(pod)));
    let allowed = usize::try_from(job.parallelism).unwrap_or(0);
    delete.extend(keep.into_iter().skip(allowed));
    delete
}

fn create(job: &ValidatedJob, tally: &Tally, plan: &mut Plan, now: Timestamp) {
    let running = tally.live().saturating_sub(plan.delete.len());
    let parallelism = usize::try_from(job.parallelism).unwrap_or(0);
    let room = parallelism.saturating_sub(running).min(MOST_AT_ONCE);
    let slots = slots(job, tally, room);
    if slots.is_empty() {
        return;
    }
    if let Some(moment) = backoff_policy::not_before(&tally.failures, &tally.successes)
        && moment > now
    {
        plan.next = Some(moment);
        return;
    }
    plan.create = slots.iter().map(|slot| build(job, slot)).collect();
    let names: Vec<_> = plan
        .create
        .iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    let message = match names.as_slice() {
        [name] => format!("Created pod: {name}"),
        [first, .., last] => format!("Created {} pods: {first} to {last}", names.len()),
        [] => return,
    };
    plan.notices.push(Notice::normal(
        reference(&*job.object),
        "SuccessfulCreate",
        message,
    ));
}

/// The places for which there is work and room.
fn slots(job: &ValidatedJob, tally: &Tally, room: usize) -> Vec<Slot> {
    let mut unaccounted = tally.unaccounted;
    if !job.indexed {
        let wanted = match job.completions {
            Some(completions) => completions.saturating_sub(tally.succeeded),
            None if tally.succeeded > 0 => 0,
            None => job.parallelism,
        };
        let missing = usize::try_from(wanted)
            .unwrap_or(0)
            .saturating_sub(tally.live())
            .min(room);
        let first = tally.ranks.get(&0).map_or(0, |rank| rank.attempts);
        let ordinals = first..first.saturating_add(i32::try_from(missing).unwrap_or(0));
        return ordinals
            .map(|attempt| Slot {
                index: None,
                attempt,
                failures: 0,
            })
            .collect();
    }
    let free = (0..job.completions.unwrap_or(0)).filter(|index| {
        let occupied = tally.ranks.get(index).is_some_and(|rank| rank.occupied);
        !occupied && !tally.completed.contains(index) && !tally.failed_indexes.contains(index)
    });
    let slot = |index: i32| {
        let rank = tally.ranks.get(&index).copied().unwrap_or_default();
        let extra = if rank.attempts == 0 {
            std::mem::take(&mut unaccounted)
        } else {
            0
        };
        Slot {
            index: Some(index),
            attempt: rank.attempts.saturating_add(extra),
            failures: rank.failures.saturating_add(extra),
        }
    };
    free.take(room).map(slot).collect()
}

fn count(job: &ValidatedJob, tally: &Tally, plan: &Plan, status: &mut JobStatus) {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let leaving: HashSet<_> = plan
        .delete
        .iter()
        .filter(|pod| pod::is_active(pod))
        .map(Arc::as_ptr)
        .collect();
    let active = tally.active.len().saturating_sub(leaving.len()) + plan.create.len();
    let some = |count: i32| (count > 0).then_some(count);
    status.active = some(number(active));
    let staying = |pod: &&Arc<Pod>| pod::is_ready(pod) && !leaving.contains(&Arc::as_ptr(pod));
    status.ready = Some(number(tally.active.iter().filter(staying).count()));
    status.terminating = Some(number(tally.terminating + leaving.len()));
    status.succeeded = some(tally.succeeded);
    status.failed = some(tally.failed);
    if job.indexed {
        status.completed_indexes =
            Some(indexes::format(&tally.completed)).filter(|text| !text.is_empty());
        status.failed_indexes = job
            .backoff_limit_per_index
            .map(|_| indexes::format(&tally.failed_indexes));
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
