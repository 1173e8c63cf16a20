//! The curves of a job: an overview in memory as long as it runs, then in a file; every point on the disk.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::points;
use super::thinned::{Point, Thinned};
use super::{Attempt, Logbook, Most};
use crate::model::{LogLine, Metric, MetricPoint, Progress};
use crate::progress::Reader;

/// Points of one curve in an overview.
pub(crate) const POINTS: usize = 500;

/// Points of all curves of one job, in an overview or an answer.
const POINTS_OF_ALL: usize = 100_000;

/// Metrics of one job; what else it prints is counted and not kept.
const NAMES: usize = 100;

/// The metrics of a job with their curves.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Curves {
    pub(crate) metrics: Vec<Metric>,
    /// Values of metrics beyond the bound.
    pub(crate) left_out: u64,
}

impl Curves {
    /// With at most about so many points in each curve.
    fn thinned(mut self, most: usize) -> Self {
        for metric in &mut self.metrics {
            if metric.points.len() > most {
                let mut gathered = Gathered::new(most);
                for point in &metric.points {
                    gathered.add("", point.worker, point.into());
                }
                metric.points = gathered
                    .curves
                    .remove("")
                    .map_or_else(Vec::new, |workers| shown(&workers));
            }
        }
        self
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Range {
    Steps(f64, f64),
    Times(Timestamp, Timestamp),
}

impl Range {
    fn contains(&self, point: &Point) -> bool {
        match self {
            Self::Steps(from, to) => point.step.is_some_and(|step| (*from..=*to).contains(&step)),
            Self::Times(from, to) => (*from..=*to).contains(&point.time),
        }
    }
}

/// Curves as their points come.
pub(super) struct Gathered {
    /// By name and worker.
    curves: BTreeMap<String, BTreeMap<i64, Thinned>>,
    /// How many curves there are, and how many points each may have.
    count: usize,
    points: usize,
    left_out: u64,
}

impl Gathered {
    pub(super) fn new(points: usize) -> Self {
        Self {
            curves: BTreeMap::new(),
            count: 0,
            points,
            left_out: 0,
        }
    }

    /// Takes a point; tells whether it was one too many.
    pub(super) fn add(&mut self, name: &str, worker: i64, point: Point) -> bool {
        if !self.curves.contains_key(name) {
            if self.curves.len() >= NAMES {
                self.left_out += 1;
                return false;
            }
            self.curves.insert(name.to_owned(), BTreeMap::new());
        }
        let Some(workers) = self.curves.get_mut(name) else {
            return false;
        };
        if let Some(curve) = workers.get_mut(&worker) {
            curve.push(point);
            return true;
        }
        let mut curve = Thinned::new(self.points);
        curve.push(point);
        workers.insert(worker, curve);
        self.count += 1;
        if self.count * self.points > POINTS_OF_ALL && self.points > 4 {
            self.points /= 2;
            let all = self.curves.values_mut().flat_map(BTreeMap::values_mut);
            all.for_each(|curve| curve.shrink(self.points));
        }
        true
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.curves.contains_key(name)
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Each metric with the curve of its first worker, who speaks for all.
    pub(super) fn of_first_workers(&self) -> impl Iterator<Item = (&str, &Thinned)> {
        let all = self.curves.iter();
        all.filter_map(|(name, workers)| Some((name.as_str(), workers.values().next()?)))
    }

    /// The metrics, each with its curve if that is wanted.
    pub(super) fn metrics(&self, with_points: bool) -> Vec<Metric> {
        let metrics = self.curves.iter().filter_map(|(name, workers)| {
            // Rank 0 speaks for all, as it does in most programs.
            let value = workers.values().next()?.last()?.value.into();
            let points = if with_points {
                shown(workers)
            } else {
                Vec::new()
            };
            let name = name.clone();
            Some(Metric {
                name,
                value,
                points,
            })
        });
        metrics.collect()
    }
}

fn shown(workers: &BTreeMap<i64, Thinned>) -> Vec<MetricPoint> {
    let of_worker = |(worker, curve): (&i64, &Thinned)| {
        let worker = *worker;
        curve.points().into_iter().map(move |point| MetricPoint {
            time: point.time,
            worker,
            step: point.step,
            value: point.value.into(),
        })
    };
    workers.iter().flat_map(of_worker).collect()
}

impl From<&MetricPoint> for Point {
    fn from(point: &MetricPoint) -> Self {
        Self {
            time: point.time,
            step: point.step,
            value: point.value.into(),
        }
    }
}

/// The metrics of one job as its log grows.
pub(super) struct Metrics {
    readers: BTreeMap<i64, Reader>,
    gathered: Gathered,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            readers: BTreeMap::new(),
            gathered: Gathered::new(POINTS),
        }
    }
}

impl Metrics {
    /// A worker starts again, and nothing that it printed before says where it stands.
    pub(super) fn restart(&mut self, worker: i64) {
        self.readers.insert(worker, Reader::default());
    }

