//! The Jobs of a JobSet, sorted once into the heaps that the policies ask for.

use std::collections::HashSet;
use std::sync::Arc;

use astrago_api::conditions::job as condition;
use astrago_api::{JobSet, labels};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::ResourceExt;

/// The Jobs of a JobSet.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Of this attempt, not finished.
    pub(crate) active: Vec<Arc<Job>>,
    /// Of this attempt, ended well.
    pub(crate) succeeded: Vec<Arc<Job>>,
    /// Of this attempt, ended badly.
    pub(crate) failed: Vec<Arc<Job>>,
    /// Of earlier attempts, or not in the set's templates any more.
    pub(crate) previous: Vec<Arc<Job>>,
    /// Being deleted. Their names are taken until they are gone.
    pub(crate) leaving: Vec<Arc<Job>>,
}

impl Children {
    /// Sorts the Jobs of `set`.
    pub(crate) fn of(set: &JobSet, jobs: Vec<Arc<Job>>) -> Self {
        let mut children = Self::default();
        let restarts = set.restarts();
        for job in jobs {
            let heap = if job.metadata.deletion_timestamp.is_some() {
                &mut children.leaving
            } else if attempt(&job) < restarts {
                &mut children.previous
            } else if holds(&job, condition::COMPLETE).is_some() {
                &mut children.succeeded
            } else if holds(&job, condition::FAILED).is_some() {
                &mut children.failed
            } else {
                &mut children.active
            };
            heap.push(job);
        }
        children
    }

    /// The Jobs of this attempt.
    pub(crate) fn current(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.active
            .iter()
            .chain(&self.succeeded)
            .chain(&self.failed)
    }

    /// The names that are taken, by Jobs of whatever attempt.
    pub(crate) fn names(&self) -> HashSet<&str> {
        let all = self.current().chain(&self.previous).chain(&self.leaving);
        all.filter_map(|job| job.metadata.name.as_deref()).collect()
    }
}

/// The restart that a Job belongs to.
pub(crate) fn attempt(job: &Job) -> i32 {
    job.labels()
        .get(labels::RESTART_ATTEMPT)
        .and_then(|attempt| attempt.parse().ok())
        .unwrap_or(0)
}

/// The template that a Job was made of.
pub(crate) fn template_of(job: &Job) -> &str {
    job.labels()
        .get(labels::REPLICATED_JOB_NAME)
        .map_or("", String::as_str)
}

/// The condition of this type of a Job, if it is true.
pub(crate) fn holds<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let mut conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Whether a Job is held.
pub(crate) fn is_suspended(job: &Job) -> bool {
    job.spec
        .as_ref()
        .and_then(|spec| spec.suspend)
        .unwrap_or(false)
}
