//! Time that stands still until a test moves it.

use std::sync::Arc;

use astrago_controllers::Clock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// A clock that the test sets. Clones show the same time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    now: Arc<watch::Sender<Timestamp>>,
}

impl FakeClock {
    /// A clock that shows `start`.
    pub fn at(start: Timestamp) -> Self {
        Self {
            now: Arc::new(watch::Sender::new(start)),
        }
    }

    /// Lets `seconds` pass, and wakes whoever waited for them.
    pub fn advance(&self, seconds: i64) {
        self.now.send_modify(|now| {
            *now = now
                .saturating_add(SignedDuration::from_secs(seconds))
                .expect("a moment in range");
        });
    }

    pub fn now(&self) -> Timestamp {
        *self.now.borrow()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        let keep = Arc::clone(&self.now);
        Box::pin(async move {
            // The sender is kept, so waiting cannot fail.
            let _ = now.wait_for(|now| *now >= deadline).await;
            drop(keep);
        })
    }
}
