//! The third step: from the Jobs of a set to what is done about them. Pure.
//!
//! What ends or restarts a set is first written down in its status and acted upon in the next reconcile, which the
//! status itself triggers. So a crash at any point finds the decision on record, and never makes it twice. That a set
//! is held is written down before its Jobs are: what ends after that is no failure.

use std::collections::HashMap;
use std::sync::Arc;

use astrago_api::conditions::{job as job_condition, job_set as condition};
use astrago_api::{
    JobSet, JobSetStatus, ReplicatedJob, RestartStrategy, conditions as api_conditions, labels,
};
use astrago_plan::{jobs_of, service_of, volume_claims_of};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::children::{Children, holds, is_suspended, template_of};
use super::counts::counts;
use super::failure_policy::{Response, respond};
use super::fetch::Observed;
use super::startup_policy::{Startup, startup};
use super::success_policy;
use crate::conditions::{Claim, set};
use crate::events::{Notice, reference};
use crate::fingerprint::suffix;
use crate::ttl_policy::{Ttl, ttl};

/// How many letters tell two pod templates apart.
const SHORT: usize = 12;

/// What is to be done about a JobSet.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The Service that is missing.
    pub(crate) service: Option<Service>,
    /// Claims that may be missing.
    pub(crate) claims: Vec<PersistentVolumeClaim>,
    pub(crate) create: Vec<Job>,
    pub(crate) delete: Vec<Arc<Job>>,
    /// Jobs to hold or to let go, with the merge patch that does it.
    pub(crate) patch: Vec<(Arc<Job>, Value)>,
    /// Whether the set itself is to be deleted.
    pub(crate) expired: bool,
    /// The status afterwards, if it changes.
    pub(crate) status: Option<JobSetStatus>,
    /// What to tell once the status is written.
    pub(crate) notices: Vec<Notice>,
    /// When something falls due.
    pub(crate) next: Option<Timestamp>,
}

/// What is to be done about `job_set` at `now`. It has its defaults.
pub(crate) fn plan(job_set: &JobSet, observed: &Observed, now: Timestamp) -> Plan {
    if job_set.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let children = Children::of(job_set, observed.jobs.clone());
    if job_set.is_finished() {
        return clean_up(job_set, &children, now);
    }
    let mut plan = Plan {
        delete: children.previous.clone(),
        ..Plan::default()
    };
    let mut status = job_set.status.clone().unwrap_or_default();
    status.replicated_jobs_status = counts(job_set, &children);
    if !job_set.is_suspended() && all_ready(job_set, &status) {
        let (reason, message) = (condition::REASON_JOBS_READY, condition::MESSAGE_JOBS_READY);
        end_restart(job_set, (reason, message), &mut status, now);
    }
    if let Some(response) = respond(job_set, &children, now) {
        carry_out(job_set, response, &mut status, &mut plan, now);
    } else if success_policy::met(job_set, &children.succeeded) {
        let claim = Claim {
            kind: condition::COMPLETED,
            holds: true,
            reason: condition::REASON_ALL_JOBS_COMPLETED,
            message: condition::MESSAGE_ALL_JOBS_COMPLETED,
        };
        finish(job_set, claim, &mut status, &mut plan, now);
    } else {
        let was_held = api_conditions::is_true(job_set.conditions(), condition::SUSPENDED);
        let leaving = was_held && !job_set.is_suspended() && !is_at_rest(&children);
        let hold = job_set.is_suspended() || leaving;
        let startup = startup(job_set, &status.replicated_jobs_status);
        note_startup(job_set, &startup, &mut status, &mut plan, now);
        note_suspension(job_set, hold, &mut status, &mut plan, now);
        suspensions(job_set, hold, &children, &startup, &mut plan);
        if !leaving {
            create(job_set, observed, &children, &startup, &mut plan);
        }
    }
    plan.status = Some(status);
    plan
}

