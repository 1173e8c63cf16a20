//! Logs: from the pods while they exist, from the logbook always.

pub(crate) mod page;
pub(crate) mod stream;

use std::sync::Arc;

use futures::Stream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};

use super::{Error, Result, jobs};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::logbook::{self, Query};
use crate::model::{LogLine, LogLines, SearchResult, WorkerLogs};
use crate::view::{Job, TRAINING_CONTAINERS};
use crate::world::Key;

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) tail: Option<i64>,
    pub(crate) since_seconds: Option<i64>,
    /// The attempt before the current one.
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
}

/// A list has at most this many lines; a download has no such limit.
const MOST_LINES: usize = 100_000;

/// One worker's log as text.
pub(crate) async fn worker(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: i64,
    selection: &Selection,
) -> Result<WorkerLogs> {
    let job = match jobs::find(context, caller, key).await {
        Ok(job) => job,
        Err(Error::NotFound { .. }) => {
            return archived(context, caller, key, worker, selection).await;
        }
        Err(error) => return Err(error),
    };
    let logs = match pod_of(&job, key, worker)? {
        Some(pod) => text(context, caller, pod, selection).await?,
        None => String::new(),
    };
    Ok(WorkerLogs {
        trainjob_name: key.name.clone(),
        worker,
        logs,
    })
}

/// The log of a job that is gone.
async fn archived(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: i64,
    selection: &Selection,
) -> Result<WorkerLogs> {
    let record = jobs::find_record(context, caller, key).await?;
    let summary = record.detail.summary;
    // A launcher is a worker, too, though not always a node.
    let ranks = record.detail.nodes.iter().map(|node| node.worker + 1);
    let workers = ranks.max().unwrap_or(0).max(summary.num_nodes);
    if worker >= workers {
        return Err(no_worker(key, worker, workers));
    }
    let lines = lines(context, &summary.uid, Some(worker), selection)?;
    let text = |line: LogLine| match line.time.filter(|_| selection.timestamps) {
        Some(time) => format!("{time} {}\n", line.text),
        None => line.text + "\n",
    };
    let logs = lines.into_iter().map(text).collect();
    Ok(WorkerLogs {
        trainjob_name: key.name.clone(),
        worker,
        logs,
    })
}

/// The merged log of all workers or one, in the order of time.
pub(crate) async fn merged(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
    selection: &Selection,
) -> Result<LogLines> {
    let uid = uid(context, caller, key).await?;
    Ok(LogLines {
        trainjob_name: key.name.clone(),
        lines: lines(context, &uid, worker, selection)?,
    })
}

/// The uid of a job that is or was, if the caller may read its logs.
pub(crate) async fn uid(context: &Context, caller: &Caller, key: &Key) -> Result<String> {
    let mut access = Access::core("get", "pods", &key.namespace);
    access.subresource = "log";
    context.gate.demand(caller, &access).await?;
    match jobs::find(context, caller, key).await {
        Ok(job) => Ok(job.job.uid().unwrap_or_default()),
        Err(Error::NotFound { .. }) => Ok(jobs::find_record(context, caller, key)
            .await?
            .detail
            .summary
            .uid),
        Err(error) => Err(error),
    }
}

fn lines(
    context: &Context,
    uid: &str,
    worker: Option<i64>,
    selection: &Selection,
) -> Result<Vec<LogLine>> {
    let most = selection.tail.and_then(|tail| usize::try_from(tail).ok());
    let most = most.unwrap_or(MOST_LINES).min(MOST_LINES);
    let since = selection
        .since_seconds
        .map(|seconds| context.now().as_second() - seconds);
    let mut lines = Vec::new();
    for attempt in context.logbook.latest(uid, worker, selection.previous) {
        lines.extend(
            context
                .logbook
                .tail(uid, &attempt, most)
                .map_err(Error::disk)?,
        );
    }
    if let Some(since) = since {
        lines.retain(|line| line.time.is_none_or(|time| time.as_second() >= since));
    }
    lines.sort_by_key(|line| line.time);
    Ok(lines.split_off(lines.len().saturating_sub(most)))
}

