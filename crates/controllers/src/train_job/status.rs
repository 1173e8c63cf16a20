//! The status of a TrainJob: exactly what Kubeflow Trainer's clients expect, and no condition more.
//!
//! Its SDK takes a job for running only while it has no condition at all. So `Suspended=False`, which tells of a
//! resumption, goes again after a while, unless a deadline counts from it.

use astrago_api::conditions::{
    self as api_conditions, job_set as set_condition, train_job as condition,
};
use astrago_api::{JobSet, JobStatus, TrainJob, TrainJobStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::clock::after;
use crate::conditions::{Claim, set};

/// How many seconds a job says that it was resumed.
const RESUMPTION: i64 = 10;

/// Why a job cannot run and never will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fatal {
    /// For machines.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// The status of `job` at `now`, given its JobSet. A job that ended keeps its end, whatever becomes of the JobSet.
pub(crate) fn status(
    job: &TrainJob,
    job_set: Option<&JobSet>,
    fatal: Option<&Fatal>,
    now: Timestamp,
) -> TrainJobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let generation = job.metadata.generation;
    if job.is_finished() {
        return status;
    }
    note_suspension(job, &mut status, now);
    if let Some(job_set) = job_set {
        status.jobs_status = jobs_status(job_set);
        note_end(job_set, &mut status, generation);
    }
    let ended = ended(&status);
    if let Some(fatal) = fatal.filter(|_| !ended) {
        let claim = Claim {
            kind: condition::FAILED,
            holds: true,
            reason: fatal.reason,
            message: &fatal.message,
        };
        set(&mut status.conditions, claim, generation, now);
    }
    // `kubectl get` shows the first condition that holds.
    let is_end = |known: &Condition| {
        [condition::COMPLETE, condition::FAILED].contains(&known.type_.as_str())
    };
    status
        .conditions
        .sort_by_key(|known| !is_end(known) && known.status == "True");
    status
}

/// Whether this is the status of a job that ended.
pub(crate) fn ended(status: &TrainJobStatus) -> bool {
    api_conditions::is_true(&status.conditions, condition::COMPLETE)
        || api_conditions::is_true(&status.conditions, condition::FAILED)
}

fn note_suspension(job: &TrainJob, status: &mut TrainJobStatus, now: Timestamp) {
    let was_suspended = api_conditions::is_true(&status.conditions, condition::SUSPENDED);
    let (holds, reason, message) = match (job.is_suspended(), was_suspended) {
        (true, _) => (
            true,
            condition::REASON_SUSPENDED,
            condition::MESSAGE_SUSPENDED,
        ),
        (false, true) => (false, condition::REASON_RESUMED, condition::MESSAGE_RESUMED),
        (false, false) => {
            if resumption_until(job, status).is_some_and(|until| until <= now) {
                let kept = |known: &Condition| known.type_ != condition::SUSPENDED;
                status.conditions.retain(kept);
            }
            return;
        }
    };
    let claim = Claim {
        kind: condition::SUSPENDED,
        holds,
        reason,
        message,
    };
    set(&mut status.conditions, claim, job.metadata.generation, now);
}

/// Until when the status of `job` tells that it was resumed, if it does and not for good.
pub(crate) fn resumption_until(job: &TrainJob, status: &TrainJobStatus) -> Option<Timestamp> {
    let resumed = api_conditions::find(&status.conditions, condition::SUSPENDED)
        .filter(|known| known.status == "False" && job.spec.active_deadline_seconds.is_none())?;
    Some(after(resumed.last_transition_time.0, RESUMPTION))
}

/// Takes over the end of the JobSet, with its reason, message and time.
fn note_end(job_set: &JobSet, status: &mut TrainJobStatus, generation: Option<i64>) {
    let ends = [
        (set_condition::COMPLETED, condition::COMPLETE),
        (set_condition::FAILED, condition::FAILED),
    ];
    for (theirs, ours) in ends {
        let Some(end) = api_conditions::find(job_set.conditions(), theirs) else {
            continue;
        };
        if end.status == "True" {
            let claim = Claim {
                kind: ours,
                holds: true,
                reason: &end.reason,
                message: &end.message,
            };
            set(
                &mut status.conditions,
                claim,
                generation,
                end.last_transition_time.0,
            );
        }
    }
}

