//! Waiting for what must come, with an end.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// So long a test waits before it gives up. Generous, since machines that run many tests are slow.
const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(5);

/// Calls `check` until it succeeds, and returns what it found.
///
/// # Panics
/// When it does not succeed in time, with `what` and the last answer.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T, E, F, Fut>(what: &str, mut check: F) -> T
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let start = Instant::now();
    loop {
        match check().await {
            Ok(found) => return found,
            Err(last) if start.elapsed() > PATIENCE => {
                panic!("{what}: not within {PATIENCE:?}; last: {last}")
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
