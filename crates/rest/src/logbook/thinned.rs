//! A curve of any length in bounded room, with nothing made up: whatever is left out lies between two
//! points that are kept.
//!
//! Points come in order and fill stretches of equal length; when there are too many stretches, neighbours
//! become one. Each keeps its least and its greatest value, and one that is not finite.

use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) time: Timestamp,
    pub(super) step: Option<f64>,
    pub(super) value: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Thinned {
    stretches: Vec<Stretch>,
    /// How many points there may be besides the two ends.
    most: usize,
    /// How many points a stretch has; the last one may have fewer.
    length: u64,
    count: u64,
    first: Option<Point>,
    last: Option<Point>,
}

/// Points with their places in the curve.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    least: Option<(u64, Point)>,
    greatest: Option<(u64, Point)>,
    not_finite: Option<(u64, Point)>,
}

impl Thinned {
    /// A curve of about as many points: never more than `points` and its two ends, except that of those that
    /// are not finite there may be half as many again.
    pub(super) fn new(points: usize) -> Self {
        Self {
            stretches: Vec::new(),
            most: points.max(4),
            length: 1,
            count: 0,
            first: None,
            last: None,
        }
    }

    pub(super) fn push(&mut self, point: Point) {
        let place = self.count;
        self.count += 1;
        self.first.get_or_insert(point);
        self.last = Some(point);
        let full = |curve: &Self| place >= curve.stretches.len() as u64 * curve.length;
        while full(self) && self.stretches.len() >= self.room() {
            self.halve();
        }
        if full(self) {
            self.stretches.push(Stretch::default());
        }
        if let Some(stretch) = self.stretches.last_mut() {
            stretch.take((place, point));
        }
    }

    fn halve(&mut self) {
        let pairs = self.stretches.chunks(2);
        let pairs = pairs.map(|pair| {
            pair.iter()
                .copied()
                .reduce(Stretch::and)
                .unwrap_or_default()
        });
        self.stretches = pairs.collect();
        self.length *= 2;
    }

    /// Leaves room for fewer points.
    pub(super) fn shrink(&mut self, points: usize) {
        self.most = points.max(4);
        while self.stretches.len() > self.room() {
            self.halve();
        }
    }

    /// A stretch of a single point is one point, any other is two.
    fn room(&self) -> usize {
        if self.length == 1 {
            self.most
        } else {
            self.most / 2
        }
    }

    pub(super) fn last(&self) -> Option<Point> {
        self.last
    }

    pub(super) fn points(&self) -> Vec<Point> {
        let mut kept: Vec<(u64, Point)> = Vec::new();
        kept.extend(self.first.map(|point| (0, point)));
        for stretch in &self.stretches {
            let from = kept.len();
            let all = [stretch.least, stretch.greatest, stretch.not_finite];
            kept.extend(all.into_iter().flatten());
            kept[from..].sort_by_key(|(place, _)| *place);
        }
        kept.extend(self.last.map(|point| (self.count - 1, point)));
        kept.dedup_by_key(|(place, _)| *place);
        kept.into_iter().map(|(_, point)| point).collect()
    }
}

impl Stretch {
    fn take(&mut self, point: (u64, Point)) {
        let value = point.1.value;
        if !value.is_finite() {
            self.not_finite.get_or_insert(point);
            return;
        }
        if self.least.is_none_or(|(_, least)| value < least.value) {
            self.least = Some(point);
        }
        if self.greatest.is_none_or(|(_, most)| value > most.value) {
            self.greatest = Some(point);
        }
    }

    fn and(mut self, next: Self) -> Self {
        let all = [next.least, next.greatest, next.not_finite];
        all.into_iter().flatten().for_each(|point| self.take(point));
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a step is a place here"
    )]
    fn place(point: &Point) -> usize {
        point.step.unwrap_or_default() as usize
    }

    fn thinned(values: &[f64], points: usize) -> Vec<Point> {
        let mut curve = Thinned::new(points);
        for (step, value) in (0_u32..).zip(values) {
            curve.push(Point {
                time: Timestamp::UNIX_EPOCH,
                step: Some(f64::from(step)),
                value: *value,
            });
        }
        curve.points()
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        let value = prop_oneof![20 => -1e6..1e6_f64, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
        prop::collection::vec(value, 0..800)
    }

    proptest! {
        #[test]
        fn nothing_lies_outside_of_what_is_kept(values in values(), points in 4_usize..300) {
            let kept = thinned(&values, points);
            prop_assert!(kept.is_sorted_by(|one, next| place(one) < place(next)), "out of order, or twice");
            for point in &kept {
                let value = values[place(point)];
                prop_assert!(value.to_bits() == point.value.to_bits(), "made up");
            }
            let finite = |value: &&f64| value.is_finite();
            prop_assert!(kept.iter().filter(|point| point.value.is_finite()).count() <= points + 2);
            if values.len() <= points {
                prop_assert_eq!(kept.len(), values.len(), "there was room for all");
            }
            let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
                return Ok(());
            };
            prop_assert_eq!((place(first), place(last)), (0, values.len() - 1));
            // An extreme of any length of the curve is met by one nearby: within two stretches, each of which is
            // at most four times as long as an even division.
            let near = 8 * values.len() / points + 2;
            for (at, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let around = kept.iter().filter(|point| place(point).abs_diff(at) <= near);
                let around: Vec<f64> = around.map(|point| point.value).filter(|value| value.is_finite()).collect();
                prop_assert!(around.iter().any(|kept| kept >= value) && around.iter().any(|kept| kept <= value));
            }
            let every = |pick: fn(f64, f64) -> f64| values.iter().filter(finite).copied().reduce(pick);
            let shown = |pick: fn(f64, f64) -> f64| {
                kept.iter().map(|point| point.value).filter(|value| value.is_finite()).reduce(pick)
            };
            prop_assert_eq!(every(f64::min), shown(f64::min));
            prop_assert_eq!(every(f64::max), shown(f64::max));
            prop_assert_eq!(
                values.iter().any(|value| !value.is_finite()),
                kept.iter().any(|point| !point.value.is_finite())
            );
        }
    }

    #[test]
    fn all_are_kept_while_there_is_room() {
        for points in 4..40 {
            assert_eq!(thinned(&vec![1.0; points], points).len(), points);
        }
    }

    #[test]
    fn what_shrinks_keeps_its_extremes() {
        let mut curve = Thinned::new(200);
        for step in 0..1000_u32 {
            let value = if step == 501 { 7.0 } else { 1.0 };
            curve.push(Point {
                time: Timestamp::UNIX_EPOCH,
                step: Some(f64::from(step)),
                value,
            });
        }
        curve.shrink(10);
        let kept = curve.points();
        assert!(kept.len() <= 12, "{}", kept.len());
        assert!(kept.iter().any(|point| point.value > 6.0));
    }
}
