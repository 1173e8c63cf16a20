//! Reads every container's log once and writes it into the logbook; keeps the jobs' records.
//!
//! | task | input | output |
//! |---|---|---|
//! | [`follow`] | changes of jobs at once, and a full look now and then | one task per attempt |
//! | one per attempt | the container's log, followed | its file, metrics, and a sign to followers |
//! | [`keep`] | changes of jobs, gathered, and a full look now and then | their records |
//!
//! # Guarantees
//!
//! A line is written once: a task that goes on after a break or a restart of this process leaves out
//! what the file has ([`resume`](super::resume)), also where the node has rotated the log meanwhile.
//!
//! Every log comes to its end: what a restart of this process interrupted is taken up again, and what
//! nobody can read or write any more is closed as it is, here and in [`catch_up`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::AsyncBufReadExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc;

use super::lines::Lines;
use super::pulse::Pulse;
use super::thinned::Point;
use super::{Attempt, Live, Logbook, Metrics, POINTS, catch_up, line, points};
use crate::app;
use crate::context::Context;
use crate::legacy;
use crate::view::Job;
use crate::world::{Change, Key};

/// How often jobs that hold resources are looked at, whether or not changes were seen.
const LOOK: Duration = Duration::from_secs(15);

/// How long changes of a job are gathered before its record is written.
const GATHER: Duration = Duration::from_millis(500);

/// How long a task waits before it takes up a broken stream.
const RETRY: Duration = Duration::from_millis(300);

/// A log that could not be read or written for so long is closed as it is, once its container or its job is over.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn run(context: Arc<Context>) {
    // Apart, because records go to the disk and whoever follows a log waits for nothing but its lines.
    catch_up::sweep(&context);
    tokio::join!(follow(&context), keep(&context));
}

/// Follows the logs that have begun, from the moment at which they are known to.
async fn follow(context: &Arc<Context>) {
    let mut changes = context.world.changes();
    let mut running: HashSet<(String, Attempt)> = HashSet::new();
    let (ended, mut endings) = mpsc::unbounded_channel();
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
    // Also of jobs that ended while nobody was here to listen.
    let mut jobs = with_pods(context, |_| true);
    jobs.extend(catch_up::unsettled(context));
    loop {
        for key in std::mem::take(&mut jobs) {
            begin(context, &key, &mut running, &ended);
        }
        tokio::select! {
            () = context.stop.cancelled() => return,
            Some(id) = endings.recv() => { running.remove(&id); }
            _ = look.tick() => {
                jobs = with_pods(context, holds);
                jobs.extend(catch_up::open(context));
            }
            change = changes.recv() => {
                let mut next = Some(change);
                while let Some(change) = next {
                    match change {
                        Ok(change) => _ = jobs.insert(change.job),
                        Err(_) => jobs.extend(with_pods(context, |_| true)),
                    }
                    next = match changes.try_recv() {
                        Ok(change) => Some(Ok(change)),
                        Err(TryRecvError::Lagged(count)) => Some(Err(RecvError::Lagged(count))),
                        Err(_) => None,
                    };
                }
            }
        }
    }
}

/// Starts a task for each log of a job that has begun and that nobody writes down yet.
fn begin(
    context: &Arc<Context>,
    key: &Key,
    running: &mut HashSet<(String, Attempt)>,
    ended: &mpsc::UnboundedSender<(String, Attempt)>,
) {
    let Some(job) = Job::find(&context.world.mirrors, key) else {
        return;
    };
    let uid = job.job.uid().unwrap_or_default();
    context.ledger.note(&context.history, &job, context.now());
    catch_up::close(context, &job, running);
    for (attempt, pod) in started(&job) {
        let id = (uid.clone(), attempt);
        if running.contains(&id) || context.logbook.is_complete(&id.0, &id.1) {
            continue;
        }
        context.logbook.adopt(&id.0, &id.1);
        if context.logbook.is_complete(&id.0, &id.1) {
            continue;
        }
        running.insert(id.clone());
        let (context_, ended, key) = (Arc::clone(context), ended.clone(), key.clone());
        context.tasks.spawn(async move {
            record(&context_, &id.0, &id.1, &pod).await;
            // First, because a restart waits for it.
            app::verdict::give(&context_, &key, &pod).await;
            // Whatever the last lines said belongs into the job's record.
            app::record::write(&context_, &key).await;
            let _ = ended.send(id);
        });
    }
    // The end of a job is news, too.
    context.logbook.tell(&uid);
}

