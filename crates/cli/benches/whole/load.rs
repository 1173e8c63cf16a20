//! Many clients that send one request after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::Result;

/// How long each request took, and all together.
pub(crate) struct Summary {
    times: Vec<Duration>,
    elapsed: Duration,
}

impl Summary {
    /// Of times that say nothing about a rate.
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            times,
            elapsed: Duration::ZERO,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index into what was counted"
    )]
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times[(last as f64 * share) as usize]
    }
}

/// Sends `count` requests; each is told its number.
pub(crate) async fn send_all<F>(
    clients: usize,
    count: usize,
    send: impl Fn(reqwest::Client, usize) -> F,
) -> Result<Summary>
where
    F: Future<Output = Result>,
{
    run(clients, |number, _| number < count, send).await
}

/// Sends requests for as long as `time`.
pub(crate) async fn send_for<F>(
    clients: usize,
    time: Duration,
    send: impl Fn(reqwest::Client, usize) -> F,
) -> Result<Summary>
where
    F: Future<Output = Result>,
{
    run(clients, |_, elapsed| elapsed < time, send).await
}

async fn run<F>(
    clients: usize,
    goes_on: impl Fn(usize, Duration) -> bool,
    send: impl Fn(reqwest::Client, usize) -> F,
) -> Result<Summary>
where
    F: Future<Output = Result>,
{
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let all = (0..clients).map(|_| {
        let (next, send, goes_on) = (Arc::clone(&next), &send, &goes_on);
        async move {
            // A connection of its own.
            let client = client()?;
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if !goes_on(number, begin.elapsed()) {
                    return Result::Ok(times);
                }
                let sent = Instant::now();
                send(client.clone(), number).await?;
                times.push(sent.elapsed());
            }
        }
    });
    let mut times: Vec<Duration> = try_join_all(all).await?.into_iter().flatten().collect();
    let elapsed = begin.elapsed();
    times.sort_unstable();
    Ok(Summary { times, elapsed })
}

pub(crate) fn client() -> Result<reqwest::Client> {
    // The server's certificate is its own, and what is measured is not the client's care.
    let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true);
    Ok(client.build()?)
}