fn jobs_status(job_set: &JobSet) -> Vec<JobStatus> {
    let counts = job_set
        .status
        .iter()
        .flat_map(|status| &status.replicated_jobs_status);
    let copy = |counts: &astrago_api::ReplicatedJobStatus| JobStatus {
        name: counts.name.clone(),
        ready: counts.ready,
        succeeded: counts.succeeded,
        failed: counts.failed,
        active: counts.active,
        suspended: counts.suspended,
    };
    counts.map(copy).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::stamp;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a moment")
    }

    fn job(suspend: bool, conditions: &Value) -> TrainJob {
        serde_json::from_value(json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": { "name": "demo", "generation": 3 },
            "spec": { "runtimeRef": { "name": "torch" }, "suspend": suspend },
            "status": { "conditions": conditions },
        }))
        .expect("a valid job")
    }

    fn job_set(conditions: &Value) -> JobSet {
        serde_json::from_value(json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": { "name": "demo" },
            "spec": { "replicatedJobs": [] },
            "status": { "conditions": conditions, "replicatedJobsStatus": [
                { "name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0 },
            ] },
        }))
        .expect("a valid set")
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str, second: i64) -> Value {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": stamp(at(second)) })
    }

    fn told(status: &TrainJobStatus) -> Vec<(&str, &str, &str, i64)> {
        let tell = |condition: &'_ k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            condition.last_transition_time.0.as_second()
        };
        let conditions = status.conditions.iter();
        conditions
            .map(|c| {
                (
                    c.type_.as_str(),
                    c.status.as_str(),
                    c.reason.as_str(),
                    tell(c),
                )
            })
            .collect()
    }

    #[rstest]
    #[case::running(false, json!([]), json!([]), vec![])]
    #[case::held(true, json!([]), json!([]), vec![("Suspended", "True", "Suspended", 100)])]
    #[case::still_held(true, json!([condition("Suspended", "True", "Suspended", "TrainJob is suspended", 50)]), json!([]),
        vec![("Suspended", "True", "Suspended", 50)])]
    #[case::let_go(false, json!([condition("Suspended", "True", "Suspended", "TrainJob is suspended", 50)]), json!([]),
        vec![("Suspended", "False", "Resumed", 100)])]
    #[case::running_again(false, json!([condition("Suspended", "False", "Resumed", "TrainJob is resumed", 95)]), json!([]),
        vec![])]
    #[case::complete(false, json!([]),
        json!([condition("Completed", "True", "AllJobsCompleted", "jobset completed successfully", 90)]),
        vec![("Complete", "True", "AllJobsCompleted", 90)])]
    #[case::failed(false, json!([]), json!([condition("Failed", "True", "FailedJobs", "jobset failed", 90)]),
        vec![("Failed", "True", "FailedJobs", 90)])]
    #[case::condition_that_is_not_true(false, json!([]), json!([condition("Failed", "False", "x", "y", 90)]), vec![])]
    fn a_job_says_what_its_set_says(
        #[case] suspend: bool,
        #[case] before: Value,
        #[case] theirs: Value,
        #[case] want: Vec<(&str, &str, &str, i64)>,
    ) {
        let job = job(suspend, &before);
        let status = status(&job, Some(&job_set(&theirs)), None, at(100));
        let want = if want.is_empty() {
            told(job.status.as_ref().expect("a status"))
        } else {
            want
        };
        assert_eq!(told(&status), want);
        assert_eq!(status.jobs_status.len(), 1);
        assert_eq!(status.jobs_status[0].active, 1);
    }

    #[test]
    fn a_resumption_is_forgotten_after_a_while_unless_a_deadline_counts_from_it() {
        let resumed = json!([condition(
            "Suspended",
            "False",
            "Resumed",
            "TrainJob is resumed",
            90
        )]);
        let mut job = job(false, &resumed);
        assert_eq!(status(&job, None, None, at(99)).conditions.len(), 1);
        assert_eq!(status(&job, None, None, at(100)).conditions.len(), 0);
        job.spec.active_deadline_seconds = Some(60);
        assert_eq!(status(&job, None, None, at(100)).conditions.len(), 1);
    }

    #[test]
    fn a_job_that_ends_while_it_is_held_says_first_how_it_ended() {
        let held = json!([condition(
            "Suspended",
            "True",
            "Suspended",
            "TrainJob is suspended",
            50
        )]);
        let done = condition("Completed", "True", "AllJobsCompleted", "done", 90);
        let status = status(
            &job(true, &held),
            Some(&job_set(&json!([done]))),
            None,
            at(100),
        );
        let kinds: Vec<_> = told(&status).iter().map(|told| told.0).collect();
        assert_eq!(kinds, ["Complete", "Suspended"]);
    }

    #[test]
    fn a_job_that_failed_stays_failed_whatever_its_set_says() {
        let job = job(
            false,
            &json!([condition("Failed", "True", "DeadlineExceeded", "late", 50)]),
        );
        let completed = job_set(&json!([condition(
            "Completed",
            "True",
            "AllJobsCompleted",
            "done",
            90
        )]));
        assert_eq!(
            status(&job, Some(&completed), None, at(100)),
            job.status.clone().expect("a status")
        );
        assert_eq!(
            status(&job, None, None, at(100)),
            job.status.expect("a status")
        );
    }

    #[test]
    fn what_is_fatal_does_not_overrule_an_end() {
        let fatal = Fatal {
            reason: "DeadlineExceeded",
            message: "late".into(),
        };
        let completed = job_set(&json!([condition(
            "Completed",
            "True",
            "AllJobsCompleted",
            "done",
            90
        )]));
        let job = job(false, &json!([]));
        assert_eq!(
            told(&status(&job, Some(&completed), Some(&fatal), at(100)))[0].0,
            "Complete"
        );
        let failed = status(&job, None, Some(&fatal), at(100));
        assert_eq!(told(&failed), [("Failed", "True", "DeadlineExceeded", 100)]);
        assert_eq!(failed.conditions[0].observed_generation, Some(3));
    }
}