    /// Takes in a line, and hands on its points; whether that is progress. A progress bar draws many times
    /// on one.
    pub(super) fn line(&mut self, line: &LogLine, mut each: impl FnMut(&str, Point)) -> bool {
        let mut moved = false;
        let time = line.time.unwrap_or(Timestamp::UNIX_EPOCH);
        for text in line.text.split('\r').filter(|text| !text.is_empty()) {
            moved |= self.text(time, line.worker, text, &mut each);
        }
        moved
    }

    /// Takes in what one line shows at a moment; whether that is progress.
    pub(super) fn text(
        &mut self,
        time: Timestamp,
        worker: i64,
        text: &str,
        mut each: impl FnMut(&str, Point),
    ) -> bool {
        let reader = self.readers.entry(worker).or_default();
        let before = reader.place();
        let metrics = reader.line(time, text);
        let moved = !metrics.is_empty() || reader.place() != before;
        for (name, step, value) in metrics {
            let point = Point { time, step, value };
            if self.gathered.add(&name, worker, point) {
                each(&name, point);
            }
        }
        moved
    }

    pub(super) fn gathered(&self) -> &Gathered {
        &self.gathered
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.readers.values().find_map(Reader::progress)
    }

    pub(super) fn all(&self, with_points: bool) -> Curves {
        Curves {
            metrics: self.gathered.metrics(with_points),
            left_out: self.gathered.left_out(),
        }
    }
}

impl Logbook {
    /// All metrics of a job, with at most about so many points in each curve.
    pub(crate) fn metrics(&self, uid: &str, points: usize) -> Curves {
        if points > POINTS {
            return self.gather(uid, None, points);
        }
        self.overview(uid, true).thinned(points)
    }

    /// All metrics of a job, without their curves.
    pub(crate) fn latest_values(&self, uid: &str) -> Curves {
        let mut curves = self.overview(uid, false);
        curves
            .metrics
            .iter_mut()
            .for_each(|metric| metric.points.clear());
        curves
    }

    /// A part of the curves, as exact as so many points allow.
    pub(crate) fn part(&self, uid: &str, range: &Range, points: usize) -> Curves {
        self.gather(uid, Some(range), points)
    }

    pub(super) fn overview(&self, uid: &str, with_points: bool) -> Curves {
        if let Some(live) = self
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(uid)
        {
            let reported = &live.reported;
            return reported.before(live.metrics.all(with_points), with_points);
        }
        if let Some(kept) = self.kept_curves(uid) {
            return kept;
        }
        let curves = self.gather(uid, None, POINTS);
        self.keep_curves(uid, &curves);
        curves
    }

    /// The curves from every point on the disk.
    fn gather(&self, uid: &str, range: Option<&Range>, points: usize) -> Curves {
        let wanted = |point: &Point| range.is_none_or(|range| range.contains(point));
        let mut gathered = Gathered::new(points);
        let mut left_out = 0;
        for attempt in self.attempts(uid) {
            let done = self.each_point(uid, &attempt, |name, point| {
                if wanted(&point) {
                    gathered.add(name, attempt.worker, point);
                }
            });
            match done {
                Ok(count) => left_out += count,
                Err(error) => tracing::warn!(uid, %error, "failed to read the points of a curve"),
            }
        }
        let read = Curves {
            metrics: gathered.metrics(true),
            left_out: left_out + gathered.left_out(),
        };
        self.read_reports(uid, points, wanted).before(read, true)
    }

    /// Every point of an attempt, from its file or, where there is none yet, from its log; returns how many
    /// values of the log were left out.
    fn each_point(
        &self,
        uid: &str,
        attempt: &Attempt,
        mut each: impl FnMut(&str, Point),
    ) -> io::Result<u64> {
        let path = self.points_path(uid, attempt);
        if points::read(&path, &mut each)? {
            return Ok(0);
        }
        // Whoever records a log writes the file, too.
        let draft = path.with_extension("points.new");
        let mut writer = self
            .is_complete(uid, attempt)
            .then(|| points::Writer::create(draft.clone()));
        let mut metrics = Metrics::default();
        let mut position = 0;
        loop {
            let (lines, _) = self.forwards(uid, attempt, position, Most::lines(10_000))?;
            let Some(last) = lines.last() else { break };
            position = last.end;
            for placed in &lines {
                metrics.line(&placed.line, |name, point| {
                    if let Some(writer) = &mut writer {
                        writer.add(name, point);
                    }
                    each(name, point);
                });
            }
        }
        if let Some(mut writer) = writer {
            writer.flush();
            // Without the draft there was a failure, which has been told.
            let _ = std::fs::rename(draft, path);
        }
        Ok(metrics.gathered.left_out())
    }

