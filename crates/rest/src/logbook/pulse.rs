//! The signs of life of a job: when it last said anything, and in which rhythm it progresses.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Logbook;
use crate::stall::Rhythm;
use crate::world::Key;

pub(super) struct Pulse {
    /// By our own clock: those of nodes may differ.
    heard: Instant,
    workers: BTreeMap<i64, Beat>,
}

#[derive(Default)]
struct Beat {
    rhythm: Rhythm,
    last: Option<Timestamp>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            heard: Instant::now(),
            workers: BTreeMap::new(),
        }
    }
}

impl Pulse {
    /// A worker has said something; if that was progress, when.
    pub(super) fn heard(&mut self, worker: i64, step: Option<Timestamp>) {
        self.heard = Instant::now();
        let Some(time) = step else { return };
        let beat = self.workers.entry(worker).or_default();
        if let Some(last) = beat.last.filter(|last| *last < time) {
            let gap = Duration::try_from(time.duration_since(last)).unwrap_or_default();
            beat.rhythm.longest = beat.rhythm.longest.max(gap);
        }
        // What is drawn more than once at a moment is one step.
        if beat.last != Some(time) {
            beat.rhythm.steps = beat.rhythm.steps.saturating_add(1);
        }
        beat.last = Some(time);
    }

    /// A worker begins again, with all that is slow at the beginning.
    pub(super) fn restart(&mut self, worker: i64) {
        self.heard = Instant::now();
        self.workers.remove(&worker);
    }

    /// That of the worker that tells most.
    fn rhythm(&self) -> Rhythm {
        let rhythms = self.workers.values().map(|beat| beat.rhythm);
        rhythms
            .max_by_key(|rhythm| rhythm.steps)
            .unwrap_or_default()
    }
}

/// A job that has said nothing for a while.
pub(crate) struct Silence {
    pub(crate) uid: String,
    pub(crate) key: Key,
    pub(crate) heard: Instant,
    pub(crate) rhythm: Rhythm,
}

impl Logbook {
    /// When a job whose log is written last said anything.
    pub(crate) fn heard(&self, uid: &str) -> Option<Instant> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(uid).map(|live| live.pulse.heard)
    }

    /// The jobs whose logs are written, with their silences.
    pub(crate) fn silences(&self) -> Vec<Silence> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let silences = live.iter().map(|(uid, live)| Silence {
            uid: uid.clone(),
            key: live.key.clone(),
            heard: live.pulse.heard,
            rhythm: live.pulse.rhythm(),
        });
        silences.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rhythm_is_that_of_the_worker_that_tells_most_since_its_start() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let mut pulse = Pulse::default();
        for second in [1, 2, 2, 9, 10] {
            pulse.heard(0, at(second));
        }
        pulse.heard(0, None);
        pulse.heard(1, at(500));
        let want = Rhythm {
            steps: 4,
            longest: Duration::from_secs(7),
        };
        assert_eq!(pulse.rhythm(), want);
        pulse.restart(0);
        assert_eq!(pulse.rhythm().steps, 1);
    }
}
