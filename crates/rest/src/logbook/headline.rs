//! The one metric of a job that a list has room for.

use std::sync::PoisonError;

use super::Logbook;
use super::curves::Gathered;
use super::thinned::{Point, Thinned};
use crate::model::{Headline, Metric};

/// Values of a curve that is as wide as a word.
const VALUES: usize = 24;

/// Names of what is set before the training, which is printed but does not move.
#[rustfmt::skip]
const SETTINGS: [&str; 13] = [
    "lr", "learning_rate", "epoch", "epochs", "step", "steps", "seed", "rank", "world_size",
    "worker", "workers", "node", "nodes",
];

impl Logbook {
    /// The metric that most look for first: the loss, or else the first that moves and is no setting.
    pub(crate) fn headline(&self, uid: &str) -> Option<Headline> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.get(uid) {
            // A report is more exact than a log line.
            let all = [live.reported.gathered(), live.metrics.gathered()];
            let curves = all.into_iter().flat_map(Gathered::of_first_workers);
            return best(curves.map(|(name, curve)| (name, curve.points())));
        }
        drop(live);
        let metrics = self.overview(uid, true).metrics;
        best(metrics.iter().map(|metric| (&*metric.name, first(metric))))
    }
}

/// The points of the first worker, who speaks for all.
fn first(metric: &Metric) -> Vec<Point> {
    let worker = metric.points.first().map(|point| point.worker);
    let points = metric.points.iter();
    points
        .filter(|point| Some(point.worker) == worker)
        .map(Point::from)
        .collect()
}

fn best<'a>(curves: impl Iterator<Item = (&'a str, Vec<Point>)>) -> Option<Headline> {
    let curves = curves.filter(|(_, points)| points.len() > 1);
    let (name, points) = curves.min_by_key(|(name, _)| rank(name))?;
    let mut thinned = Thinned::new(VALUES);
    for point in &points {
        thinned.push(*point);
    }
    let values = thinned.points().into_iter().map(|point| point.value);
    Some(Headline {
        name: name.to_owned(),
        value: points.last()?.value.into(),
        curve: values
            .filter(|value| value.is_finite())
            .map(short)
            .collect(),
    })
}

fn rank(name: &str) -> u8 {
    let name = name.to_lowercase();
    if name.contains("loss") {
        0
    } else if SETTINGS.contains(&name.as_str()) || name.replace('_', "").contains("batchsize") {
        2
    } else {
        1
    }
}

/// Four digits are more than a curve of this size shows.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        let point = |value: &f64| Point {
            time: Timestamp::UNIX_EPOCH,
            step: None,
            value: *value,
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn the_loss_comes_first_then_what_moves_and_a_single_number_never() {
        let all = [
            ("accuracy", points(&[0.1, 0.9])),
            ("batch_size", points(&[64.0, 64.0])),
            ("val_loss", points(&[2.0, 1.0])),
            ("train_loss_once", points(&[2.0])),
        ];
        let named = |skipped: usize| {
            let rest = all.iter().cycle().skip(skipped).take(4 - skipped);
            best(rest.cloned()).map(|headline| headline.name)
        };
        assert_eq!(named(0).as_deref(), Some("val_loss"));
        let without = [all[1].clone(), all[0].clone(), all[3].clone()];
        let best = best(without.into_iter()).unwrap();
        assert_eq!(
            (best.name.as_str(), best.curve),
            ("accuracy", vec![0.1, 0.9])
        );
        assert_eq!(named(3), None);
    }

    #[test]
    fn a_long_curve_keeps_its_ends_and_its_extremes_in_few_values() {
        let mut values: Vec<f64> = (1..=10_000).map(|step| 1.0 / f64::from(step)).collect();
        values[5_000] = 7.0;
        values[6_000] = f64::NAN;
        let headline = best([("loss", points(&values))].into_iter()).unwrap();
        assert!(
            headline.curve.len() <= VALUES + 2,
            "{}",
            headline.curve.len()
        );
        assert_eq!(headline.curve.first(), Some(&1.0));
        assert_eq!(headline.curve.last(), Some(&0.0001));
        assert!(headline.curve.contains(&7.0));
        assert_eq!(headline.value, 0.0001.into());
    }
}
