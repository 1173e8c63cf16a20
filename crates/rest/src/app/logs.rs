//! Logs: from the pods while they exist, from the logbook always.

pub(crate) mod page;
pub(crate) mod stream;
mod whole;

use std::io;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, Stream, TryStreamExt};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};

use super::{Error, Result, jobs};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::logbook::{self, Most, Placed, Query, recorder};
use crate::model::{LogLine, SearchResult};
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

/// How many lines an answer in JSON has, the last ones, unless it was asked for another number. Other
/// answers have no such limit.
pub(crate) const MOST_LINES: i64 = 100_000;

/// One worker's log as text, read as it is sent: from the pod while that is ahead of what we have
/// written down, otherwise from our own files.
pub(crate) async fn worker(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
    worker: i64,
    selection: &Selection,
) -> Result<BoxStream<'static, io::Result<String>>> {
    let (uid, pod) = match jobs::find(context, caller, key).await {
        Ok(job) => {
            let uid = job.job.uid().unwrap_or_default();
            let pod = pod_of(&job, key, worker)?.cloned();
            let written = recorder::started(&job).iter().any(|(attempt, of)| {
                let same = pod.as_ref().is_some_and(|pod| pod.uid() == of.uid());
                same && context.logbook.is_complete(&uid, attempt)
            });
            (uid, pod.filter(|_| !written))
        }
        Err(Error::NotFound { .. }) => {
            let uid = archived(context, caller, key, Some(worker)).await?;
            (uid, None)
        }
        Err(error) => return Err(error),
    };
    if let Some(pod) = pod.filter(|_| !selection.previous)
        && let Some(text) = text(context, caller, &pod, selection).await?
    {
        return Ok(text);
    }
    demand(context, caller, key).await?;
    let timestamps = selection.timestamps;
    let text = move |line: LogLine| match line.time.filter(|_| timestamps) {
        Some(time) => format!("{time} {}\n", line.text),
        None => line.text + "\n",
    };
    let lines = selected(context, uid, Some(worker), selection);
    Ok(Box::pin(lines.map_ok(move |lines| {
        lines.into_iter().map(text).collect()
    })))
}

/// The uid of a job that is gone and that had this worker, if one is asked for.
async fn archived(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
) -> Result<String> {
    let record = jobs::find_record(context, caller, key).await?;
    let summary = record.detail.summary;
    // A launcher is a worker, too, though not always a node.
    let ranks = record.detail.nodes.iter().map(|node| node.worker + 1);
    let workers = ranks.max().unwrap_or(0).max(summary.num_nodes);
    match worker.filter(|worker| *worker >= workers) {
        Some(worker) => Err(no_worker(key, worker, workers)),
        None => Ok(summary.uid),
    }
}

/// The merged log of all workers or one, in the order of time.
pub(crate) async fn merged(
    context: &Arc<Context>,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
    selection: &Selection,
) -> Result<impl Stream<Item = io::Result<Vec<LogLine>>> + Send + use<>> {
    let uid = uid(context, caller, key, worker).await?;
    Ok(selected(context, uid, worker, selection))
}

/// Refuses those who may not read logs in a namespace.
async fn demand(context: &Context, caller: &Caller, key: &Key) -> Result<()> {
    let mut access = Access::core("get", "pods", &key.namespace);
    access.subresource = "log";
    context.gate.demand(caller, &access).await
}

/// The uid of a job that is or was and has this worker, if the caller may read its logs.
pub(crate) async fn uid(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
) -> Result<String> {
    demand(context, caller, key).await?;
    match jobs::find(context, caller, key).await {
        Ok(job) => {
            worker.map(|it| pod_of(&job, key, it)).transpose()?;
            Ok(job.job.uid().unwrap_or_default())
        }
        Err(Error::NotFound { .. }) => archived(context, caller, key, worker).await,
        Err(error) => Err(error),
    }
}