/// What is done about a set that cannot run: it has failed, and says of what.
pub(crate) fn refuse(job_set: &JobSet, problem: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if job_set.metadata.deletion_timestamp.is_none() {
        let mut status = job_set.status.clone().unwrap_or_default();
        let claim = Claim {
            kind: condition::FAILED,
            holds: true,
            reason: condition::REASON_INVALID,
            message: problem,
        };
        finish(job_set, claim, &mut status, &mut plan, now);
        plan.status = Some(status);
    }
    plan
}

/// The counts of a set that ended: those of its end stay, though Jobs go, and nothing runs any more.
fn last_counts(job_set: &JobSet, children: &Children) -> Option<JobSetStatus> {
    let mut status = job_set.status.clone()?;
    let now = counts(job_set, children);
    for known in &mut status.replicated_jobs_status {
        let Some(now) = now.iter().find(|now| now.name == known.name) else {
            continue;
        };
        known.succeeded = known.succeeded.max(now.succeeded);
        known.failed = known.failed.max(now.failed);
        (known.ready, known.active, known.suspended) = (now.ready, now.active, now.suspended);
    }
    Some(status)
}

/// A finished set keeps its finished Jobs for their logs, and nothing of it runs.
fn clean_up(job_set: &JobSet, children: &Children, now: Timestamp) -> Plan {
    let conditions = job_set.conditions();
    let ended = api_conditions::find(conditions, condition::COMPLETED)
        .filter(|condition| condition.status == "True")
        .or_else(|| api_conditions::find(conditions, condition::FAILED));
    let ended = ended.map(|condition| condition.last_transition_time.0);
    let delete: Vec<_> = children
        .active
        .iter()
        .chain(&children.previous)
        .cloned()
        .collect();
    match ttl(job_set.spec.ttl_seconds_after_finished, ended, now) {
        Ttl::Expired => Plan {
            expired: true,
            ..Plan::default()
        },
        Ttl::Until(due) => Plan {
            delete,
            next: Some(due),
            status: last_counts(job_set, children),
            ..Plan::default()
        },
        Ttl::Keep => Plan {
            delete,
            status: last_counts(job_set, children),
            ..Plan::default()
        },
    }
}

fn carry_out(
    job_set: &JobSet,
    response: Response,
    status: &mut JobSetStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    match response {
        Response::Fail { reason, message } => {
            let claim = Claim {
                kind: condition::FAILED,
                holds: true,
                reason,
                message: &message,
            };
            finish(job_set, claim, status, plan, now);
        }
        Response::Wait { until } => plan.next = Some(until),
        Response::Restart {
            counts,
            reason,
            cause,
            message,
        } => {
            let claim = Claim {
                kind: condition::RESTARTING,
                holds: true,
                reason: &cause,
                message: &message,
            };
            let generation = job_set.metadata.generation;
            set(&mut status.conditions, claim, generation, now);
            status.restarts = status.restarts.saturating_add(1);
            if counts {
                status.restarts_count_towards_max =
                    status.restarts_count_towards_max.saturating_add(1);
            }
            for counts in &mut status.replicated_jobs_status {
                (counts.ready, counts.active, counts.failed, counts.succeeded) = (0, 0, 0, 0);
            }
            plan.notices
                .push(Notice::warning(reference(job_set), reason, message));
        }
    }
}

fn finish(
    job_set: &JobSet,
    claim: Claim<'_>,
    status: &mut JobSetStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    set(
        &mut status.conditions,
        claim,
        job_set.metadata.generation,
        now,
    );
    let why = if claim.kind == condition::COMPLETED {
        (condition::REASON_JOB_SET_COMPLETED, claim.message)
    } else {
        (
            condition::REASON_JOB_SET_FAILED,
            condition::MESSAGE_JOB_SET_FAILED,
        )
    };
    end_restart(job_set, why, status, now);
    status.terminal_state = Some(claim.kind.to_string());
    let subject = reference(job_set);
    plan.notices.push(if claim.kind == condition::COMPLETED {
        Notice::normal(subject, claim.reason, claim.message)
    } else {
        Notice::warning(subject, claim.reason, claim.message)
    });
}

