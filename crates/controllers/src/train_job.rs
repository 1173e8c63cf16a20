//! TrainJob → JobSet: Kubeflow Trainer's controller, for API servers that have none.
//!
//! Where upstream is known to be wrong this one is right: a finished job never runs again, its TTL removes the job
//! itself, and what keeps its objects from being made is in the job: for good as `Failed`, for now as the annotation
//! [`labels::CREATION_ERROR`]. Clients that know upstream see no condition that they do not expect.

mod apply;
mod fetch;
mod plan;
mod snapshot;
pub(crate) mod ssh_key;
mod status;
mod turn;

use std::sync::Arc;

use astrago_api::conditions::train_job as condition;
use astrago_api::{ObjectKey, TrainJob, TrainJobStatus, labels};
use astrago_mirror::runtime_entry;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, FIELD_MANAGER};
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::reference;
use crate::report;

use self::turn::Turns;

const CONTROLLER: &str = "trainjob";

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a TrainJob could not be brought to its desired state.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub(crate) enum Error {
    #[error("unsupported runtime: {kind}.{group}")]
    #[strum(serialize = "TrainingRuntimeNotSupported")]
    UnsupportedRuntime { kind: String, group: String },
    #[error("{kind} {name} does not exist; the job starts when it is created")]
    #[strum(serialize = "TrainingRuntimeNotFound")]
    NoRuntime { kind: String, name: String },
    #[error("failed to read the runtime {name}")]
    #[strum(serialize = "TrainJobResourcesCreationFailed")]
    ReadRuntime { name: String, source: kube::Error },
    #[error("invalid runtime snapshot: {problem}")]
    #[strum(serialize = "TrainJobResourcesCreationFailed")]
    BadSnapshot { problem: String },
    #[error("jobset {name} exists and does not belong to this TrainJob")]
    #[strum(serialize = "TrainJobResourcesCreationFailed")]
    NameTaken { name: String },
    #[error("failed to apply {name}")]
    #[strum(serialize = "TrainJobResourcesCreationFailed")]
    Apply { name: String, source: kube::Error },
    #[error("failed to make a key pair")]
    #[strum(serialize = "TrainJobResourcesCreationFailed")]
    MakeKey { source: rcgen::Error },
    #[error("failed to delete {name}")]
    #[strum(serialize = "DeletionFailed")]
    Delete { name: String, source: kube::Error },
    #[error("failed to write the status of the TrainJob")]
    WriteStatus { source: kube::Error },
}

impl Category for Error {
    fn category(&self) -> &'static str {
        self.into()
    }

    fn retry(&self) -> Retry {
        match self {
            Self::UnsupportedRuntime { .. } => Retry::Never,
            Self::NoRuntime { .. }
            | Self::NameTaken { .. }
            | Self::BadSnapshot { .. }
            | Self::MakeKey { .. } => Retry::Later,
            Self::Apply { source, .. } => match retry_of(source) {
                Retry::Soon => Retry::Later,
                retry => retry,
            },
            Self::ReadRuntime { source, .. }
            | Self::Delete { source, .. }
            | Self::WriteStatus { source } => retry_of(source),
        }
    }
}

impl Error {
    /// Whether it says that the job's objects could not be made.
    fn is_about_creation(&self) -> bool {
        !matches!(self, Self::Delete { .. } | Self::WriteStatus { .. })
    }
}