/// What is selected of our own files.
fn selected(
    context: &Arc<Context>,
    uid: String,
    worker: Option<i64>,
    selection: &Selection,
) -> impl Stream<Item = io::Result<Vec<LogLine>>> + Send + use<> {
    let tail = selection.tail.and_then(|tail| u64::try_from(tail).ok());
    let since = selection.since_seconds.and_then(|seconds| {
        context
            .now()
            .checked_sub(SignedDuration::from_secs(seconds))
            .ok()
    });
    let attempts = context.logbook.latest(&uid, worker, selection.previous);
    whole::lines(context, uid, attempts, tail, since)
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
    let uid = uid(context, caller, key, worker).await?;
    let attempts = context.logbook.earlier(&uid, worker, back);
    let prefix = attempts.len() > 1;
    let start = (Arc::clone(context), uid, attempts, 0_usize, 0_u64);
    Ok(futures::stream::try_unfold(
        start,
        move |state| async move {
            let (context, uid, attempts, mut index, mut from) = state;
            while let Some(attempt) = attempts.get(index) {
                let book = &context.logbook;
                let (lines, _) = book.forwards(&uid, attempt, from, Most::lines(5000))?;
                let Some(last) = lines.last() else {
                    (index, from) = (index + 1, 0);
                    continue;
                };
                from = last.end;
                let text = |placed: &Placed| {
                    let line = &placed.line;
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
    let uid = uid(context, caller, key, worker).await?;
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

/// The pod of a worker; `None` while it does not exist.
pub(super) fn pod_of<'job>(
    job: &'job Job,
    key: &Key,
    worker: i64,
) -> Result<Option<&'job Arc<Pod>>> {
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

/// The log of one pod's training container, or of the init container that failed before it; `None` when
/// the pod has none.
async fn text(
    context: &Context,
    caller: &Caller,
    pod: &Pod,
    selection: &Selection,
) -> Result<Option<BoxStream<'static, io::Result<String>>>> {
    let pods: Api<Pod> = Api::namespaced(
        context.gate.client(caller),
        &pod.namespace().unwrap_or_default(),
    );
    let parameters = LogParams {
        container: Some(container_of(pod)),
        tail_lines: selection.tail,
        since_seconds: selection.since_seconds,
        timestamps: selection.timestamps,
        ..LogParams::default()
    };
    match pods.log_stream(&pod.name_any(), &parameters).await {
        Ok(stream) => {
            let start = (Box::pin(stream), Vec::new());
            Ok(Some(Box::pin(futures::stream::try_unfold(
                start,
                |(mut stream, mut bytes)| async move {
                    let piece = stream.fill_buf().await?;
                    let length = piece.len();
                    bytes.extend_from_slice(piece);
                    stream.consume_unpin(length);
                    let text = decode(&mut bytes, length == 0);
                    let over = length == 0 && text.is_empty();
                    Ok((!over).then_some((text, (stream, bytes))))
                },
            ))))
        }
        // Not started yet, or gone since the cache last looked.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => Ok(None),
        Err(error) => Err(Error::cluster("read the log", error)),
    }
}

/// Takes the text out of what has come so far; half a character at its end waits for its other half.
fn decode(bytes: &mut Vec<u8>, end: bool) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && !end => error.valid_up_to(),
        // What is wrong before the half is shown as such, and the half with it: this is not text.
        _ => bytes.len(),
    };
    let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
    bytes.drain(..whole);
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive_being_cut() {
        let text = "학습 끝\n".as_bytes();
        for cut in 0..text.len() {
            let mut bytes = text[..cut].to_vec();
            let mut all = decode(&mut bytes, false);
            bytes.extend_from_slice(&text[cut..]);
            all.push_str(&decode(&mut bytes, true));
            assert_eq!(all.as_bytes(), text, "cut at {cut}");
        }
        assert_eq!(decode(&mut vec![b'a', 0xea], true), "a\u{fffd}");
    }
}
