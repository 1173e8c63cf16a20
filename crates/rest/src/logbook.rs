//! The logs of all jobs, in files of our own.
//!
//! Every container's log is read once, by [`recorder`], and written here line by line with its
//! time. Everything else reads these files: followers, however many; search; metrics; and whoever
//! looks at a job that is long gone. A follower holds no connection to a node, only a position.
//!
//! ```text
//! logs/{job's uid}/{worker}.{attempt}.log     "2025-11-05T13:00:00.123456789Z text\n"
//! logs/{job's uid}/{worker}.{attempt}.end     the container has ended and all of it is written
//! logs/{job's uid}/{worker}.{attempt}.points  what it says of metrics
//! logs/{job's uid}/curves                     the overview of the metrics of a job that is over
//! ```
//! An attempt is the pod's creation time, its uid and its container's restart count, so that the names
//! sort in the order in which the attempts ran. Of two pods that were created in the same second, our own
//! API server gave the later one the greater uid; elsewhere a pod takes longer than that to come and to fail.

mod catch_up;
mod curves;
mod headline;
mod lines;
mod pieces;
mod points;
pub(crate) mod pulse;
pub(crate) mod recorder;
mod reports;
mod resume;
mod search;
mod thinned;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::watch;

use self::curves::Metrics;
pub(crate) use self::curves::{POINTS, Range};
pub(crate) use self::pieces::{Most, Placed};
use self::pulse::Pulse;
use self::reports::Reported;
pub(crate) use self::search::{Query, search};
use crate::model::{LogLine, Progress};
use crate::world::Key;

/// The log of one attempt of one worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) worker: i64,
    pub(crate) id: String,
}

impl Attempt {
    pub(crate) fn new(worker: i64, pod: &Pod, restarts: i32) -> Self {
        let created = pod.creation_timestamp();
        let created = created.map_or(0, |time| time.0.as_second());
        let uid = pod.uid().unwrap_or_default();
        Self {
            worker,
            id: format!("{created:012}-{uid}-{restarts:04}"),
        }
    }

    /// What it was called before 0.2, when two pods of the same second shared a file.
    fn without_uid(&self) -> Option<Self> {
        let (created, rest) = self.id.split_once('-')?;
        let (_, restarts) = rest.rsplit_once('-')?;
        Some(Self {
            worker: self.worker,
            id: format!("{created}-{restarts}"),
        })
    }

    #[cfg(test)]
    pub(crate) fn of_test(worker: i64, created: i64, restarts: i32) -> Self {
        let id = format!("{created:012}-u-{restarts:04}");
        Self { worker, id }
    }

    fn file_name(&self) -> String {
        format!("{:05}.{}.log", self.worker, self.id)
    }

    fn parse(name: &str) -> Option<Self> {
        let (worker, id) = name.strip_suffix(".log")?.split_once('.')?;
        Some(Self {
            worker: worker.parse().ok()?,
            id: id.to_owned(),
        })
    }
}

pub(crate) struct Logbook {
    root: PathBuf,
    live: Mutex<HashMap<String, Live>>,
    /// Wake those who follow a job, by its uid; there is one while somebody does.
    signs: Mutex<HashMap<String, watch::Sender<()>>>,
    /// The ends that a full disk did not take.
    ends: Mutex<HashSet<PathBuf>>,
}

/// A job whose log grows.
struct Live {
    key: Key,
    pulse: Pulse,
    metrics: Metrics,
    reported: Reported,
}

