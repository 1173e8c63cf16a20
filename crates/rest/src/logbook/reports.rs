//! What training code reported of itself: Kubernetes has the last report only, here is the curve.
//!
//! ```text
//! logs/{job's uid}/reports     a line of JSON per report, as it stood in the job's status
//! ```

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::PoisonError;

use astrago_api::{TrainJob, TrainerStatus};
use jiff::Timestamp;
use kube::ResourceExt;

use super::Logbook;
use super::curves::{Curves, Gathered};
use super::thinned::Point;
use crate::world::Key;

pub(super) struct Reported {
    last: Option<Timestamp>,
    gathered: Gathered,
}

impl Reported {
    fn new(points: usize) -> Self {
        Self {
            last: None,
            gathered: Gathered::new(points),
        }
    }

    pub(super) fn gathered(&self) -> &Gathered {
        &self.gathered
    }

    /// Takes what is wanted of a report; tells whether it is a new one.
    fn take(&mut self, status: &TrainerStatus, wanted: impl Fn(&Point) -> bool) -> bool {
        let Some(time) = status.last_updated_time.as_ref().map(|time| time.0) else {
            return false;
        };
        if self.last.is_some_and(|last| time <= last) {
            return false;
        }
        self.last = Some(time);
        for metric in &status.metrics {
            // Values are texts; one that is no number makes no curve.
            let Ok(value) = metric.value.parse::<f64>() else {
                continue;
            };
            let step = None;
            let point = Point { time, step, value };
            if wanted(&point) {
                self.gathered.add(&metric.name, 0, point);
            }
        }
        true
    }

    /// The metrics with those that were read from the log; a report is more exact than a log line of the
    /// same name.
    pub(super) fn before(&self, mut read: Curves, with_points: bool) -> Curves {
        read.left_out += self.gathered.left_out();
        read.metrics
            .retain(|metric| !self.gathered.has(&metric.name));
        read.metrics.extend(self.gathered.metrics(with_points));
        read.metrics
            .sort_by(|left, right| left.name.cmp(&right.name));
        read
    }
}

impl Logbook {
    /// Notes what a job's status says, if that is new.
    pub(crate) fn report(&self, job: &TrainJob) {
        let status = job
            .status
            .as_ref()
            .and_then(|status| status.trainer_status.as_ref());
        let (Some(status), Some(uid)) = (status, job.uid()) else {
            return;
        };
        if job.is_finished() {
            return;
        }
        self.begin(&uid, &Key::of(job));
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let new = live.get_mut(&uid).is_some_and(|live| {
            let new = live.reported.take(status, |_| true);
            if new {
                let time = status.last_updated_time.as_ref().map(|time| time.0);
                live.pulse.heard(0, time);
            }
            new
        });
        if !new {
            return;
        }
        let written = serde_json::to_string(status)
            .map_err(std::io::Error::other)
            .and_then(|line| {
                std::fs::create_dir_all(self.folder(&uid))?;
                let mut file = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(self.reports_path(&uid))?;
                file.write_all(format!("{line}\n").as_bytes())
            });
        if let Err(error) = written {
            tracing::warn!(uid, %error, "failed to keep a report of progress");
        }
    }

    /// What is wanted of the reports of a job, from its file.
    pub(super) fn read_reports(
        &self,
        uid: &str,
        points: usize,
        wanted: impl Fn(&Point) -> bool,
    ) -> Reported {
        let mut reported = Reported::new(points);
        let Ok(file) = std::fs::File::open(self.reports_path(uid)) else {
            return reported;
        };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            if let Ok(status) = serde_json::from_str(&line) {
                reported.take(&status, &wanted);
            }
        }
        reported
    }

    fn reports_path(&self, uid: &str) -> PathBuf {
        self.folder(uid).join("reports")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::POINTS;
    use super::*;
    use crate::model::MetricValue;

    fn job(time: &str, loss: &str) -> TrainJob {
        serde_json::from_value(json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": { "name": "demo", "namespace": "team", "uid": "u" },
            "spec": { "runtimeRef": { "name": "torch" } },
            "status": { "trainerStatus": { "progressPercentage": 10, "lastUpdatedTime": time,
                        "metrics": [{ "name": "loss", "value": loss }, { "name": "note", "value": "warm" }] } },
        }))
        .unwrap()
    }

    #[test]
    fn reports_become_a_curve_that_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        book.report(&job("2026-01-01T00:00:00.5+00:00", "2.5"));
        book.report(&job("2026-01-01T00:00:00.5+00:00", "2.5"));
        book.report(&job("2026-01-01T00:00:06Z", "1.5"));
        book.report(&job("2026-01-01T00:00:01Z", "9"));
        let curve = |book: &Logbook| -> Vec<MetricValue> {
            let metrics = book.metrics("u", POINTS).metrics;
            assert_eq!((metrics.len(), metrics[0].name.as_str()), (1, "loss"));
            metrics[0].points.iter().map(|point| point.value).collect()
        };
        let want = [2.5, 1.5].map(MetricValue::from);
        assert_eq!(curve(&book), want);
        drop(book);
        assert_eq!(curve(&Logbook::open(folder.path()).unwrap()), want);
    }
}
