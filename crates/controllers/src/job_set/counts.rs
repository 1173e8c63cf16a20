//! `status.replicatedJobsStatus`: the Jobs of each template, counted by their state.

use astrago_api::{JobSet, ReplicatedJobStatus};
use k8s_openapi::api::batch::v1::Job;

use super::children::{Children, is_suspended, template_of};

/// The counts, in descending order of names, as JobSet has them.
pub(crate) fn counts(set: &JobSet, children: &Children) -> Vec<ReplicatedJobStatus> {
    let mut all: Vec<_> = set
        .spec
        .replicated_jobs
        .iter()
        .map(|template| count(&template.name, children))
        .collect();
    all.sort_by(|a, b| b.name.cmp(&a.name));
    all
}

fn count(name: &str, children: &Children) -> ReplicatedJobStatus {
    let mut counts = ReplicatedJobStatus {
        name: name.to_string(),
        ..ReplicatedJobStatus::default()
    };
    let ours = |job: &&std::sync::Arc<Job>| template_of(job) == name;
    for job in children.active.iter().filter(ours) {
        counts.ready += i32::from(is_ready(job));
        counts.active += i32::from(runs(job));
        counts.suspended += i32::from(is_suspended(job));
    }
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    counts.succeeded = number(children.succeeded.iter().filter(ours).count());
    counts.failed = number(children.failed.iter().filter(ours).count());
    counts
}

/// Whether pods of a Job run, those on their way out among them: a held set with active Jobs is still stopping.
fn runs(job: &Job) -> bool {
    let status = job.status.as_ref();
    let count = |pods: Option<i32>| pods.unwrap_or(0) > 0;
    status.is_some_and(|status| count(status.active) || count(status.terminating))
}

/// Whether all pods of a Job that run at once are ready or done.
fn is_ready(job: &Job) -> bool {
    let (Some(spec), Some(status)) = (&job.spec, &job.status) else {
        return false;
    };
    let parallelism = spec.parallelism.unwrap_or(1);
    let pods = spec
        .completions
        .map_or(parallelism, |completions| completions.min(parallelism));
    status
        .ready
        .unwrap_or(0)
        .saturating_add(status.succeeded.unwrap_or(0))
        >= pods
}
