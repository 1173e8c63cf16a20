//! Reading and changing jobs.

use astrago_api::{TrainJob, TrainingRuntime, conditions, labels};
use astrago_mirror::Mirrors;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Error, Result, stalls, upkeep};
use crate::cause::{self, Ending};
use crate::context::Context;
use crate::history::Record;
use crate::identity::{Access, Caller};
use crate::legacy;
use crate::legacy::Kind;
use crate::logbook::{Attempt, recorder};
use crate::model::{
    Deleted, FailedBy, Failure, FailureKind, JobDetail, JobEvent, JobState, JobStatus, JobSummary,
    Progress, Source, Usage, Waiting,
};
use crate::names;
use crate::view::Job;
use crate::world::Key;

/// A job that the caller may see.
pub(crate) async fn find(context: &Context, caller: &Caller, key: &Key) -> Result<Job> {
    context
        .gate
        .demand(caller, &Access::jobs("get", &key.namespace))
        .await?;
    let mut job = Job::find(&context.world.mirrors, key);
    if job.is_none()
        && let Some(unseen) = unseen(context, key).await
    {
        context.world.mirrors.train_jobs.observe(unseen);
        job = Job::find(&context.world.mirrors, key);
    }
    let job = job.ok_or_else(|| Error::no_job(&key.namespace, &key.name))?;
    if let Some(legacy) = &job.legacy {
        let access = legacy.kind.access("get", &key.namespace);
        context.gate.demand(caller, &access).await?;
    }
    Ok(job)
}

/// The TrainJob that the watches have not told of yet: another replica, or kubectl, has just made it.
async fn unseen(context: &Context, key: &Key) -> Option<TrainJob> {
    // While the API server is away, records of jobs that are gone are not to wait for it.
    if !context.is_connected() {
        return None;
    }
    let jobs: Api<TrainJob> = Api::namespaced(context.client.clone(), &key.namespace);
    jobs.get_opt(&key.name).await.ok().flatten()
}

/// The record of a job that is gone, if the caller may see it.
///
/// A namespace can change hands, so a record belongs to the user whose job it was.
pub(crate) async fn find_record(context: &Context, caller: &Caller, key: &Key) -> Result<Record> {
    context
        .gate
        .demand(caller, &Access::jobs("get", &key.namespace))
        .await?;
    let record = context
        .history
        .find(&key.namespace, &key.name)
        .map_err(Error::disk)?;
    record
        .filter(|record| may_see(caller, &record.detail.summary))
        .ok_or_else(|| Error::no_job(&key.namespace, &key.name))
}

pub(crate) fn may_see(caller: &Caller, summary: &JobSummary) -> bool {
    caller.is_admin() || summary.user.is_some() && summary.user == caller.label().ok()
}

