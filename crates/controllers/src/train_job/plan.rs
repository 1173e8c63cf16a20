//! The third step: from a TrainJob and what there is of it to what is done. Pure.

use astrago_api::conditions::train_job as condition;
use astrago_api::{JobSet, TrainJob, TrainJobStatus};
use astrago_plan::{Options, deadline, effective_ttl, plan_train_job};
use jiff::Timestamp;

use super::fetch::Observed;
use super::status::{Fatal, ended, resumption_until, status};
use crate::events::{Notice, reference};
use crate::ttl_policy::{Ttl, ttl};

/// What is to be done about a TrainJob.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The objects to bring about.
    pub(crate) objects: Option<astrago_plan::Plan>,
    /// Whether its JobSet is to be deleted.
    pub(crate) stop: bool,
    /// Whether the job itself is to be deleted.
    pub(crate) expired: bool,
    /// The status afterwards, if it is ours to write.
    pub(crate) status: Option<TrainJobStatus>,
    /// What to tell once the status is written.
    pub(crate) notices: Vec<Notice>,
    /// When something falls due.
    pub(crate) next: Option<Timestamp>,
}

/// What is to be done about `job` at `now`.
pub(crate) fn plan(job: &TrainJob, observed: &Observed, options: &Options, now: Timestamp) -> Plan {
    if job.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let job_set = observed.job_set.as_deref();
    if job.is_finished() {
        return clean_up(job, observed, now);
    }
    let mut plan = Plan::default();
    let due = deadline(job);
    let mut fatal = due.filter(|due| *due <= now).map(|_| Fatal {
        reason: condition::REASON_DEADLINE_EXCEEDED,
        message: condition::MESSAGE_DEADLINE_EXCEEDED.to_string(),
    });
    plan.next = due.filter(|due| *due > now);
    if fatal.is_none()
        && let Some(runtime) = &observed.runtime
    {
        match plan_train_job(job, runtime.view(), options) {
            Ok(objects) => {
                let warnings = objects.warnings.iter();
                plan.notices.extend(
                    warnings.map(|text| Notice::warning(reference(job), "Warning", text.as_str())),
                );
                plan.objects = Some(objects);
            }
            // What is wrong with the job cannot be mended by trying again, since neither the job nor the snapshot
            // of its runtime will change. While it is held, it can still be mended by its owner.
            Err(errors) if job.is_suspended() => {
                let reason = condition::REASON_RESOURCES_CREATION_FAILED;
                plan.notices
                    .push(Notice::warning(reference(job), reason, errors.to_string()));
            }
            Err(errors) => {
                fatal = Some(Fatal {
                    reason: condition::REASON_RESOURCES_CREATION_FAILED,
                    message: errors.to_string(),
                });
            }
        }
    }
    let new = status(job, job_set, fatal.as_ref(), now);
    tell(job, &new, &mut plan);
    let told = resumption_until(job, &new).filter(|until| *until > now);
    if ended(&new) {
        plan.next = None;
    } else if told.is_some() {
        plan.next = told;
    } else if plan.next.is_none() && deadline_after_resumption(job, &new) {
        // The clock starts with the status that we are about to write.
        plan.next = job
            .spec
            .active_deadline_seconds
            .map(|seconds| crate::clock::after(now, seconds));
    }
    // An empty status is not valid, and says nothing.
    plan.status = Some(new).filter(|new| *new != TrainJobStatus::default());
    plan
}

/// A job that ended stays ended; what it left running is stopped, and in the end it goes.
fn clean_up(job: &TrainJob, observed: &Observed, now: Timestamp) -> Plan {
    let job_set = observed.job_set.as_deref();
    let stop = job_set.is_some_and(|job_set| {
        !job_set.is_finished() && job_set.metadata.deletion_timestamp.is_none()
    });
    let seconds = match job.ttl_seconds_after_finished() {
        Ok(Some(seconds)) => Some(seconds),
        _ => inherited_ttl(job, observed, job_set),
    };
    match ttl(seconds, finished_at(job), now) {
        Ttl::Keep => Plan {
            stop,
            ..Plan::default()
        },
        Ttl::Until(due) => Plan {
            stop,
            next: Some(due),
            ..Plan::default()
        },
        Ttl::Expired => Plan {
            expired: true,
            ..Plan::default()
        },
    }
}

/// What the runtime says, which the JobSet carries for as long as it is there.
fn inherited_ttl(job: &TrainJob, observed: &Observed, job_set: Option<&JobSet>) -> Option<i32> {
    match (job_set, &observed.runtime) {
        (Some(job_set), _) => job_set.spec.ttl_seconds_after_finished,
        (None, Some(runtime)) => effective_ttl(job, runtime.view().spec),
        (None, None) => None,
    }
}

fn finished_at(job: &TrainJob) -> Option<Timestamp> {
    let ends = [condition::COMPLETE, condition::FAILED];
    let mut ended = job
        .conditions()
        .iter()
        .filter(|found| ends.contains(&found.type_.as_str()));
    ended
        .find(|found| found.status == "True")
        .map(|found| found.last_transition_time.0)
}

fn deadline_after_resumption(job: &TrainJob, new: &TrainJobStatus) -> bool {
    let suspended = astrago_api::conditions::find(&new.conditions, condition::SUSPENDED);
    let was = astrago_api::conditions::is_true(job.conditions(), condition::SUSPENDED);
    was && suspended.is_some_and(|now| now.status == "False")
}

/// Events for every condition that changes.
fn tell(job: &TrainJob, new: &TrainJobStatus, plan: &mut Plan) {
    for told in &new.conditions {
        let known = astrago_api::conditions::find(job.conditions(), &told.type_);
        if known.is_some_and(|known| known.status == told.status) {
            continue;
        }
        let subject = reference(job);
        plan.notices.push(if told.type_ == condition::FAILED {
            Notice::warning(subject, &told.reason, &told.message)
        } else {
            Notice::normal(subject, &told.reason, &told.message)
        });
    }
}
