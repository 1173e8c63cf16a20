//! JobSet → Jobs and a headless Service: the JobSet controller, for API servers that have none.
//!
//! A restart replaces all Jobs together. How often that happened is in the status; a Job whose label names an
//! earlier attempt is a leftover and goes. See `plan` for why that makes crashes harmless.

mod apply;
mod children;
mod counts;
mod failure_policy;
mod fetch;
mod plan;
mod startup_policy;
mod success_policy;
mod validate;

use std::sync::Arc;

use astrago_api::{JobSet, JobSetStatus, ObjectKey};
use astrago_plan::FieldErrors;
use kube::Api;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, owner_key};
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::reference;
use crate::{report, status};

const CONTROLLER: &str = "jobset";

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a JobSet could not be brought to its desired state.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub(crate) enum Error {
    /// The set makes no sense, and while it is held its owner can mend that.
    #[error("the jobset is invalid: {errors}")]
    Invalid { errors: FieldErrors },
    #[error("failed to create job {name}")]
    #[strum(serialize = "JobCreationFailed")]
    CreateJob { name: String, source: kube::Error },
    #[error("failed to create service {name}")]
    #[strum(serialize = "HeadlessServiceCreationFailed")]
    CreateService { name: String, source: kube::Error },
    #[error("failed to create claim {name}")]
    #[strum(serialize = "PVCCreationFailed")]
    CreateClaim { name: String, source: kube::Error },
    #[error("job {name} exists and does not belong to this jobset")]
    #[strum(serialize = "JobCreationFailed")]
    NameTaken { name: String },
    #[error("failed to suspend or resume job {name}")]
    #[strum(serialize = "SuspendFailed")]
    SuspendJob { name: String, source: kube::Error },
    #[error("failed to delete {name}")]
    #[strum(serialize = "DeletionFailed")]
    Delete { name: String, source: kube::Error },
    #[error("failed to write the status of the jobset")]
    WriteStatus { source: kube::Error },
}

impl Category for Error {
    fn category(&self) -> &'static str {
        self.into()
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Invalid { .. } => Retry::Never,
            Self::NameTaken { .. }
            | Self::CreateJob { .. }
            | Self::CreateService { .. }
            | Self::CreateClaim { .. } => Retry::Later,
            Self::SuspendJob { source, .. }
            | Self::Delete { source, .. }
            | Self::WriteStatus { source } => retry_of(source),
        }
    }
}

pub(crate) async fn run(context: Arc<Context>, workers: usize, stop: CancellationToken) {
    let queue = context.queue();
    let mirrors = &context.mirrors;
    queue.follow(&mirrors.job_sets, |set| Some(ObjectKey::of(set)));
    queue.follow(&mirrors.jobs, |job| owner_key(job, "JobSet"));
    queue.follow_ends(&mirrors.services, |service| owner_key(service, "JobSet"));
    let ready = async {
        tokio::join!(
            mirrors.job_sets.ready(),
            mirrors.jobs.ready(),
            mirrors.services.ready()
        );
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    drive(&context, CONTROLLER, &queue, workers, &stop, |key| {
        reconcile(Arc::clone(&context), key)
    })
    .await;
}

/// Brings one JobSet a step further:
///
/// 1. [`fetch`]: its Jobs and Service, from the mirrors;
/// 2. [`validate`]: defaults and sense;
/// 3. [`plan`]: what to create, delete, hold or let go, and the status afterwards;
/// 4. [`apply`]: does that;
/// 5. [`status`]: one write, then the events.
async fn reconcile(context: Arc<Context>, key: ObjectKey) -> Result<Next> {
    let Some(job_set) = context.mirrors.job_sets.get(&key) else {
        return Ok(Next::AwaitChange);
    };
    let result = step(&context, &job_set).await;
    if let Err(error) = &result {
        report::failure(&context, CONTROLLER, reference(&*job_set), error);
    }
    result
}

async fn step(context: &Context, job_set: &JobSet) -> Result<Next> {
    if !is_ours(job_set) {
        return Ok(Next::AwaitChange);
    }
    let observed = fetch::fetch(context, job_set);
    let now = context.clock.now();
    let mut plan = match validate::validate(job_set, &observed) {
        Ok(valid) => plan::plan(&valid, &observed, now),
        Err(errors) if job_set.is_suspended() => return Err(Error::Invalid { errors }),
        Err(errors) => plan::refuse(job_set, &errors.to_string(), now),
    };
    // That the Jobs are held or let go is on record before they are.
    if plan.patch.is_empty() {
        match apply::apply(context, job_set, &plan).await {
            // What the API server takes for invalid it will not take later either.
            Err(error) if !job_set.is_suspended() && refused(&error).is_some_and(is_invalid) => {
                let problem = report::chain(&error);
                plan = plan::refuse(job_set, &problem, now);
            }
            applied => applied?,
        }
        write(context, job_set, plan.status.as_ref()).await?;
    } else {
        write(context, job_set, plan.status.as_ref()).await?;
        apply::apply(context, job_set, &plan).await?;
    }
    for notice in plan.notices {
        context.events.send(notice);
    }
    Ok(plan.next.into())
}

async fn write(context: &Context, job_set: &JobSet, status: Option<&JobSetStatus>) -> Result<()> {
    let Some(status) = status else { return Ok(()) };
    let namespace = job_set.metadata.namespace.as_deref().unwrap_or_default();
    let sets = Api::<JobSet>::namespaced(context.client.clone(), namespace);
    let written = status::write(&sets, job_set, job_set.status.as_ref(), status).await;
    if let Some(written) = written.map_err(|source| Error::WriteStatus { source })? {
        context.metrics.wrote(CONTROLLER);
        context.mirrors.job_sets.observe(written);
    }
    Ok(())
}

/// What the API server said when something could not be created.
fn refused(error: &Error) -> Option<&kube::Error> {
    match error {
        Error::CreateJob { source, .. }
        | Error::CreateService { source, .. }
        | Error::CreateClaim { source, .. } => Some(source),
        _ => None,
    }
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// Whether another controller was put in charge of the set.
fn is_ours(job_set: &JobSet) -> bool {
    let manager = job_set.spec.managed_by.as_deref();
    manager.is_none_or(|manager| manager == "jobset.sigs.k8s.io/jobset-controller")
}