/// Keeps the records of jobs that change, or that hold something.
async fn keep(context: &Arc<Context>) {
    let mut changes = context.world.changes();
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
    let mut jobs: BTreeMap<Key, bool> = BTreeMap::new();
    all_jobs(context, &mut jobs);
    loop {
        for (key, deleted) in std::mem::take(&mut jobs) {
            let job = Job::find(&context.world.mirrors, &key);
            if let Some(job) = job {
                context.logbook.report(&job.job);
                app::record::write(context, &key).await;
            } else if deleted {
                app::record::gone(context, &key);
            }
        }
        tokio::select! {
            () = context.stop.cancelled() => return,
            // What they cost grows with time alone.
            _ = look.tick() => jobs.extend(with_pods(context, holds).into_iter().map(|key| (key, false))),
            change = changes.recv() => {
                gather(context, change, &mut jobs);
                tokio::time::sleep(GATHER).await;
                loop {
                    match changes.try_recv() {
                        Ok(change) => gather(context, Ok(change), &mut jobs),
                        Err(TryRecvError::Lagged(_)) => all_jobs(context, &mut jobs),
                        Err(_) => break,
                    }
                }
            }
        }
    }
}

/// The jobs that have a pod of this sort.
fn with_pods(context: &Context, which: impl Fn(&Pod) -> bool) -> BTreeSet<Key> {
    let pods = context.world.mirrors.pods.all().into_iter();
    let pods = pods.filter(|pod| which(pod));
    pods.filter_map(|pod| Key::of_training_job(&pod)).collect()
}

/// Whether a pod has a place, and is not over.
fn holds(pod: &Pod) -> bool {
    let placed = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    placed && astrago_plan::fit::holds_room(pod)
}

fn all_jobs(context: &Context, jobs: &mut BTreeMap<Key, bool>) {
    let mirrors = &context.world.mirrors;
    let current = mirrors.train_jobs.all().into_iter();
    let current = current.filter(|job| !job.is_finished());
    jobs.extend(current.map(|job| (Key::of(&*job), false)));
    let legacy = legacy::list(mirrors, None).into_iter();
    let legacy = legacy.filter(|(_, shown)| !shown.job.is_finished());
    jobs.extend(legacy.map(|(key, _)| (key, false)));
    let unsettled = catch_up::unsettled(context).into_iter();
    jobs.extend(unsettled.map(|key| (key, false)));
}

fn gather(context: &Context, change: Result<Change, RecvError>, jobs: &mut BTreeMap<Key, bool>) {
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
            let attempt = Attempt::new(worker, pod, found.restart_count);
            Some((attempt, Arc::clone(pod)))
        })
        .collect()
}

