//! Job → Pods: Kubernetes' own Job controller, for API servers that have none.
//!
//! Indexed Jobs (every pod has a rank) and plain ones; back-off, limits, deadline, suspension, policies and TTL as
//! in Kubernetes. It differs in one point: a pod is replaced only when nothing of it can run any more, never while
//! it is on its way out, since two live pods of one rank would both answer to the same host name.

mod apply;
mod backoff_policy;
mod build;
mod claim;
mod conditions;
mod fetch;
mod indexes;
mod plan;
mod pod_failure_policy;
mod success_policy;
mod tally;
mod validate;
mod verdict;

use std::sync::Arc;

use astrago_api::ObjectKey;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, owner_key};
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::reference;
use crate::{report, status};

const CONTROLLER: &str = "job";

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a Job could not be brought to its desired state.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub(crate) enum Error {
    #[error("{field} {problem}")]
    Invalid {
        field: &'static str,
        problem: String,
    },
    #[error("failed to create pod {name}")]
    #[strum(serialize = "FailedCreate")]
    CreatePod { name: String, source: kube::Error },
    #[error("pod {name} exists and does not belong to this job")]
    #[strum(serialize = "FailedCreate")]
    NameTaken { name: String },
    #[error("failed to change the owner of pod {name}")]
    #[strum(serialize = "FailedClaim")]
    ClaimPod { name: String, source: kube::Error },
    #[error("failed to delete pod {name}")]
    #[strum(serialize = "FailedDelete")]
    DeletePod { name: String, source: kube::Error },
    #[error("failed to delete the finished job")]
    #[strum(serialize = "FailedDelete")]
    DeleteExpired { source: kube::Error },
    #[error("failed to write the status of the job")]
    WriteStatus { source: kube::Error },
}

impl Category for Error {
    fn category(&self) -> &'static str {
        self.into()
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Invalid { .. } => Retry::Never,
            // Whatever keeps a pod from being created (quota, admission, a namespace that goes away) may pass.
            Self::NameTaken { .. } | Self::CreatePod { .. } => Retry::Later,
            Self::ClaimPod { source, .. }
            | Self::DeletePod { source, .. }
            | Self::DeleteExpired { source }
            | Self::WriteStatus { source } => retry_of(source),
        }
    }
}

pub(crate) async fn run(context: Arc<Context>, workers: usize, stop: CancellationToken) {
    let queue = context.queue();
    let mirrors = &context.mirrors;
    queue.follow(&mirrors.jobs, |job| Some(ObjectKey::of(job)));
    // A pod that has lost its labels still has its owner.
    queue.follow(&mirrors.pods, |pod| {
        ObjectKey::of_batch_job(pod).or_else(|| owner_key(pod, "Job"))
    });
    let ready = async { tokio::join!(mirrors.jobs.ready(), mirrors.pods.ready()) };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    drive(&context, CONTROLLER, &queue, workers, &stop, |key| {
        reconcile(Arc::clone(&context), key)
    })
    .await;
}

/// Brings one Job a step further:
///
/// 1. [`claim`]: pods that have become its own, or no longer are;
/// 2. [`fetch`]: its pods, from the mirror;
/// 3. [`validate`]: defaults and sense;
/// 4. [`plan`]: what to create and delete, and the status afterwards;
/// 5. [`apply::create`]: new pods;
/// 6. [`status`]: one write;
/// 7. [`apply::delete`]: what is on record as done with or held, then the events.
async fn reconcile(context: Arc<Context>, key: ObjectKey) -> Result<Next> {
    let Some(job) = context.mirrors.jobs.get(&key) else {
        return Ok(Next::AwaitChange);
    };
    let result = step(&context, &job).await;
    if let Err(error) = &result {
        report::failure(&context, CONTROLLER, reference(&*job), error);
    }
    result
}

async fn step(context: &Context, job: &Arc<Job>) -> Result<Next> {
    if !is_ours(job) {
        return Ok(Next::AwaitChange);
    }
    if !validate::is_finished(job) {
        claim::claim(context, job).await?;
    }
    let observed = fetch::fetch(context, job);
    let now = context.clock.now();
    let mut plan = match validate::validate(Arc::clone(job)) {
        Ok(valid) => plan::plan(&valid, &observed, now),
        Err(error) if validate::is_finished(job) => return Err(error),
        Err(error) => plan::refuse(job, &error.to_string(), now),
    };
    let created = apply::create(context, job, &plan).await;
    if let Some(mut status) = plan.status.take() {
        let missing = i32::try_from(created.missing).unwrap_or(i32::MAX);
        status.active = status
            .active
            .map(|active| active - missing)
            .filter(|active| *active > 0);
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let jobs = Api::<Job>::namespaced(context.client.clone(), namespace);
        let written = status::write(&jobs, &**job, job.status.as_ref(), &status)
            .await
            .map_err(|source| Error::WriteStatus { source })?;
        if let Some(written) = written {
            context.metrics.wrote(CONTROLLER);
            context.mirrors.jobs.observe(written);
        }
    }
    let deleted = apply::delete(context, job, &plan).await;
    created.error.map_or(deleted, Err)?;
    for notice in plan.notices {
        context.events.send(notice);
    }
    Ok(plan.next.into())
}

/// Whether another controller was put in charge of the Job.
fn is_ours(job: &Job) -> bool {
    let manager = job
        .spec
        .as_ref()
        .and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == "kubernetes.io/job-controller")
}