impl Logbook {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let root = directory.join("logs");
        std::fs::create_dir_all(&root)?;
        Ok(Self {
            root,
            live: Mutex::default(),
            signs: Mutex::default(),
            ends: Mutex::default(),
        })
    }

    /// The attempts of a job of which there is a log, by worker and time.
    pub(crate) fn attempts(&self, uid: &str) -> Vec<Attempt> {
        let Ok(entries) = std::fs::read_dir(self.folder(uid)) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut attempts: Vec<Attempt> = names.filter_map(|name| Attempt::parse(&name)).collect();
        attempts.sort();
        attempts
    }

    /// The last attempt of each worker, or with `previous` the one before it.
    pub(crate) fn latest(&self, uid: &str, worker: Option<i64>, previous: bool) -> Vec<Attempt> {
        let mut by_worker: BTreeMap<i64, Vec<Attempt>> = BTreeMap::new();
        for attempt in self.attempts(uid) {
            by_worker.entry(attempt.worker).or_default().push(attempt);
        }
        by_worker
            .into_iter()
            .filter(|(number, _)| worker.is_none_or(|wanted| wanted == *number))
            .filter_map(|(_, mut attempts)| {
                if previous {
                    attempts.pop();
                }
                attempts.pop()
            })
            .collect()
    }

    /// The attempt of each worker that is so many before its last one.
    pub(crate) fn earlier(&self, uid: &str, worker: Option<i64>, back: usize) -> Vec<Attempt> {
        let mut by_worker: BTreeMap<i64, Vec<Attempt>> = BTreeMap::new();
        for attempt in self.attempts(uid) {
            by_worker.entry(attempt.worker).or_default().push(attempt);
        }
        by_worker
            .into_iter()
            .filter(|(number, _)| worker.is_none_or(|wanted| wanted == *number))
            .filter_map(|(_, mut attempts)| {
                let kept = attempts.len().checked_sub(back)?;
                attempts.truncate(kept);
                attempts.pop()
            })
            .collect()
    }

    /// The last lines of an attempt, or fewer where they are long.
    pub(crate) fn tail(
        &self,
        uid: &str,
        attempt: &Attempt,
        count: usize,
    ) -> io::Result<Vec<LogLine>> {
        let length = self.length(uid, attempt);
        let read = self.backwards(uid, attempt, length, Most::lines(count))?;
        Ok(read.into_iter().map(|placed| placed.line).collect())
    }

    /// Tells when there is news of a job, whether or not its log has begun.
    pub(crate) fn grows(&self, uid: &str) -> watch::Receiver<()> {
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        signs.retain(|_, sign| sign.receiver_count() > 0);
        let sign = signs.entry(uid.to_owned());
        sign.or_insert_with(|| watch::channel(()).0).subscribe()
    }

    fn tell(&self, uid: &str) {
        let signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sign) = signs.get(uid) {
            sign.send_replace(());
        }
    }

    /// Where a job stands, by what it prints. Rank 0 speaks for all, as it does in most programs.
    pub(crate) fn progress(&self, uid: &str) -> Option<Progress> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(uid).and_then(|live| live.metrics.progress())
    }

    /// How many bytes the logs of all jobs take.
    pub(crate) fn size(&self) -> u64 {
        let folders = std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten();
        folders.map(|folder| size_of(&folder.path())).sum()
    }

    /// How many bytes the logs of one job take.
    pub(crate) fn size_of(&self, uid: &str) -> u64 {
        size_of(&self.folder(uid))
    }

    pub(crate) fn remove(&self, uid: &str) {
        let folder = self.folder(uid);
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|end| !end.starts_with(&folder));
        drop(ends);
        if let Err(error) = std::fs::remove_dir_all(folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(uid, %error, "failed to remove old logs");
        }
    }

    fn folder(&self, uid: &str) -> PathBuf {
        // A uid comes from the API server; still, nothing in it may lead out of the folder.
        let safe: String = uid
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        self.root.join(safe)
    }

    pub(crate) fn path(&self, uid: &str, attempt: &Attempt) -> PathBuf {
        self.folder(uid).join(attempt.file_name())
    }
}

fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// A line of a file: its time, and its text.
fn line(worker: i64, bytes: &[u8]) -> LogLine {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let (time, rest) = match text.split_once(' ') {
        Some((time, rest)) => (time.parse::<Timestamp>().ok(), rest),
        None => (text.parse::<Timestamp>().ok(), ""),
    };
    match time {
        Some(_) => LogLine {
            time,
            worker,
            text: rest.to_owned(),
        },
        None => LogLine {
            time,
            worker,
            text: text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(lines: &[(&str, &str)]) -> (tempfile::TempDir, Logbook) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        for (file, text) in lines {
            let path = book.folder("uid").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (folder, book)
    }

    #[test]
    fn attempts_sort_in_time_and_the_latest_is_found() {
        let (_folder, book) = book(&[
            ("00000.000000000010-u-0000.log", "a\n"),
            ("00000.000000000010-u-0001.log", "b\n"),
            ("00001.000000000009-u-0000.log", "c\n"),
        ]);
        let latest = book.latest("uid", None, false);
        assert_eq!(
            latest,
            [Attempt::of_test(0, 10, 1), Attempt::of_test(1, 9, 0)]
        );
        assert_eq!(
            book.latest("uid", Some(0), true),
            [Attempt::of_test(0, 10, 0)]
        );
        assert!(book.latest("uid", Some(1), true).is_empty());
    }

    #[test]
    fn pods_of_the_same_second_have_logs_of_their_own() {
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        let attempt = |uid: &str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.to_owned());
            pod.metadata.creation_timestamp = Some(time.clone());
            Attempt::new(1, &pod, 0)
        };
        let (first, second) = (attempt("01a1-b"), attempt("01a2-a"));
        assert!(first < second);
        let old = Attempt {
            worker: 1,
            id: "000000000000-0000".to_owned(),
        };
        assert_eq!(first.without_uid(), Some(old));
    }

    #[test]
    fn reading_goes_on_where_it_stopped_and_leaves_half_lines() {
        let (_folder, book) = book(&[(
            "00000.000000000010-u-0000.log",
            "2025-11-05T13:00:00Z one\n2025-11-05T13:00:01Z two\nhal",
        )]);
        let attempt = Attempt::of_test(0, 10, 0);
        let read = |from, lines| book.forwards("uid", &attempt, from, Most::lines(lines));
        let (first, _) = read(0, 1).unwrap();
        assert_eq!(first[0].line.text, "one");
        let (rest, _) = read(first[0].end, 10).unwrap();
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].line.text, "two");
        assert!(rest[0].line.time.is_some());
    }

    #[test]
    fn the_tail_is_the_same_for_short_and_long_lines() {
        let long = format!("{}\n", "x".repeat(5000));
        let lines: Vec<String> = (0..100).map(|n| format!("{n} {long}")).collect();
        let text = lines.concat();
        let (_folder, book) = book(&[("00000.000000000010-u-0000.log", &text)]);
        let tail = book.tail("uid", &Attempt::of_test(0, 10, 0), 3).unwrap();
        assert_eq!(tail.len(), 3);
        assert!(tail[0].text.starts_with("97 "));
        assert_eq!(
            book.tail("uid", &Attempt::of_test(0, 10, 0), 1000)
                .unwrap()
                .len(),
            100
        );
    }

    #[test]
    fn metrics_of_a_job_that_is_over_are_read_from_its_files() {
        let (_folder, book) = book(&[(
            "00000.000000000010-u-0000.log",
            "2025-11-05T13:00:00Z Epoch 1, Batch 0/469, Loss: 2.3\n2025-11-05T13:00:01Z Epoch 1, Batch 10/469, Loss: 1.3\n",
        )]);
        let metrics = book.metrics("uid", POINTS).metrics;
        assert_eq!(metrics.len(), 1);
        assert_eq!(
            (metrics[0].name.as_str(), metrics[0].points.len()),
            ("loss", 2)
        );
    }

    #[test]
    fn a_complete_log_is_read_once_for_its_curves() {
        let log = "00000.000000000010-u-0000.log";
        let (_folder, book) = book(&[(log, "2025-11-05T13:00:00Z step 1/3 loss=2.5\n")]);
        let losses = || book.metrics("uid", POINTS).metrics[0].points.len();
        let grow = |lines: &str| std::fs::write(book.folder("uid").join(log), lines).unwrap();
        let two =
            "2025-11-05T13:00:00Z step 1/3 loss=2.5\n2025-11-05T13:00:01Z step 2/3 loss=1.5\n";
        assert_eq!(losses(), 1);
        grow(two);
        assert_eq!(losses(), 2, "what is not complete may grow");
        book.complete("uid", &Attempt::of_test(0, 10, 0));
        assert_eq!(losses(), 2);
        grow("");
        assert_eq!(losses(), 2, "the log was not read again");
    }

    #[test]
    fn too_many_metrics_are_counted_and_every_state_of_a_bar_is_read() {
        #[expect(clippy::format_collect, reason = "a test's log")]
        let many: String = (0..150)
            .map(|n| format!("2025-11-05T13:00:01Z metric{n}/loss=1\n"))
            .collect();
        let text = format!("2025-11-05T13:00:00Z step 1/3 [ loss=2.5\rstep 2/3 [ loss=nan\n{many}");
        let (_folder, book) = book(&[("00000.000000000010-u-0000.log", &text)]);
        let curves = book.metrics("uid", POINTS);
        assert_eq!((curves.metrics.len(), curves.left_out), (100, 51));
        let loss = serde_json::to_value(&curves.metrics[0]).unwrap();
        assert_eq!(
            (&loss["name"], &loss["value"]),
            (&"loss".into(), &"NaN".into())
        );
        assert_eq!(loss["points"][0]["value"], 2.5);
    }
}