async fn record(context: &Context, uid: &str, attempt: &Attempt, pod: &Pod) {
    let book = &context.logbook;
    if let Some(key) = Key::of_training_job(pod) {
        book.begin(uid, &key);
    }
    let pods: Api<Pod> =
        Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let parameters = LogParams {
        container: Some(app::logs::container_of(pod)),
        follow: true,
        timestamps: true,
        ..LogParams::default()
    };
    let name = pod.name_any();
    let mut file = None;
    let mut failing_since = None;
    loop {
        let done = match &mut file {
            Some(file) => tokio::select! {
                () = context.stop.cancelled() => return,
                done = copy(context, &pods, &name, &parameters, file, uid, attempt) => done,
            },
            None => match book.append(uid, attempt) {
                Ok(opened) => {
                    file = Some(opened);
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        match done {
            // A stream that ends before its container means that the node or the API server
            // restarted.
            Ok(()) if has_ended(context, pod, attempt) => {
                book.complete(uid, attempt);
                return;
            }
            Ok(()) => failing_since = None,
            Err(_) if current(context, pod).is_none() => {
                book.complete(uid, attempt);
                return;
            }
            Err(error) => {
                tracing::debug!(pod = name, %error, "log stream broke");
                let since = *failing_since.get_or_insert_with(|| context.now());
                if context.now().duration_since(since) >= PATIENCE {
                    if has_ended(context, pod, attempt) || is_job_over(context, pod) {
                        tracing::warn!(uid, pod = name, %error, "the log stays as far as it was read");
                        book.complete(uid, attempt);
                    }
                    // Else the next full look starts anew.
                    return;
                }
            }
        }
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// Whether the job of a pod is finished or gone; its node may be lost, and will never say how the pod ended.
fn is_job_over(context: &Context, pod: &Pod) -> bool {
    let job = Key::of_training_job(pod).and_then(|key| Job::find(&context.world.mirrors, &key));
    job.is_none_or(|job| job.state().is_finished())
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
    let mut lines = Lines::default();
    let book = &context.logbook;
    let mut known = book.known(uid, attempt, file.lines)?;
    loop {
        let piece = stream.fill_buf().await?;
        let length = piece.len();
        let told = lines.told;
        let whole = if length == 0 {
            lines.end()
        } else {
            lines.push(piece)
        };
        stream.consume_unpin(length);
        let unknown = known.without(&whole);
        let mut kept = &*unknown;
        if !kept.is_empty() {
            file.write(kept)?;
            if told > 0 && kept.len() == whole.len() {
                // What was drawn on this line before has been read already.
                let end = memchr::memchr(b'\n', kept).map_or(kept.len(), |at| at + 1);
                let drawn = &kept[told..end];
                file.drawn(book, uid, attempt.worker, context.now(), drawn);
                kept = &kept[end..];
            }
            file.grew(book, uid, attempt.worker, kept);
        }
        if let Some(bar) = lines.drawing().filter(|_| known.is_none()) {
            file.drawn(book, uid, attempt.worker, context.now(), bar);
        }
        file.points.flush();
        if length == 0 {
            return Ok(());
        }
    }
}

/// The pod as it is now, if it still is this one.
fn current(context: &Context, pod: &Pod) -> Option<Arc<Pod>> {
    let now = context.world.mirrors.pods.get(&Key::of(pod));
    now.filter(|now| now.uid() == pod.uid())
}

/// Whether the container of this attempt is over, as far as the API server knows.
fn has_ended(context: &Context, pod: &Pod, attempt: &Attempt) -> bool {
    let Some(now) = current(context, pod) else {
        return true;
    };
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
    let same = Attempt::new(attempt.worker, &now, found.restart_count) == *attempt;
    !same
        || found
            .state
            .as_ref()
            .is_some_and(|state| state.terminated.is_some())
}

/// A log file that is appended to, with its points.
struct Appender {
    file: File,
    lines: usize,
    length: u64,
    points: points::Writer,
}

impl Appender {
    fn grew(&mut self, book: &Logbook, uid: &str, worker: i64, lines: &[u8]) {
        let points = &mut self.points;
        book.grew(uid, worker, lines, |name, point| points.add(name, point));
    }

    fn drawn(&mut self, book: &Logbook, uid: &str, worker: i64, time: Timestamp, bytes: &[u8]) {
        let points = &mut self.points;
        book.drawn(uid, worker, time, bytes, |name, point| {
            points.add(name, point);
        });
    }

    /// Writes whole lines: all of them or, on a full disk, none.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(lines) {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.lines += memchr::memchr_iter(b'\n', lines).count();
        self.length += lines.len() as u64;
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
        self.restart(uid, attempt.worker);
        let mut points = points::Writer::create(self.points_path(uid, attempt));
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
            self.grew(uid, attempt.worker, &bytes, |name, point| {
                points.add(name, point);
            });
        }
        points.flush();
        file.set_len(whole)?;
        Ok(Appender {
            file,
            lines,
            length: whole,
            points,
        })
    }

    /// Takes over what an earlier version wrote of an attempt.
    fn adopt(&self, uid: &str, attempt: &Attempt) {
        let Some(old) = attempt.without_uid() else {
            return;
        };
        let (old, new) = (self.path(uid, &old), self.path(uid, attempt));
        for extension in ["log", "end"] {
            let renamed =
                std::fs::rename(old.with_extension(extension), new.with_extension(extension));
            if let Err(error) = renamed
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(uid, %error, "failed to take over a log; it will be read again");
            }
        }
    }

    pub(super) fn begin(&self, uid: &str, key: &Key) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.entry(uid.to_owned()).or_insert_with(|| Live {
            key: key.clone(),
            pulse: Pulse::default(),
            metrics: Metrics::default(),
            reported: self.read_reports(uid, POINTS, |_| true),
        });
    }

    fn restart(&self, uid: &str, worker: i64) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            live.metrics.restart(worker);
            live.pulse.restart(worker);
        }
    }

    /// Takes note of whole lines that were written, and hands on their points.
    fn grew(&self, uid: &str, worker: i64, lines: &[u8], mut each: impl FnMut(&str, Point)) {
        self.tell(uid);
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            for bytes in lines.split_inclusive(|byte| *byte == b'\n') {
                let line = line(worker, bytes);
                let moved = live.metrics.line(&line, &mut each);
                live.pulse.heard(worker, line.time.filter(|_| moved));
            }
        }
    }

    /// A progress bar has drawn on a line that has not ended, or that ends with this.
    fn drawn(
        &self,
        uid: &str,
        worker: i64,
        time: Timestamp,
        bytes: &[u8],
        each: impl FnMut(&str, Point),
    ) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get_mut(uid) {
            let text = String::from_utf8_lossy(bytes);
            let moved = live.metrics.text(time, worker, text.trim_end(), each);
            live.pulse.heard(worker, Some(time).filter(|_| moved));
        }
    }

    pub(super) fn complete(&self, uid: &str, attempt: &Attempt) {
        let end = self.path(uid, attempt).with_extension("end");
        if let Err(error) = File::create(&end) {
            tracing::warn!(uid, %error, "failed to mark a log as complete; it will be read again after a restart");
            let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            ends.insert(end);
        }
        self.tell(uid);
    }

    pub(crate) fn is_complete(&self, uid: &str, attempt: &Attempt) -> bool {
        let end = self.path(uid, attempt).with_extension("end");
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.contains(&end) || end.exists()
    }

    /// Whether every attempt of which there is a file has been written to its end.
    pub(crate) fn all_complete(&self, uid: &str) -> bool {
        self.attempts(uid)
            .iter()
            .all(|attempt| self.is_complete(uid, attempt))
    }

    /// The job is over and its logs are complete; followers find the end of the files.
    pub(crate) fn forget(&self, uid: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let over = live.remove(uid);
        drop(live);
        if let Some(over) = over {
            self.keep_curves(uid, &over.reported.before(over.metrics.all(true), true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_leaves_no_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let attempt = Attempt::of_test(0, 1, 0);
        let mut file = book.append("u", &attempt).unwrap();
        file.write(b"one\ntwo\n").unwrap();
        // What a file may not be written to answers as a full disk does.
        file.file = File::open(book.path("u", &attempt)).unwrap();
        file.write(b"three\n").unwrap_err();
        assert_eq!((file.lines, file.length), (2, 8));
    }

    #[tokio::test]
    async fn whoever_follows_a_log_that_has_not_begun_is_told_when_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let mut grows = book.grows("u");
        book.begin("u", &Key::new("team", "job"));
        let mut file = book.append("u", &Attempt::of_test(0, 1, 0)).unwrap();
        file.write(b"one\n").unwrap();
        file.grew(&book, "u", 0, b"one\n");
        grows.changed().await.unwrap();
    }
}
