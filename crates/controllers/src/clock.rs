//! The one source of time. Controllers never ask the operating system for the hour: they are given a
//! [`Clock`], so that a test can let a day pass in no time and see the TTL of a job fall due.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

pub use astrago_plan::after;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Tells the time and wakes sleepers.
pub trait Clock: Debug + Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Resolves once [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()>;
}

pub type SharedClock = Arc<dyn Clock>;

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A sleeper looks at the clock at least this often, because the wall clock may be set and a laptop may sleep,
/// neither of which moves the timer that a sleeping task hangs on.
const LONGEST_NAP: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let left = deadline.duration_since(Timestamp::now());
                let Ok(left) = Duration::try_from(left) else {
                    return;
                };
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }
}

/// A moment as Kubernetes writes it: whole seconds. What is stored compares equal to what is read back.
pub fn stamp(now: Timestamp) -> Time {
    Time(whole_seconds(now))
}

/// `now` without its fraction of a second.
pub fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_deadline_in_the_past_does_not_wait() {
        SystemClock.sleep_until(Timestamp::UNIX_EPOCH).await;
    }

    #[test]
    fn later_than_the_end_of_time_is_the_end_of_time() {
        assert_eq!(after(Timestamp::MAX, 10), Timestamp::MAX);
        assert_eq!(after(Timestamp::UNIX_EPOCH, 10).as_second(), 10);
    }

    #[test]
    fn stamps_have_whole_seconds() {
        let moment = Timestamp::new(12, 345).expect("a valid moment");
        assert_eq!(
            stamp(moment).0,
            Timestamp::new(12, 0).expect("a valid moment")
        );
    }
}