    pub(super) fn points_path(&self, uid: &str, attempt: &Attempt) -> PathBuf {
        self.path(uid, attempt).with_extension("points")
    }

    /// The curves of a job that is over.
    fn kept_curves(&self, uid: &str) -> Option<Curves> {
        let bytes = std::fs::read(self.curves_path(uid)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Only a log that is complete has curves to keep.
    pub(super) fn keep_curves(&self, uid: &str, curves: &Curves) {
        if self.attempts(uid).is_empty() || !self.all_complete(uid) {
            return;
        }
        let draft = self.folder(uid).join("curves.new");
        let kept = serde_json::to_vec(curves)
            .map_err(io::Error::from)
            .and_then(|bytes| std::fs::write(&draft, bytes))
            .and_then(|()| std::fs::rename(&draft, self.curves_path(uid)));
        if let Err(error) = kept {
            tracing::warn!(uid, %error, "failed to keep curves; they will be gathered again");
        }
    }

    fn curves_path(&self, uid: &str) -> PathBuf {
        self.folder(uid).join("curves")
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A job whose loss falls as 1/step, and jumps once.
    fn long_job(steps: u32) -> (tempfile::TempDir, Logbook) {
        let folder = tempfile::tempdir().unwrap();
        let book = Logbook::open(folder.path()).unwrap();
        let mut log = String::new();
        for step in 1..=steps {
            let loss = if step == 12_345 {
                7.0
            } else {
                1.0 / f64::from(step)
            };
            let second = step / 1000;
            writeln!(
                log,
                "2026-01-01T00:{:02}:{:02}Z step {step} loss={loss}",
                second / 60,
                second % 60
            )
            .unwrap();
        }
        std::fs::create_dir_all(book.folder("u")).unwrap();
        std::fs::write(book.path("u", &Attempt::of_test(0, 1, 0)), log).unwrap();
        (folder, book)
    }

    fn steps(curves: &Curves) -> Vec<f64> {
        let points = curves.metrics[0].points.iter();
        points.filter_map(|point| point.step).collect()
    }

    #[test]
    fn a_long_curve_is_shown_from_its_beginning_to_its_end() {
        let (_folder, book) = long_job(30_000);
        let steps = steps(&book.metrics("u", 200));
        assert!(steps.len() <= 202, "{}", steps.len());
        assert_eq!((steps[0], steps[steps.len() - 1]), (1.0, 30_000.0));
        assert!(steps.contains(&12_345.0), "the jump");
        let widest = steps
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(0.0, f64::max);
        assert!(widest <= 2.0 * 30_000.0 / 50.0, "a gap of {widest} steps");
    }

    #[test]
    fn a_part_of_a_curve_is_exact() {
        let (_folder, book) = long_job(30_000);
        book.complete("u", &Attempt::of_test(0, 1, 0));
        let part = || steps(&book.part("u", &Range::Steps(20_000.0, 20_009.5), 200));
        let want: Vec<f64> = (20_000..20_010_u32).map(f64::from).collect();
        assert_eq!(part(), want, "from the log");
        std::fs::write(book.path("u", &Attempt::of_test(0, 1, 0)), "").unwrap();
        assert_eq!(part(), want, "from the points that were kept then");
        let second = |text: &str| text.parse::<Timestamp>().unwrap();
        let times = Range::Times(
            second("2026-01-01T00:00:20Z"),
            second("2026-01-01T00:00:20Z"),
        );
        assert_eq!(book.part("u", &times, 2000).metrics[0].points.len(), 1000);
    }

    #[test]
    fn many_curves_share_the_room() {
        let mut gathered = Gathered::new(POINTS);
        for worker in 0..1000 {
            for step in 0..1000_u32 {
                let time = Timestamp::UNIX_EPOCH;
                let step = Some(f64::from(step));
                gathered.add(
                    "loss",
                    worker,
                    Point {
                        time,
                        step,
                        value: 1.0,
                    },
                );
            }
        }
        assert!(gathered.metrics(true)[0].points.len() < 2 * POINTS_OF_ALL);
    }
}
