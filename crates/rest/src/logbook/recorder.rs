//! Reads every container's log once and writes it into the logbook; keeps the jobs' records.
//!
//! | task | input | output |
//! |---|---|---|
//! | [`run`] | changes of jobs, and a full look now and then | one task per attempt; records |
//! | one per attempt | the container's log, followed | its file, metrics, and a sign to followers |
//!
//! # Guarantees
//!
//! A line is written once: a task that goes on after a break or a restart of this process skips
//! as many lines as the file has.
//!
//! Every log comes to its end: what a restart of this process interrupted is taken up again, and what
//! nobody can read any more is closed as it is ([`catch_up`]).

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};
use tokio::sync::{broadcast, watch};

use super::{Attempt, Live, Logbook, Metrics, catch_up, line};
use crate::app;
use crate::context::Context;
use crate::view::Job;
use crate::world::{Change, Key, job_of_pod};

/// How often jobs that hold resources are looked at, whether or not changes were seen.
const LOOK: Duration = Duration::from_secs(15);

/// How long changes of a job are gathered before its record is written.
const GATHER: Duration = Duration::from_millis(500);

/// How long a task waits before it takes up a broken stream.
const RETRY: Duration = Duration::from_millis(300);

/// A longer line is cut; it is data that somebody printed by mistake.
const LONGEST_LINE: usize = 64 * 1024;

/// Runs until the context stops.
pub(crate) async fn run(context: Arc<Context>) {
    let mut changes = context.world.changes();
    let mut running: HashSet<(String, Attempt)> = HashSet::new();
    let (ended, mut endings) = tokio::sync::mpsc::unbounded_channel();
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
    let mut jobs: BTreeMap<Key, bool> = BTreeMap::new();
    catch_up::sweep(&context);
    all_jobs(&context, &mut jobs);
    loop {
        keep(&context, std::mem::take(&mut jobs), &mut running, &ended).await;
        tokio::select! {
            () = context.stop.cancelled() => return,
            Some(key) = endings.recv() => { running.remove(&key); }
            _ = look.tick() => {
                placed_jobs(&context, &mut jobs);
                let open = catch_up::open(&context).into_iter();
                jobs.extend(open.map(|key| (key, false)));
            }
            change = changes.recv() => {
                gather(&context, change, &mut jobs);
                tokio::time::sleep(GATHER).await;
                loop {
                    match changes.try_recv() {
                        Ok(change) => gather(&context, Ok(change), &mut jobs),
                        Err(broadcast::error::TryRecvError::Lagged(_)) => all_jobs(&context, &mut jobs),
                        Err(_) => break,
                    }
                }
            }
        }
    }
}

/// Records what these jobs are, and follows the logs that have begun.
async fn keep(
    context: &Arc<Context>,
    jobs: BTreeMap<Key, bool>,
    running: &mut HashSet<(String, Attempt)>,
    ended: &tokio::sync::mpsc::UnboundedSender<(String, Attempt)>,
) {
    for (key, deleted) in jobs {
        let job = Job::find(&context.world.read(), &key);
        if let Some(job) = job {
            context.logbook.report(&job.job);
            catch_up::close(context, &job, running);
            for (attempt, pod) in started(&job) {
                let id = (job.job.uid().unwrap_or_default(), attempt);
                if context.logbook.is_complete(&id.0, &id.1) || !running.insert(id.clone()) {
                    continue;
                }
                let (context_, ended) = (Arc::clone(context), ended.clone());
                context.tasks.spawn(async move {
                    record(&context_, &id.0, &id.1, &pod).await;
                    let _ = ended.send(id);
                });
            }
            app::record::write(context, &key).await;
        } else if deleted {
            app::record::gone(context, &key);
        }
    }
}

