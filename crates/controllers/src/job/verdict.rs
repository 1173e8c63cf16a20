//! Whether a Job has reached its end, and how. The first question that is answered with yes decides; failure is
//! asked before success, as Kubernetes does it.

use astrago_api::conditions::job as condition;
use jiff::Timestamp;

use super::success_policy;
use super::tally::Tally;
use super::validate::ValidatedJob;
use crate::clock::after;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) success: bool,
    /// Why, for machines.
    pub(crate) reason: String,
    /// Why, for people.
    pub(crate) message: String,
}

/// The end that `job` has come to by `now`, if it has.
pub(crate) fn verdict(job: &ValidatedJob, tally: &Tally, now: Timestamp) -> Option<Verdict> {
    on_record(job)
        .or_else(|| {
            let message = tally.fatal.clone()?;
            Some(failure(condition::REASON_POD_FAILURE_POLICY, message))
        })
        .or_else(|| {
            deadline(job).filter(|due| *due <= now).map(|_| {
                failure(
                    condition::REASON_DEADLINE_EXCEEDED,
                    "Job was active longer than specified deadline",
                )
            })
        })
        .or_else(|| disrupted(job, tally))
        .or_else(|| {
            exceeds_backoff_limit(job, tally).then(|| {
                failure(
                    condition::REASON_BACKOFF_LIMIT_EXCEEDED,
                    "Job has reached the specified backoff limit",
                )
            })
        })
        .or_else(|| failed_indexes(job, tally))
        .or_else(|| {
            success_policy::met(job, tally)
                .map(|message| success(condition::REASON_SUCCESS_POLICY, message))
        })
        .or_else(|| {
            completions_reached(job, tally).then(|| {
                success(
                    condition::REASON_COMPLETIONS_REACHED,
                    "Reached expected number of succeeded pods",
                )
            })
        })
}

/// When the Job's time is up, if that is limited and it runs.
pub(crate) fn deadline(job: &ValidatedJob) -> Option<Timestamp> {
    let seconds = job.object.spec.as_ref()?.active_deadline_seconds?;
    Some(after(job.runs_since()?, seconds.max(0)))
}

fn failure(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict {
        success: false,
        reason: reason.to_string(),
        message: message.into(),
    }
}

fn success(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict {
        success: true,
        reason: reason.to_string(),
        message: message.into(),
    }
}

/// A verdict that was written down stands, even if its pods are gone.
fn on_record(job: &ValidatedJob) -> Option<Verdict> {
    let failed = job
        .condition(condition::FAILURE_TARGET)
        .map(|found| (false, found));
    let (success, found) = failed.or_else(|| {
        job.condition(condition::SUCCESS_CRITERIA_MET)
            .map(|found| (true, found))
    })?;
    Some(Verdict {
        success,
        reason: found.reason.clone().unwrap_or_default(),
        message: found.message.clone().unwrap_or_default(),
    })
}

/// A pod of a Job that replaces none was ended on purpose: the others lost their peer, and its JobSet starts all of
/// them again without counting that. Asked before the back-off limit, since the others may have failed of it.
fn disrupted(job: &ValidatedJob, tally: &Tally) -> Option<Verdict> {
    let gives_up = job.is_in_a_set() && tally.failed.saturating_add(1) > job.backoff_limit;
    (tally.interrupted > 0 && gives_up && job.held_since().is_none()).then(|| {
        failure(
            condition::REASON_PODS_DISRUPTED,
            "Pods of the Job were deleted or evicted while they ran",
        )
    })
}

fn exceeds_backoff_limit(job: &ValidatedJob, tally: &Tally) -> bool {
    if tally.failed > job.backoff_limit {
        return true;
    }
    // Containers that are started again in place count too, while their pod lives.
    job.restarts_in_place() && tally.restarts > 0 && tally.restarts >= job.backoff_limit
}

fn failed_indexes(job: &ValidatedJob, tally: &Tally) -> Option<Verdict> {
    let failed = i32::try_from(tally.failed_indexes.len()).unwrap_or(i32::MAX);
    let limit = job
        .object
        .spec
        .as_ref()
        .and_then(|spec| spec.max_failed_indexes);
    if job.backoff_limit_per_index.is_none() && tally.failed_indexes.is_empty() {
        return None;
    }
    if limit.is_some_and(|limit| failed > limit) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(failure(
            condition::REASON_MAX_FAILED_INDEXES_EXCEEDED,
            message,
        ));
    }
    let ended = tally.succeeded.saturating_add(failed);
    (failed > 0
        && job
            .completions
            .is_some_and(|completions| ended >= completions))
    .then(|| failure(condition::REASON_FAILED_INDEXES, "Job has failed indexes"))
}

fn completions_reached(job: &ValidatedJob, tally: &Tally) -> bool {
    match job.completions {
        Some(completions) => tally.succeeded >= completions,
        // A work queue: the first success says that there is no more work; the others finish theirs.
        None => tally.succeeded > 0 && tally.live() == 0,
    }
}