pub(crate) async fn run(context: Arc<Context>, options: crate::Options, stop: CancellationToken) {
    let queue = context.queue();
    let mirrors = &context.mirrors;
    let jobs = Arc::clone(&queue);
    mirrors.train_jobs.subscribe(move |change| {
        if let Some(job) = change.latest() {
            jobs.add(ObjectKey::of(&**job));
        }
    });
    // A JobSet has the name of its TrainJob; one that belongs to somebody else may be in the way of one.
    let sets = Arc::clone(&queue);
    mirrors.job_sets.subscribe(move |change| {
        if let Some(set) = change.latest() {
            sets.add(ObjectKey::of(&**set));
        }
    });
    wake_by_runtimes(&context, &queue);
    let ready = async { tokio::join!(mirrors.train_jobs.ready(), mirrors.job_sets.ready()) };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    // Only our own scheduler starts jobs in the order that this relies on.
    let turns = options.scheduler.then(Arc::<Turns>::default);
    if let Some(turns) = &turns {
        if stop
            .run_until_cancelled(mirrors.pods.ready())
            .await
            .is_none()
        {
            return;
        }
        turn::recall(turns, mirrors);
        turn::follow(turns, mirrors, &queue);
    }
    for job in mirrors.train_jobs.all() {
        queue.add(ObjectKey::of(&*job));
    }
    let workers = options.workers;
    let maker = Arc::new(Maker {
        context: Arc::clone(&context),
        options: options.plan,
        queue: Arc::clone(&queue),
        turns,
    });
    drive(&context, CONTROLLER, &queue, workers, &stop, |key| {
        reconcile(Arc::clone(&maker), key)
    })
    .await;
}

struct Maker {
    context: Arc<Context>,
    options: astrago_plan::Options,
    queue: Arc<crate::queue::Queue>,
    turns: Option<Arc<Turns>>,
}

impl Maker {
    /// Whether the objects of a job that has none yet are to be made now.
    fn may_make(&self, job: &TrainJob, objects: &astrago_plan::Plan) -> bool {
        let Some(turns) = self.turns.as_ref() else {
            return true;
        };
        let asked = turn::asked(job, &objects.job_set);
        let rank = turn::rank(job, &self.context.mirrors);
        let key = ObjectKey::of(job);
        let may = turns.ask(&key, asked, rank);
        // It may have left while this reconcile was under way, and nobody would tell of that again.
        let newest = self.context.mirrors.train_jobs.get(&key);
        let stays = newest.is_some_and(|newest| {
            newest.metadata.uid == job.metadata.uid
                && newest.is_suspended() == job.is_suspended()
                && turn::waits(&newest)
        });
        if !stays {
            self.leave(&key);
        }
        may && stays
    }

    /// Takes the job out of its line, and looks at those whose turn it is then.
    fn leave(&self, key: &ObjectKey) {
        let next = self.turns.iter().flat_map(|turns| turns.leave(key));
        next.for_each(|next| self.queue.add(next));
    }
}

/// Looks at the jobs again that wait for a runtime, when it is created.
fn wake_by_runtimes(context: &Arc<Context>, queue: &Arc<crate::queue::Queue>) {
    let wake = |kind: &'static str| {
        let (jobs, queue) = (context.mirrors.train_jobs.clone(), Arc::clone(queue));
        move |is_new: bool, namespace: Option<&String>, name: Option<&String>| {
            let Some(name) = name.filter(|_| is_new) else {
                return;
            };
            for job in jobs.find(&runtime_entry(
                kind,
                namespace.map_or("", |namespace| namespace),
                name,
            )) {
                queue.add(ObjectKey::of(&*job));
            }
        }
    };
    let cluster = wake("ClusterTrainingRuntime");
    context.mirrors.cluster_runtimes.subscribe(move |change| {
        let name = change
            .latest()
            .and_then(|runtime| runtime.metadata.name.as_ref());
        cluster(change.old.is_none(), None, name);
    });
    let namespaced = wake("TrainingRuntime");
    context.mirrors.runtimes.subscribe(move |change| {
        let Some(runtime) = change.latest() else {
            return;
        };
        let meta = runtime.meta();
        namespaced(
            change.old.is_none(),
            meta.namespace.as_ref(),
            meta.name.as_ref(),
        );
    });
}

