//! The jobs of the Training Operator v1: one replica engine for all of their kinds.
//!
//! What a kind's pods and Services look like comes from `astrago_plan::legacy`. What happens when they end is decided
//! here, one rule per file:
//!
//! | rule | file |
//! |---|---|
//! | a failed pod: replace it, or fail the job? | `restart_policy` |
//! | too many restarts, too much time | `limit_policy` |
//! | who has to succeed | `success_policy` |
//! | what goes at the end, what when the job is held | `plan` |
//!
//! Where the Training Operator is known to be wrong we are right: replaced pods count towards `backoffLimit`,
//! `activeDeadlineSeconds` has a timer, a job that failed has a completion time (so its TTL works), and limits end
//! running pods even if `cleanPodPolicy` is None.
//!
//! The status is written before anything is deleted. A replacement is counted in the status together with the uid of
//! the pod that is replaced; so it is counted once, whatever crashes in between.

mod apply;
mod conditions;
mod fetch;
mod limit_policy;
mod plan;
mod restart_policy;
mod success_policy;
mod tally;

use std::sync::Arc;

use astrago_api::legacy::{
    JAXJob, LegacyJobStatus, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob,
};
use astrago_api::{ObjectKey, labels};
use astrago_mirror::{Mirror, Mirrors};
use astrago_plan::FieldErrors;
use astrago_plan::legacy::{LegacyKind, TrainingJob};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::{Notice, reference};
use crate::{report, status};

/// A kind that this engine runs.
pub(crate) trait Kind:
    LegacyKind + astrago_mirror::Kind + Resource<Scope = NamespaceResourceScope> + Serialize
{
    /// The shared copy of its objects.
    fn mirror(mirrors: &Mirrors) -> &Mirror<Self>;
}

macro_rules! kinds {
    ($($kind:ident: $mirror:ident;)*) => {$(
        impl Kind for $kind {
            fn mirror(mirrors: &Mirrors) -> &Mirror<Self> {
                &mirrors.$mirror
            }
        }
    )*};
}

kinds! {
    PyTorchJob: pytorch_jobs;
    TFJob: tf_jobs;
    MPIJob: mpi_jobs;
    XGBoostJob: xgboost_jobs;
    PaddleJob: paddle_jobs;
    MXJob: mx_jobs;
    JAXJob: jax_jobs;
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a v1 job could not be brought to its desired state.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub(crate) enum Error {
    /// The job makes no sense, and it was started before it was changed so.
    #[error("the job is invalid and goes on as it was: {errors}")]
    #[strum(serialize = "FailedValidation")]
    Invalid { errors: FieldErrors },
    #[error("failed to create {name}")]
    #[strum(serialize = "FailedCreate")]
    Create { name: String, source: kube::Error },
    #[error("{name} exists and does not belong to this job")]
    #[strum(serialize = "FailedCreate")]
    NameTaken { name: String },
    #[error("failed to delete {name}")]
    #[strum(serialize = "FailedDelete")]
    Delete { name: String, source: kube::Error },
    #[error("failed to make the key pair")]
    MakeKey { source: rcgen::Error },
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
            Self::NameTaken { .. } | Self::MakeKey { .. } => Retry::Later,
            Self::Create { source, .. } => match retry_of(source) {
                // The namespace may be going away, and then the job goes with it.
                Retry::Soon => Retry::Later,
                retry => retry,
            },
            Self::Delete { source, .. } | Self::WriteStatus { source } => retry_of(source),
        }
    }
}

