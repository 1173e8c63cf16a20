//! The second step: a Job with its defaults filled in, or why it cannot run.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus, PodFailurePolicy};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Error, Result};
use crate::pod;

/// Kubernetes' default.
const DEFAULT_BACKOFF_LIMIT: i32 = 6;

/// A Job that makes sense.
#[derive(Debug, Clone)]
pub(crate) struct ValidatedJob {
    /// The Job as it is.
    pub(crate) object: Arc<Job>,
    /// Its uid.
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
    /// Whether it is held.
    pub(crate) suspended: bool,
    status: JobStatus,
}

/// Checks `job` and fills in the defaults.
pub(crate) fn validate(job: Arc<Job>) -> Result<ValidatedJob> {
    let uid = job.uid().ok_or(Error::Invalid {
        field: "metadata.uid",
        problem: "is missing",
    })?;
    let spec = job.spec.as_ref().ok_or(Error::Invalid {
        field: "spec",
        problem: "is missing",
    })?;
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let parallelism = spec.parallelism.unwrap_or(1);
    if parallelism < 0 {
        return Err(Error::Invalid {
            field: "spec.parallelism",
            problem: "must not be negative",
        });
    }
    // Without either number Kubernetes means one pod; with parallelism alone, a work queue.
    let completions = match (spec.completions, spec.parallelism) {
        (None, None) => Some(1),
        (completions, _) => completions,
    };
    if indexed && completions.is_none() {
        let problem = "is required when completionMode is Indexed";
        return Err(Error::Invalid {
            field: "spec.completions",
            problem,
        });
    }
    if completions.is_some_and(|completions| completions < 0) {
        return Err(Error::Invalid {
            field: "spec.completions",
            problem: "must not be negative",
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

impl ValidatedJob {
    /// The status on record.
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

    /// Whether a pod was made since the Job was last let go; earlier ones were deleted by us.
    pub(crate) fn is_of_this_run(&self, pod: &Pod) -> bool {
        self.runs_since()
            .is_some_and(|start| pod::created_at(pod) >= Some(start))
    }

    /// Failures on record.
    pub(crate) fn recorded_failures(&self) -> i32 {
        self.status.failed.unwrap_or(0)
    }

    /// Successes on record.
    pub(crate) fn recorded_successes(&self) -> i32 {
        self.status.succeeded.unwrap_or(0)
    }

    /// The rules for failed pods.
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