/// The jobs whose pods hold something: what they cost grows with time alone.
fn placed_jobs(context: &Context, jobs: &mut BTreeMap<Key, bool>) {
    let tables = context.world.read();
    let holds = |pod: &Pod| {
        let placed = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        placed && !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let pods = tables.pods.iter().filter(|(_, pod)| holds(pod));
    jobs.extend(pods.filter_map(|(_, pod)| Some((job_of_pod(pod)?, false))));
}

fn all_jobs(context: &Context, jobs: &mut BTreeMap<Key, bool>) {
    let tables = context.world.read();
    let current = tables.jobs.iter().filter(|(_, job)| !job.is_finished());
    jobs.extend(current.map(|(key, _)| (key.clone(), false)));
    let legacy = tables.legacy.list(None).into_iter();
    let legacy = legacy.filter(|(_, shown)| !shown.job.is_finished());
    jobs.extend(legacy.map(|(key, _)| (key, false)));
    drop(tables);
    let unsettled = catch_up::unsettled(context).into_iter();
    jobs.extend(unsettled.map(|key| (key, false)));
}

fn gather(
    context: &Context,
    change: Result<Change, broadcast::error::RecvError>,
    jobs: &mut BTreeMap<Key, bool>,
) {
    match change {
        Ok(change) => {
            jobs.insert(change.job, change.deleted);
        }
        Err(_) => all_jobs(context, jobs),
    }
}

/// The attempts that have started, with their pods.
pub(crate) fn started(job: &Job) -> Vec<(Attempt, Arc<Pod>)> {
    job.workers()
        .into_iter()
        .filter_map(|(worker, pod)| {
            let container = app::logs::container_of(pod);
            let status = pod.status.as_ref()?;
            let all = status
                .container_statuses
                .iter()
                .chain(&status.init_container_statuses)
                .flatten();
            let found = all.into_iter().find(|status| status.name == container)?;
            let state = found.state.as_ref()?;
            if state.running.is_none() && state.terminated.is_none() {
                return None;
            }
            let created = pod
                .creation_timestamp()
                .map_or(0, |time| time.0.as_second());
            Some((
                Attempt::new(worker, created, found.restart_count),
                Arc::clone(pod),
            ))
        })
        .collect()
}

/// Follows one attempt to its end.
async fn record(context: &Context, uid: &str, attempt: &Attempt, pod: &Pod) {
    let book = &context.logbook;
    book.begin(uid);
    let mut file = match book.append(uid, attempt) {
        Ok(file) => file,
        Err(error) => {
            tracing::error!(uid, %error, "failed to write the log; it is not recorded");
            return;
        }
    };
    let pods: Api<Pod> =
        Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let parameters = LogParams {
        container: Some(app::logs::container_of(pod)),
        follow: true,
        timestamps: true,
        ..LogParams::default()
    };
    let name = pod.name_any();
    // After some failures the next full look starts anew.
    for _ in 0..100 {
        let done = tokio::select! {
            () = context.stop.cancelled() => return,
            done = copy(context, &pods, &name, &parameters, &mut file, uid, attempt) => done,
        };
        match done {
            Ok(()) => {
                // A stream that ends before its container means that the node or the API server
                // restarted.
                if has_ended(context, pod, attempt) {
                    book.complete(uid, attempt);
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(pod = pod.name_any(), %error, "log stream broke");
                if current(context, pod).is_none() {
                    book.complete(uid, attempt);
                    return;
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Copies what the file does not have yet.
async fn copy(
    context: &Context,
    pods: &Api<Pod>,
    name: &str,
    parameters: &LogParams,
    file: &mut Appender,
    uid: &str,
    attempt: &Attempt,
) -> io::Result<()> {
    let stream = pods
        .log_stream(name, parameters)
        .await
        .map_err(io::Error::other)?;
    let mut stream = Box::pin(stream);
    let mut seen = 0;
    let mut bytes = Vec::new();
    loop {
        let is_new = seen >= file.lines;
        let told = read_line(&mut stream, &mut bytes, |bar| {
            if is_new {
                context
                    .logbook
                    .drawn(uid, attempt.worker, context.now(), bar);
            }
        })
        .await?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        seen += 1;
        if !is_new {
            continue;
        }
        file.write(&bytes)?;
        if told == 0 {
            context.logbook.grew(uid, attempt.worker, &bytes);
        } else {
            let last = &bytes[told..];
            context
                .logbook
                .drawn(uid, attempt.worker, context.now(), last);
        }
    }
}

/// Reads a line. A progress bar draws on it again and again before it ends: each whole drawing, which a carriage
/// return ends, goes to `drawn` as it comes. Returns how much of the line `drawn` has seen.
async fn read_line(
    stream: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    mut drawn: impl FnMut(&[u8]),
) -> io::Result<usize> {
    line.clear();
    let mut told = 0;
    while line.len() < LONGEST_LINE {
        let piece = stream.fill_buf().await?;
        let room = piece.len().min(LONGEST_LINE - line.len());
        let end = memchr::memchr(b'\n', &piece[..room]).map(|at| at + 1);
        let taken = end.unwrap_or(room);
        line.extend_from_slice(&piece[..taken]);
        stream.consume_unpin(taken);
        if end.is_some() || taken == 0 {
            break;
        }
        if let Some(at) = memchr::memrchr(b'\r', &line[told..]) {
            let until = told + at;
            let from = memchr::memrchr(b'\r', &line[..until]).map_or(0, |before| before + 1);
            drawn(&line[from..until]);
            told = until + 1;
        }
    }
    Ok(told)
}

/// The pod as it is now, if it still is this one.
fn current(context: &Context, pod: &Pod) -> Option<Arc<Pod>> {
    let key = Key::of(pod);
    context
        .world
        .read()
        .pods
        .get(&key)
        .filter(|now| now.uid() == pod.uid())
        .cloned()
}

/// Whether the container of this attempt is over, as far as the API server knows.
fn has_ended(context: &Context, pod: &Pod, attempt: &Attempt) -> bool {
    let Some(now) = current(context, pod) else {
        return true;
    };
    let created = now
        .creation_timestamp()
        .map_or(0, |time| time.0.as_second());
    let container = app::logs::container_of(&now);
    let Some(status) = now.status.as_ref() else {
        return false;
    };
    let mut all = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses)
        .flatten();
    let Some(found) = all.find(|status| status.name == container) else {
        return false;
    };
    let same = Attempt::new(attempt.worker, created, found.restart_count) == *attempt;
    !same
        || found
            .state
            .as_ref()
            .is_some_and(|state| state.terminated.is_some())
}

/// A log file that is appended to.
struct Appender {
    file: File,
    lines: usize,
}

impl Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.lines += 1;
        Ok(())
    }
}

impl Logbook {
    /// Opens an attempt's file for appending; a half line at its end is cut off.
    fn append(&self, uid: &str, attempt: &Attempt) -> io::Result<Appender> {
        let path = self.path(uid, attempt);
        std::fs::create_dir_all(self.folder(uid))?;
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)?;
        let (mut lines, mut whole) = (0, 0);
        let mut reader = BufReader::new(&file);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader.read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                break;
            }
            (lines, whole) = (lines + 1, whole + read as u64);
            self.grew(uid, attempt.worker, &bytes);
        }
        file.set_len(whole)?;
        Ok(Appender { file, lines })
    }

    pub(super) fn begin(&self, uid: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.entry(uid.to_owned()).or_insert_with(|| Live {
            grown: watch::channel(0).0,
            metrics: Metrics::default(),
            reported: self.read_reports(uid),
        });
    }

    fn grew(&self, uid: &str, worker: i64, bytes: &[u8]) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            live.metrics.line(&line(worker, bytes));
            live.grown.send_modify(|version| *version += 1);
        }
    }

    /// A progress bar has drawn on a line that has not ended, or that ends with this.
    fn drawn(&self, uid: &str, worker: i64, time: Timestamp, bytes: &[u8]) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            let text = String::from_utf8_lossy(bytes);
            live.metrics.text(time, worker, text.trim_end());
            if bytes.ends_with(b"\n") {
                live.grown.send_modify(|version| *version += 1);
            }
        }
    }

    pub(super) fn complete(&self, uid: &str, attempt: &Attempt) {
        if let Err(error) = File::create(self.path(uid, attempt).with_extension("end")) {
            tracing::warn!(uid, %error, "failed to mark a log as complete; it will be read again");
        }
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            live.grown.send_modify(|version| *version += 1);
        }
    }

    pub(crate) fn is_complete(&self, uid: &str, attempt: &Attempt) -> bool {
        self.path(uid, attempt).with_extension("end").exists()
    }

    /// Whether every attempt of which there is a file has been written to its end.
    pub(crate) fn all_complete(&self, uid: &str) -> bool {
        self.attempts(uid)
            .iter()
            .all(|attempt| self.is_complete(uid, attempt))
    }

    /// The job is over and its logs are complete; followers find the end of the files.
    pub(crate) fn forget(&self, uid: &str) {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_progress_bar_is_read_while_it_draws() {
        let pieces = [
            "00Z start\r 1/9",
            " [ loss=3\r 2/9 [ loss=2",
            "\r 3/9 [ loss=1\n",
            "next\n",
        ];
        let pieces = pieces.map(|piece| Ok::<_, io::Error>(piece.as_bytes()));
        let mut stream = futures::stream::iter(pieces).into_async_read();
        let (mut line, mut seen) = (Vec::new(), Vec::new());
        let told = read_line(&mut stream, &mut line, |bar| seen.push(bar.to_vec()))
            .await
            .unwrap();
        assert_eq!(seen, [&b"00Z start"[..], b" 1/9 [ loss=3"]);
        assert_eq!(&line[told..], b" 2/9 [ loss=2\r 3/9 [ loss=1\n");
        read_line(&mut stream, &mut line, |_| {}).await.unwrap();
        assert_eq!(line, b"next\n");
    }
}