/// Runs the controller of one kind until cancelled.
pub(crate) async fn run<K: Kind>(context: Arc<Context>, workers: usize, stop: CancellationToken) {
    let operator = K::framework().operator;
    let queue = context.queue();
    let mirrors = &context.mirrors;
    queue.follow(K::mirror(mirrors), |job| Some(ObjectKey::of(job)));
    queue.follow(&mirrors.pods, |pod| job_of(pod, operator));
    queue.follow_ends(&mirrors.services, |service| job_of(service, operator));
    let ready = async {
        tokio::join!(
            K::mirror(mirrors).ready(),
            mirrors.pods.ready(),
            mirrors.services.ready()
        );
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    drive(&context, operator, &queue, workers, &stop, |key| {
        reconcile::<K>(Arc::clone(&context), key)
    })
    .await;
}

/// Brings one job a step further:
///
/// 1. `TrainingJob::of`: defaults and sense;
/// 2. [`fetch`]: its pods and Services, from the mirrors;
/// 3. [`plan`]: what to create and delete, and the status;
/// 4. [`status`]: one write, so that nothing is deleted that was not counted;
/// 5. [`apply`]: creates and deletes, then the events.
async fn reconcile<K: Kind>(context: Arc<Context>, key: ObjectKey) -> Result<Next> {
    let Some(object) = K::mirror(&context.mirrors).get(&key) else {
        return Ok(Next::AwaitChange);
    };
    let result = step(&context, &object).await;
    if let Err(error) = &result {
        let controller = K::framework().operator;
        report::failure(&context, controller, reference(&*object), error);
    }
    result
}

async fn step<K: Kind>(context: &Context, object: &Arc<K>) -> Result<Next> {
    // What belongs to a deleted job goes with it; that is the garbage collector's work.
    if !is_ours(&**object) || object.meta().deletion_timestamp.is_some() {
        return Ok(Next::AwaitChange);
    }
    let subject = reference(&**object);
    let known = object.status().cloned().unwrap_or_default();
    let now = context.clock.now();
    let job = match TrainingJob::of(&**object) {
        Ok(job) => job,
        Err(errors) if known.start_time.is_none() => {
            let framework = K::framework();
            let refused = conditions::refused(framework, &object.name_any(), &known, &errors, now);
            if let Some(refused) = refused {
                write(context, &**object, &refused).await?;
                let message = format!("{} failed validation because {errors}", framework.kind);
                let reason = framework.reason("FailedValidation");
                context
                    .events
                    .send(Notice::warning(subject, reason, message));
            }
            return Ok(Next::AwaitChange);
        }
        Err(errors) => return Err(Error::Invalid { errors }),
    };
    let observed = fetch::fetch(context, &job, object.meta().uid.as_deref());
    let plan = plan::plan(&job, &subject, &known, &observed, now);
    if let Some(status) = &plan.status {
        write(context, &**object, status).await?;
    }
    apply::apply(context, &job, &**object, &plan).await?;
    for notice in plan.notices {
        context.events.send(notice);
    }
    Ok(plan.next.into())
}

async fn write<K: Kind>(context: &Context, object: &K, status: &LegacyJobStatus) -> Result<()> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let jobs = Api::<K>::namespaced(context.client.clone(), namespace);
    let written = status::write(&jobs, object, object.status(), status)
        .await
        .map_err(|source| Error::WriteStatus { source })?;
    if let Some(written) = written {
        context.metrics.wrote(K::framework().operator);
        K::mirror(&context.mirrors).observe(written);
    }
    Ok(())
}

/// The job that an object says it belongs to, if that is one of this controller.
fn job_of<K: Resource>(object: &K, operator: &str) -> Option<ObjectKey> {
    let meta = object.meta();
    let own = meta.labels.as_ref()?;
    if own.get(labels::TRAINING_OPERATOR_NAME)? != operator {
        return None;
    }
    let name = own.get(labels::TRAINING_JOB_NAME)?.clone();
    Some(ObjectKey::new(
        meta.namespace.clone().unwrap_or_default(),
        name,
    ))
}

/// Whether another controller was put in charge of the job.
fn is_ours<K: Kind>(job: &K) -> bool {
    let manager = job.run_policy().managed_by.as_deref();
    manager.is_none_or(|manager| manager == "kubeflow.org/training-operator")
}