/// Whether all Jobs that there are to be are ready, or ended well.
fn all_ready(job_set: &JobSet, status: &JobSetStatus) -> bool {
    let counts = status.replicated_jobs_status.iter();
    let ready: i32 = counts.map(|counts| counts.ready + counts.succeeded).sum();
    let templates = job_set.spec.replicated_jobs.iter();
    ready == templates.map(ReplicatedJob::replicas).sum::<i32>()
}

/// A set that was started again is not any more, for a reason and with a message.
fn end_restart(
    job_set: &JobSet,
    (reason, message): (&str, &str),
    status: &mut JobSetStatus,
    now: Timestamp,
) {
    if api_conditions::find(&status.conditions, condition::RESTARTING).is_some() {
        let claim = Claim {
            kind: condition::RESTARTING,
            holds: false,
            reason,
            message,
        };
        set(
            &mut status.conditions,
            claim,
            job_set.metadata.generation,
            now,
        );
    }
}

fn note_startup(
    job_set: &JobSet,
    startup: &Startup,
    status: &mut JobSetStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    let Some(complete) = startup.complete else {
        return;
    };
    let generation = job_set.metadata.generation;
    let (kind, reason, message) = if complete {
        (
            condition::STARTUP_POLICY_COMPLETED,
            condition::REASON_IN_ORDER_COMPLETED,
            condition::MESSAGE_IN_ORDER_COMPLETED,
        )
    } else {
        (
            condition::STARTUP_POLICY_IN_PROGRESS,
            condition::REASON_IN_ORDER_IN_PROGRESS,
            condition::MESSAGE_IN_ORDER_IN_PROGRESS,
        )
    };
    let known = api_conditions::is_true(&status.conditions, kind);
    set(
        &mut status.conditions,
        Claim {
            kind,
            holds: true,
            reason,
            message,
        },
        generation,
        now,
    );
    let other = if complete {
        condition::STARTUP_POLICY_IN_PROGRESS
    } else {
        condition::STARTUP_POLICY_COMPLETED
    };
    if api_conditions::is_true(&status.conditions, other) {
        let claim = Claim {
            kind: other,
            holds: false,
            reason,
            message,
        };
        set(&mut status.conditions, claim, generation, now);
    }
    if complete && !known {
        plan.notices
            .push(Notice::normal(reference(job_set), reason, message));
    }
}

/// Whether all Jobs know that they are held, and nothing of them runs. Only then a set that was held goes on: what
/// still ends of it ends because it was held.
fn is_at_rest(children: &Children) -> bool {
    children.active.iter().all(|job| {
        let terminating = job.status.as_ref().and_then(|status| status.terminating);
        holds(job, job_condition::SUSPENDED).is_some() && terminating.unwrap_or(0) == 0
    })
}

fn note_suspension(
    job_set: &JobSet,
    suspended: bool,
    status: &mut JobSetStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    if suspended {
        let why = (
            condition::REASON_JOB_SET_SUSPENDED,
            condition::MESSAGE_SUSPENDED,
        );
        end_restart(job_set, why, status, now);
    }
    let was_suspended = api_conditions::is_true(&status.conditions, condition::SUSPENDED);
    if suspended == was_suspended {
        return;
    }
    let (reason, message) = if suspended {
        (condition::REASON_SUSPENDED, condition::MESSAGE_SUSPENDED)
    } else {
        (condition::REASON_RESUMED, condition::MESSAGE_RESUMED)
    };
    let claim = Claim {
        kind: condition::SUSPENDED,
        holds: suspended,
        reason,
        message,
    };
    set(
        &mut status.conditions,
        claim,
        job_set.metadata.generation,
        now,
    );
    plan.notices
        .push(Notice::normal(reference(job_set), reason, message));
}