/// Brings one TrainJob a step further:
///
/// 1. [`fetch`]: its JobSet from the mirror, and its runtime if needed;
/// 2. validation is part of planning, where all errors come out at once;
/// 3. [`plan`]: the objects, and the status afterwards;
/// 4. [`apply`]: server-side apply, when it is its [`turn`];
/// 5. [`status`]: one write, then the events.
async fn reconcile(maker: Arc<Maker>, key: ObjectKey) -> Result<Next> {
    let context = &maker.context;
    let Some(job) = context.mirrors.train_jobs.get(&key) else {
        return Ok(Next::AwaitChange);
    };
    if !job.is_managed_by_us() {
        return Ok(Next::AwaitChange);
    }
    let result = step(&maker, &job).await;
    if let Err(error) = &result {
        // Nobody waits behind one that cannot be made.
        maker.leave(&key);
        report::failure(context, CONTROLLER, reference(&*job), error);
        record(context, &job, error).await?;
    }
    result
}

async fn step(maker: &Maker, job: &TrainJob) -> Result<Next> {
    let context = &maker.context;
    let observed = fetch::fetch(context, job).await?;
    let mut plan = plan::plan(job, &observed, &maker.options, context.clock.now());
    if observed.job_set.is_none() {
        plan.objects = plan.objects.filter(|objects| maker.may_make(job, objects));
    }
    apply::apply(context, job, &plan).await?;
    let job = forget_error(context, job, &plan).await?;
    if let Some(status) = &plan.status {
        write_status(context, &job, status).await?;
    }
    for notice in plan.notices {
        context.events.send(notice);
    }
    Ok(plan.next.into())
}

async fn write_status(context: &Context, job: &TrainJob, status: &TrainJobStatus) -> Result<()> {
    let jobs =
        Api::<TrainJob>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let written = crate::status::write(&jobs, job, job.status.as_ref(), status).await;
    if let Some(written) = written.map_err(|source| Error::WriteStatus { source })? {
        context.metrics.wrote(CONTROLLER);
        context.mirrors.train_jobs.observe(written);
    }
    Ok(())
}

/// Puts what went wrong where its owner looks: what cannot be mended in the status, for the rest an annotation.
async fn record(context: &Context, job: &TrainJob, error: &Error) -> Result<()> {
    if !error.is_about_creation() || error.retry() == Retry::Soon || job.is_finished() {
        return Ok(());
    }
    let text = report::chain(error);
    let job_set = context.mirrors.job_sets.get(&ObjectKey::of(job));
    if error.retry() == Retry::Never && job_set.is_none() {
        let reason = match error {
            Error::UnsupportedRuntime { .. } => condition::REASON_RUNTIME_NOT_SUPPORTED,
            _ => condition::REASON_RESOURCES_CREATION_FAILED,
        };
        let fatal = status::Fatal {
            reason,
            message: text,
        };
        let status = status::status(job, None, Some(&fatal), context.clock.now());
        return write_status(context, job, &status).await;
    }
    annotate(context, job, Some(&text)).await.map(|_| ())
}

async fn forget_error(context: &Context, job: &TrainJob, plan: &plan::Plan) -> Result<TrainJob> {
    if plan.objects.is_none() || plan.expired {
        return Ok(job.clone());
    }
    annotate(context, job, None).await
}

/// Sets or removes the annotation, if it is not as it should be, and returns the job as it then is.
async fn annotate(context: &Context, job: &TrainJob, text: Option<&str>) -> Result<TrainJob> {
    if job
        .annotations()
        .get(labels::CREATION_ERROR)
        .map(String::as_str)
        == text
    {
        return Ok(job.clone());
    }
    let jobs =
        Api::<TrainJob>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let patch = json!({ "metadata": { "uid": job.uid(), "annotations": { labels::CREATION_ERROR: text } } });
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let written = jobs
        .patch(&job.name_any(), &parameters, &Patch::Merge(patch))
        .await;
    let written = written.map_err(|source| Error::WriteStatus { source })?;
    context.metrics.wrote(CONTROLLER);
    Ok((*context.mirrors.train_jobs.observe(written)).clone())
}
