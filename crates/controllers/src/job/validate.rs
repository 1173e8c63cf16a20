//! The second step: a Job with its defaults filled in, or why it cannot run.

use std::sync::Arc;

use astrago_api::MOST_PODS;
use astrago_api::conditions::job as condition;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, PodFailurePolicy};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Error, Result};
use crate::context::owner_name;
use crate::pod;

/// Kubernetes' default.
const DEFAULT_BACKOFF_LIMIT: i32 = 6;
/// As many indexes as Kubernetes lets an Indexed Job have.
const MOST_INDEXES: i32 = 100_000;

#[derive(Debug, Clone)]
pub(crate) struct ValidatedJob {
    pub(crate) object: Arc<Job>,
    pub(crate) uid: String,
    /// Whether every pod has a rank.
    pub(crate) indexed: bool,
    /// How many must succeed; `None` if one success ends the Job.
    pub(crate) completions: Option<i32>,
    /// How many may run at once.
    pub(crate) parallelism: i32,
    /// How many failures in all are too many.
    pub(crate) backoff_limit: i32,
    /// How many failures of one index are too many.
    pub(crate) backoff_limit_per_index: Option<i32>,
    pub(crate) suspended: bool,
    status: JobStatus,
}

/// Checks `job` and fills in the defaults.
pub(crate) fn validate(job: Arc<Job>) -> Result<ValidatedJob> {
    let uid = job.uid().ok_or(Error::Invalid {
        field: "metadata.uid",
        problem: "is missing".to_owned(),
    })?;
    let spec = job.spec.as_ref().ok_or(Error::Invalid {
        field: "spec",
        problem: "is missing".to_owned(),
    })?;
    // What ended is only cleaned up.
    if !is_finished(&job)
        && let Some((field, most)) = beyond_limits(spec)
    {
        let problem = format!("must be from 0 to {most}");
        return Err(Error::Invalid { field, problem });
    }
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let parallelism = spec.parallelism.unwrap_or(1);
    // Without either number Kubernetes means one pod; with parallelism alone, a work queue.
    let completions = match (spec.completions, spec.parallelism) {
        (None, None) => Some(1),
        (completions, _) => completions,
    };
    if indexed && completions.is_none() {
        return Err(Error::Invalid {
            field: "spec.completions",
            problem: "is required when completionMode is Indexed".to_owned(),
        });
    }
    let backoff_limit_per_index = spec.backoff_limit_per_index.filter(|_| indexed);
    let default_limit = if backoff_limit_per_index.is_some() {
        i32::MAX
    } else {
        DEFAULT_BACKOFF_LIMIT
    };
    Ok(ValidatedJob {
        uid,
        indexed,
        completions,
        parallelism,
        backoff_limit: spec.backoff_limit.unwrap_or(default_limit),
        backoff_limit_per_index,
        suspended: spec.suspend.unwrap_or(false),
        status: job.status.clone().unwrap_or_default(),
        object: job,
    })
}

/// The count that is out of bounds, and the bound. An Indexed Job is looked at index by index, so these have one too;
/// it is Kubernetes' own.
fn beyond_limits(spec: &JobSpec) -> Option<(&'static str, i32)> {
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let most_completions = if indexed { MOST_INDEXES } else { i32::MAX };
    let out =
        |count: Option<i32>, most: i32| count.is_some_and(|count| !(0..=most).contains(&count));
    if out(spec.parallelism, MOST_PODS) {
        Some(("spec.parallelism", MOST_PODS))
    } else if out(spec.completions, most_completions) {
        Some(("spec.completions", most_completions))
    } else {
        None
    }
}

/// Whether the Job ended, well or badly.
pub(crate) fn is_finished(job: &Job) -> bool {
    let conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| {
        [condition::COMPLETE, condition::FAILED].contains(&found.type_.as_str())
            && found.status == "True"
    })
}

impl ValidatedJob {
    pub(crate) fn status(&self) -> &JobStatus {
        &self.status
    }

    /// The condition of this type, if it is true.
    pub(crate) fn condition(&self, kind: &str) -> Option<&JobCondition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == kind && condition.status == "True")
    }

    /// Since when it runs, without a pause.
    pub(crate) fn runs_since(&self) -> Option<Timestamp> {
        self.status
            .start_time
            .as_ref()
            .filter(|_| !self.suspended)
            .map(|time| time.0)
    }

    /// Since when it is held, if that is on record. It is so until nothing of it is left.
    pub(crate) fn held_since(&self) -> Option<Timestamp> {
        let held = self.condition(condition::SUSPENDED)?;
        held.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Whether a JobSet is in charge of it, which starts the whole set again when the Job fails.
    pub(crate) fn is_in_a_set(&self) -> bool {
        owner_name(&*self.object, "JobSet").is_some()
    }

    /// Whether its pods train together: none can go on without the others.
    pub(crate) fn is_gang(&self) -> bool {
        let completions = self.completions.unwrap_or(0);
        self.indexed && completions > 1 && self.parallelism >= completions && self.is_in_a_set()
    }

    /// Whether the end of this pod of a gang that is held came after that was on record.
    pub(crate) fn is_after_its_hold(&self, pod: &Pod) -> bool {
        let since = self.held_since().filter(|_| self.is_gang());
        since.is_some_and(|since| pod::is_terminal(pod) && pod::ended_before(pod, since).is_none())
    }

    /// Whether its pods have their node from the start.
    pub(crate) fn is_placed_by_its_template(&self) -> bool {
        let spec = self.object.spec.as_ref();
        spec.and_then(|spec| spec.template.spec.as_ref())
            .is_some_and(|pod| pod.node_name.is_some())
    }

    pub(crate) fn recorded_failures(&self) -> i32 {
        self.status.failed.unwrap_or(0)
    }

    pub(crate) fn recorded_successes(&self) -> i32 {
        self.status.succeeded.unwrap_or(0)
    }

    pub(crate) fn pod_failure_policy(&self) -> Option<&PodFailurePolicy> {
        self.object
            .spec
            .as_ref()
            .and_then(|spec| spec.pod_failure_policy.as_ref())
    }

    /// Whether this is one of the Job's indexes.
    pub(crate) fn has_index(&self, index: i32) -> bool {
        self.completions
            .is_some_and(|completions| (0..completions).contains(&index))
    }

    /// Whether containers are started again inside of their pod.
    pub(crate) fn restarts_in_place(&self) -> bool {
        let spec = self.object.spec.as_ref();
        let policy = spec.and_then(|spec| spec.template.spec.as_ref()?.restart_policy.as_deref());
        policy == Some("OnFailure")
    }
}