/// The whole log as text, read as it is sent. Several workers come one after the other, each line
/// with its worker before it.
pub(crate) async fn download(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
    back: usize,
) -> Result<impl Stream<Item = std::io::Result<String>> + Send + use<>> {
    let uid = uid(context, caller, key).await?;
    let attempts = context.logbook.earlier(&uid, worker, back);
    let prefix = attempts.len() > 1;
    let start = (Arc::clone(context), uid, attempts, 0_usize, 0_u64);
    Ok(futures::stream::try_unfold(
        start,
        move |state| async move {
            let (context, uid, attempts, mut index, mut from) = state;
            while let Some(attempt) = attempts.get(index) {
                let lines = context.logbook.read(&uid, attempt, from, 5000)?;
                let Some((last, _)) = lines.last() else {
                    (index, from) = (index + 1, 0);
                    continue;
                };
                from = *last;
                let text = |(_, line): &(u64, LogLine)| {
                    if prefix {
                        format!("[{}] {}\n", line.worker, line.text)
                    } else {
                        format!("{}\n", line.text)
                    }
                };
                let chunk: String = lines.iter().map(text).collect();
                return Ok(Some((chunk, (context, uid, attempts, index, from))));
            }
            Ok(None)
        },
    ))
}

/// What is searched for, and how much of it is returned.
pub(crate) struct Wanted {
    pub(crate) text: String,
    pub(crate) regex: bool,
    pub(crate) context: usize,
    pub(crate) limit: usize,
    /// How many attempts back; 0 is the last one.
    pub(crate) back: usize,
}

/// Searches all workers, or one, in one attempt.
pub(crate) async fn find(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
    wanted: Wanted,
) -> Result<SearchResult> {
    let uid = uid(context, caller, key).await?;
    let query = if wanted.regex {
        Query::pattern(&wanted.text).map_err(|message| Error::invalid("q", message))?
    } else {
        Query::Plain(wanted.text)
    };
    let context = Arc::clone(context);
    let searched = tokio::task::spawn_blocking(move || {
        let attempts = context.logbook.earlier(&uid, worker, wanted.back);
        logbook::search(
            &context.logbook,
            &uid,
            &attempts,
            &query,
            wanted.context,
            wanted.limit,
        )
    });
    searched.await.map_err(Error::disk)?.map_err(Error::disk)
}

/// The pod of a worker; `None` while it does not exist yet.
fn pod_of<'job>(job: &'job Job, key: &Key, worker: i64) -> Result<Option<&'job Pod>> {
    if let Some(pod) = job.worker(worker) {
        return Ok(Some(pod));
    }
    if worker < job.num_workers() {
        Ok(None)
    } else {
        Err(no_worker(key, worker, job.num_workers()))
    }
}

fn no_worker(key: &Key, worker: i64, count: i64) -> Error {
    Error::NoWorker {
        job: key.name.clone(),
        worker,
        last: count - 1,
    }
}

/// The log of one pod's training container, or of the init container that failed before it.
async fn text(
    context: &Context,
    caller: &Caller,
    pod: &Pod,
    selection: &Selection,
) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(
        context.gate.client(caller),
        &pod.namespace().unwrap_or_default(),
    );
    let parameters = LogParams {
        container: Some(container_of(pod)),
        previous: selection.previous,
        tail_lines: selection.tail,
        since_seconds: selection.since_seconds,
        timestamps: selection.timestamps,
        ..LogParams::default()
    };
    match pods.logs(&pod.name_any(), &parameters).await {
        Ok(text) => Ok(text),
        // Not started yet, no previous attempt, or gone since the cache last looked.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => Ok(String::new()),
        Err(error) => Err(Error::cluster("read the log", error)),
    }
}

/// The container whose log tells most: an init container that failed, else the training one.
pub(crate) fn container_of(pod: &Pod) -> String {
    let init = pod
        .status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_ref());
    let failed = init.into_iter().flatten().find(|status| {
        let terminated = status
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        terminated.is_some_and(|terminated| terminated.exit_code != 0)
    });
    if let Some(failed) = failed {
        return failed.name.clone();
    }
    let containers = || pod.spec.iter().flat_map(|spec| &spec.containers);
    let names = || containers().map(|container| container.name.as_str());
    names()
        .find(|name| TRAINING_CONTAINERS.contains(name))
        .or_else(|| names().next())
        .unwrap_or("node")
        .to_owned()
}