/// A job in full: as it is, or as it was.
pub(crate) async fn show(context: &Context, caller: &Caller, key: &Key) -> Result<JobDetail> {
    match find(context, caller, key).await {
        Ok(job) => Ok(detail(context, &job)),
        Err(Error::NotFound { .. }) => {
            let mut record = find_record(context, caller, key).await?;
            let summary = &mut record.detail.summary;
            summary.archived = true;
            if !summary.state.is_finished() {
                summary.message = format!("deleted while {}", summary.state.as_str());
            }
            Ok(record.detail)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn summary(context: &Context, job: &Job) -> JobSummary {
    let uid = job.job.uid().unwrap_or_default();
    let mut summary = job.summary(context.logbook.progress(&uid), context.now());
    if summary.state == JobState::Running
        && let Some(stall) = context.stalls.of(&uid)
    {
        summary.message = stalls::sentence(&stall);
        summary.cause = stalls::cause(&stall);
        summary.stalled = Some(stall);
    }
    if summary.state == JobState::Complete {
        let (step, counts) = summary
            .progress
            .map(|progress| (progress.step, progress.counts))
            .unwrap_or_default();
        summary.progress = Some(Progress {
            percent: 100.0,
            remaining_seconds: None,
            step,
            counts,
        });
    }
    summary
}

pub(crate) fn detail(context: &Context, job: &Job) -> JobDetail {
    let detail = lasting(context, job);
    let waits = detail.summary.state == JobState::Pending;
    JobDetail {
        waiting: waits.then(|| waiting(context, job)),
        repeated_as: repeated_as(context, job),
        ..detail
    }
}

/// The jobs that were made from this one, as far as they are still there.
fn repeated_as(context: &Context, job: &Job) -> Vec<String> {
    let key = Key::of(&*job.job);
    let this = key.to_string();
    let mut found: Vec<(Timestamp, String)> = context
        .world
        .mirrors
        .train_jobs
        .in_namespace(&key.namespace)
        .iter()
        .filter(|other| other.annotations().get(names::ORIGIN) == Some(&this))
        .map(|other| {
            let created = other.creation_timestamp().map(|time| time.0);
            (created.unwrap_or_default(), Key::of(&**other).to_string())
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// What is worth keeping of a job: all but its place in the queue, which costs a look at all other jobs.
pub(crate) fn lasting(context: &Context, job: &Job) -> JobDetail {
    let facts = context.ledger.note(&context.history, job, context.now());
    let mut summary = summary(context, job);
    let failed = summary.state == JobState::Failed;
    let failure = failed.then(|| failure(context, job)).flatten();
    summary.failed_by = failure.as_ref().map(FailedBy::from);
    summary.headline = context.logbook.headline(&summary.uid);
    let trainer = job.job.spec.trainer.as_ref();
    let curves = context.logbook.latest_values(&summary.uid);
    JobDetail {
        image: trainer.and_then(|trainer| trainer.image.clone()),
        command: trainer
            .map(|trainer| trainer.command.clone())
            .unwrap_or_default(),
        max_restarts: max_restarts(job),
        snapshot: job.job.annotations().get(names::SNAPSHOT).cloned(),
        source: source(job),
        note: job.job.annotations().get(names::NOTE).cloned(),
        origin: job.job.annotations().get(names::ORIGIN).cloned(),
        repeated_as: Vec::new(),
        nodes: facts.nodes(job),
        timeline: facts.timeline(job, context.now()),
        waiting: None,
        failure,
        previous_failure: (summary.restarts > 0)
            .then(|| failure_by_logs(context, job, has_begun(context, job)))
            .flatten(),
        usage: usage(context, job),
        metrics: curves.metrics,
        metrics_left_out: curves.left_out,
        summary,
    }
}

fn source(job: &Job) -> Option<Source> {
    let said = |key: &str| job.job.annotations().get(key).cloned();
    Some(Source {
        repository: said(names::SOURCE_REPOSITORY)?,
        commit: said(names::SOURCE_COMMIT)?,
    })
}

fn max_restarts(job: &Job) -> Option<i64> {
    let asked = job.job.max_restarts().ok().flatten();
    let policy = || job.job_set.as_ref()?.spec.failure_policy.as_ref();
    asked.or_else(|| policy()?.max_restarts).map(i64::from)
}

/// What a job has cost: what its pods of now hold, and what those that are gone have held.
pub(crate) fn usage(context: &Context, job: &Job) -> Usage {
    let uid = job.job.uid().unwrap_or_default();
    let now = job.usage_of_pods(context.now());
    let gone = context.history.costs_of_others(&uid, &now);
    let gone = gone.unwrap_or_else(|error| {
        tracing::warn!(uid, error = %crate::error::chain(&error), "failed to read what a job has cost");
        Usage::default()
    });
    now.iter().fold(gone, |sum, (_, usage)| sum.plus(usage))
}

fn waiting(context: &Context, job: &Job) -> Waiting {
    let key = Key::of(&*job.job);
    let order = context
        .world
        .line
        .order(&context.world.mirrors, context.now());
    let position = order.position(&key);
    Waiting {
        position: position.and_then(|place| i64::try_from(place).ok()),
        reason: job.message(),
        cause: job.cause(),
    }
}

/// How many of the last lines are looked at for the cause of a failure.
/// Enough for the tracebacks of all processes of a node, and what their launcher says after them.
const TAIL: usize = 1000;

pub(super) fn failure(context: &Context, job: &Job) -> Option<Failure> {
    let uid = job.job.uid().unwrap_or_default();
    let mut endings = job.endings();
    for ending in &mut endings {
        let attempt = context
            .logbook
            .latest(&uid, Some(ending.worker), false)
            .pop();
        let tail = attempt.and_then(|attempt| context.logbook.tail(&uid, &attempt, TAIL).ok());
        ending.tail = tail
            .unwrap_or_default()
            .into_iter()
            .map(|line| line.text)
            .collect();
    }
    let condition = conditions::find(job.job.conditions(), conditions::train_job::FAILED);
    let condition =
        condition.map(|condition| (condition.reason.as_str(), condition.message.as_str()));
    let found = cause::explain(&endings, job.num_workers(), condition);
    let reason = condition.map(|(reason, _)| reason);
    if reason != Some(conditions::job_set::REASON_PERMANENT_FAILURE) {
        return found;
    }
    // The attempt that it is about may have been followed by another before it was looked at.
    let earlier = [false, true].map(|previous| failure_by_logs(context, job, previous));
    let mut all = [found.clone()].into_iter().chain(earlier).flatten();
    all.find(|failure| failure.permanent).or(found)
}

/// Whether anything of the current attempt is in the logs. Until then, the last that they have is the one before.
fn has_begun(context: &Context, job: &Job) -> bool {
    let uid = job.job.uid().unwrap_or_default();
    let known = context.logbook.attempts(&uid);
    let current = job.job_set.as_ref().map_or(0, |set| set.restarts());
    recorder::started(job).iter().any(|(attempt, pod)| {
        let of = pod.labels().get(labels::RESTART_ATTEMPT);
        of.is_none_or(|of| *of == current.to_string()) && known.contains(attempt)
    })
}

/// Why the last attempt failed, or the one before it. Its pods may be gone, so that only what they printed is left.
fn failure_by_logs(context: &Context, job: &Job, previous: bool) -> Option<Failure> {
    let uid = job.job.uid().unwrap_or_default();
    let attempts = context.logbook.latest(&uid, None, previous);
    let ending = |attempt: Attempt| {
        let tail = context.logbook.tail(&uid, &attempt, TAIL).ok()?;
        Some(Ending {
            worker: attempt.worker,
            reason: Some("Error".to_owned()),
            finished_at: tail.last().and_then(|line| line.time),
            tail: tail.into_iter().map(|line| line.text).collect(),
            ..Ending::default()
        })
    };
    let endings: Vec<Ending> = attempts.into_iter().filter_map(ending).collect();
    let explained = cause::explain(&endings, job.num_workers(), None);
    // Without an exit code there is nothing to say but what the lines say.
    explained.filter(|failure| failure.kind != FailureKind::NonZeroExit)
}

/// What happened to a job, the oldest first.
pub(crate) async fn events(context: &Context, caller: &Caller, key: &Key) -> Result<Vec<JobEvent>> {
    match find(context, caller, key).await {
        Ok(job) => Ok(super::events::so_far(context, key, &job.job)),
        Err(Error::NotFound { .. }) => Ok(find_record(context, caller, key).await?.events),
        Err(error) => Err(error),
    }
}

/// A job's manifest as YAML, ready for kubectl.
pub(crate) async fn manifest(context: &Context, caller: &Caller, key: &Key) -> Result<String> {
    let object = match find(context, caller, key).await {
        Ok(job) => stored(&context.world.mirrors, key, &job),
        Err(Error::NotFound { .. }) => find_record(context, caller, key).await?.manifest,
        Err(error) => return Err(error),
    };
    yaml(object)
}

/// An object as people write it: without what the server keeps in it.
pub(crate) fn yaml(mut object: Value) -> Result<String> {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.as_object_mut())
    {
        metadata.retain(|key, _| {
            matches!(
                key.as_str(),
                "name" | "namespace" | "labels" | "annotations"
            )
        });
    }
    serde_saphyr::to_string(&object).map_err(|error| Error::Internal {
        operation: "write the manifest",
        source: Box::new(error),
    })
}

/// The object that people made.
pub(crate) fn stored(mirrors: &Mirrors, key: &Key, job: &Job) -> Value {
    match &job.legacy {
        Some(_) => legacy::manifest(mirrors, key).unwrap_or_default(),
        None => serde_json::to_value(&*job.job).unwrap_or_default(),
    }
}

pub(crate) async fn status(context: &Context, caller: &Caller, key: &Key) -> Result<JobStatus> {
    Ok(find(context, caller, key).await?.status())
}

/// Deletes a job; its pods and its code go with it, the framework's ConfigMap stays.
pub(crate) async fn delete(context: &Context, caller: &Caller, key: &Key) -> Result<Deleted> {
    let client = context.gate.client(caller);
    let parameters = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    // A job that is deleted right after it was made may have no record yet.
    if find(context, caller, key).await.is_ok() {
        super::record::write(context, key).await;
    }
    let kind = legacy_kind(context, key);
    let deleted = if let Some(kind) = kind {
        let jobs = kind.api(client.clone(), &key.namespace);
        jobs.delete(&key.name, &parameters).await.map(|_| ())
    } else {
        let jobs: Api<TrainJob> = Api::namespaced(client.clone(), &key.namespace);
        jobs.delete(&key.name, &parameters).await.map(|_| ())
    };
    match deleted {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(Error::no_job(&key.namespace, &key.name));
        }
        Err(error) => return Err(Error::cluster("delete the job", error)),
    }
    if kind.is_some() {
        return Ok(deleted_answer(key));
    }
    // What a crash left without an owner is not in the garbage collector's books.
    let left = async {
        upkeep::remove_left::<ConfigMap>(context, key).await?;
        upkeep::remove_left::<PersistentVolumeClaim>(context, key).await?;
        upkeep::remove_left::<TrainingRuntime>(context, key).await
    };
    left.await
        .map_err(|error| Error::cluster("delete what belongs to the job", error))?;
    Ok(deleted_answer(key))
}

fn deleted_answer(key: &Key) -> Deleted {
    Deleted {
        status: "success".to_owned(),
        trainjob_name: key.name.clone(),
        namespace: key.namespace.clone(),
    }
}

/// The kind of a job of the Training Operator v1; nothing for a TrainJob, and for what we do not know of.
fn legacy_kind(context: &Context, key: &Key) -> Option<&'static Kind> {
    let mirrors = &context.world.mirrors;
    if mirrors.train_jobs.get(key).is_some() {
        return None;
    }
    legacy::kind_of(mirrors, key)
}

/// Holds a job or lets it go on.
pub(crate) async fn suspend(
    context: &Context,
    caller: &Caller,
    key: &Key,
    hold: bool,
) -> Result<JobStatus> {
    let job = find(context, caller, key).await?;
    if job.state().is_finished() {
        let done = job.state().as_str();
        return Err(Error::Conflict(format!(
            "job {:?} is over ({done}) and cannot be changed",
            key.name
        )));
    }
    let client = context.gate.client(caller);
    let wrong = |error| match error {
        kube::Error::Api(status) if status.code == 404 => Error::no_job(&key.namespace, &key.name),
        other => Error::cluster("change the job", other),
    };
    if let Some(legacy) = &job.legacy {
        let jobs = legacy.kind.api(client, &key.namespace);
        let patch = Patch::Merge(json!({ "spec": { "runPolicy": { "suspend": hold } } }));
        jobs.patch(&key.name, &PatchParams::default(), &patch)
            .await
            .map_err(wrong)?;
        let mut changed = (*job.job).clone();
        changed.spec.suspend = Some(hold);
        return Ok(Job {
            job: changed.into(),
            ..job
        }
        .status());
    }
    let jobs: Api<TrainJob> = Api::namespaced(client, &key.namespace);
    let patch = Patch::Merge(json!({ "spec": { "suspend": hold } }));
    let changed = jobs
        .patch(&key.name, &PatchParams::default(), &patch)
        .await
        .map_err(wrong)?;
    Ok(Job {
        job: changed.into(),
        ..job
    }
    .status())
}
