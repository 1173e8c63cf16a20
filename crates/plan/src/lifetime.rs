//! How long a finished job stays and how often it is started again: the job's word, else the
//! runtime's.

use astrago_api::{
    FailurePolicy, JobSetSpec, RestartStrategy, TrainJob, TrainingRuntimeSpec, labels,
};
use kube::ResourceExt;

use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template;

/// How many seconds after its end the TrainJob is deleted; nothing means never.
pub fn effective_ttl(job: &TrainJob, runtime: &TrainingRuntimeSpec) -> Option<i32> {
    let own = job.ttl_seconds_after_finished().ok().flatten();
    own.or(runtime.template.spec.ttl_seconds_after_finished)
}

/// How often the whole job is started again after a failure. Nothing means that neither the job nor
/// the runtime says so; then a failing container is restarted in its pod as Kubernetes Jobs do, six
/// times in all.
pub fn effective_max_restarts(job: &TrainJob, runtime: &TrainingRuntimeSpec) -> Option<i32> {
    let own = job.max_restarts().ok().flatten();
    own.or(runtime.template.spec.failure_policy.as_ref()?.max_restarts)
}

/// The runtime as it must be for a Trainer that knows nothing of a job's own restarts and time: a copy
/// that says what the job says. Nothing where the job says nothing of its own.
pub fn runtime_of_one_job(
    job: &TrainJob,
    runtime: &TrainingRuntimeSpec,
) -> Option<TrainingRuntimeSpec> {
    let ttl = job.ttl_seconds_after_finished().ok().flatten();
    let restarts = job.max_restarts().ok().flatten();
    if ttl.is_none() && restarts.is_none() {
        return None;
    }
    let mut own = runtime.clone();
    let spec = &mut own.template.spec;
    if ttl.is_some() {
        spec.ttl_seconds_after_finished = ttl;
    }
    if let Some(restarts) = restarts {
        limit_restarts(spec, restarts);
    }
    Some(own)
}

/// Puts what the job says about its lifetime on the JobSet.
pub(crate) fn apply(draft: &mut Draft, job: &TrainJob) {
    if job.spec.suspend.is_some() {
        draft.stage(&Origin::train_job("spec.suspend"), |spec| {
            spec.suspend = job.spec.suspend;
        });
    }
    if let Some(retry) = job.annotations().get(labels::RETRY) {
        let (key, retry) = (labels::RETRY.to_owned(), retry.clone());
        draft.annotations.insert(key, retry);
    }
    if let Ok(Some(seconds)) = job.ttl_seconds_after_finished() {
        draft.stage(&Origin::train_job("spec.ttlSecondsAfterFinished"), |spec| {
            spec.ttl_seconds_after_finished = Some(seconds);
        });
    }
    if let Ok(Some(restarts)) = job.max_restarts() {
        draft.stage(&Origin::train_job("spec.maxRestarts"), |spec| {
            limit_restarts(spec, restarts);
        });
    }
}

/// Makes every failure of a node one restart of the whole job. Restarts of a single container in its
/// pod would come on top and not count, and a node that comes back alone meets nobody; so the
/// training jobs do without them.
fn limit_restarts(spec: &mut JobSetSpec, restarts: i32) {
    let policy = spec.failure_policy.get_or_insert_with(|| FailurePolicy {
        restart_strategy: Some(RestartStrategy::Recreate),
        ..FailurePolicy::default()
    });
    policy.max_restarts = Some(restarts);
    for position in template::trainer_positions(&spec.replicated_jobs) {
        let job = &mut spec.replicated_jobs[position];
        template::pod_spec_mut(job).restart_policy = Some("Never".into());
        job.template.spec.get_or_insert_default().backoff_limit = Some(0);
    }
}
