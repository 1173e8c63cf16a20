//! When a broken watch is tried again.

use std::time::{Duration, Instant};

use kube::runtime::utils::Backoff;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The delays between the tries to resume a watch. kube's own grow to a minute, which is how long nobody would notice
/// that the server is back.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    failures: u32,
    last: Option<Instant>,
}

impl Resume {
    fn delay(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now - last > 2 * LONGEST_DELAY) {
            self.failures = 0;
        }
        self.last = Some(now);
        let doubled = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        FIRST_DELAY.saturating_mul(doubled).min(LONGEST_DELAY)
    }
}

impl Iterator for Resume {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.delay(Instant::now()))
    }
}

impl Backoff for Resume {
    /// Called when a relist is merely announced, which says nothing about the server; only time without an error does.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_seconds_and_are_short_again_after_a_quiet_time() {
        let mut resume = Resume::default();
        let now = Instant::now();
        let delays: Vec<Duration> = (0..9).map(|_| resume.delay(now)).collect();
        assert_eq!(delays[0], FIRST_DELAY);
        assert!(delays.is_sorted());
        assert_eq!(delays[8], LONGEST_DELAY);
        resume.reset();
        assert_eq!(resume.delay(now), LONGEST_DELAY);
        assert_eq!(resume.delay(now + 3 * LONGEST_DELAY), FIRST_DELAY);
    }
}