/// Holds the Jobs of a held set, and lets go those of the others that may start. On the way the pods' labels,
/// annotations and placement follow the set's, which may have changed while it was held. What else changed in the pods
/// cannot change in a Job: it is replaced.
fn suspensions(
    job_set: &JobSet,
    hold: bool,
    children: &Children,
    startup: &Startup,
    plan: &mut Plan,
) {
    let differing: Vec<_> = children
        .active
        .iter()
        .filter(|job| is_suspended(job) != hold)
        .collect();
    let wanted: HashMap<String, Job> = if hold || differing.is_empty() {
        HashMap::new()
    } else {
        let jobs = jobs_of(job_set, job_set.restarts()).into_iter();
        jobs.map(|job| (job.name_any(), job)).collect()
    };
    for job in differing {
        if hold {
            let patch = json!({ "spec": { "suspend": true } });
            plan.patch.push((Arc::clone(job), patch));
            continue;
        }
        let allowed = startup.allowed.iter().any(|name| name == template_of(job));
        let Some(wanted) = wanted.get(&job.name_any()).filter(|_| allowed) else {
            continue;
        };
        let known = job.annotations().get(labels::POD_TEMPLATE);
        if known.is_some_and(|known| *known != pods_in_short(wanted)) {
            plan.delete.push(Arc::clone(job));
        } else {
            plan.patch.push((Arc::clone(job), release(wanted)));
        }
    }
}

/// The patch that lets a Job go as it is `wanted`.
fn release(wanted: &Job) -> Value {
    let template = wanted.spec.as_ref().map(|spec| &spec.template);
    let metadata = template.and_then(|template| template.metadata.as_ref());
    let spec = template.and_then(|template| template.spec.as_ref());
    json!({ "spec": {
        "suspend": false,
        "template": {
            "metadata": {
                "labels": metadata.and_then(|metadata| metadata.labels.as_ref()),
                "annotations": metadata.and_then(|metadata| metadata.annotations.as_ref()),
            },
            "spec": {
                "nodeSelector": spec.and_then(|spec| spec.node_selector.as_ref()),
                "tolerations": spec.and_then(|spec| spec.tolerations.as_ref()),
                "schedulingGates": spec.and_then(|spec| spec.scheduling_gates.as_ref()),
            },
        },
    } })
}

/// What the pods of a Job are made of, in short, without what can change while it is held.
fn pods_in_short(job: &Job) -> String {
    let spec = job
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.clone());
    let mut spec = spec.unwrap_or_default();
    (spec.node_selector, spec.tolerations, spec.scheduling_gates) = (None, None, None);
    suffix(&[&json!(spec).to_string()], SHORT)
}

fn create(
    job_set: &JobSet,
    observed: &Observed,
    children: &Children,
    startup: &Startup,
    plan: &mut Plan,
) {
    if !observed.has_service {
        plan.service = service_of(job_set);
    }
    let policy = job_set.spec.failure_policy.as_ref();
    let blocking = policy.and_then(|policy| policy.restart_strategy)
        == Some(RestartStrategy::BlockingRecreate);
    if blocking && !(children.previous.is_empty() && children.leaving.is_empty()) {
        return;
    }
    let wanted = jobs_of(job_set, job_set.restarts()).into_iter();
    let taken = children.names();
    let missing = wanted.filter(|job| {
        startup.allowed.iter().any(|name| name == template_of(job))
            && !taken.contains(job.name_any().as_str())
    });
    let marked = missing.map(|mut job| {
        let mark = pods_in_short(&job);
        job.annotations_mut()
            .insert(labels::POD_TEMPLATE.into(), mark);
        job
    });
    plan.create = marked.collect();
    if !plan.create.is_empty() {
        plan.claims = volume_claims_of(job_set);
    }
}

#[cfg(test)]
mod tests;
