//! Drives one controller: takes keys from its queue, runs a limited number of reconciles at once, and decides from
//! the error when a failed one is tried again.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use astrago_api::ObjectKey;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::queue::Queue;
use crate::report;

/// When to look at an object again, if nothing about it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Only a change can make work.
    AwaitChange,
    /// At this moment something falls due.
    At(Timestamp),
}

impl From<Option<Timestamp>> for Next {
    fn from(moment: Option<Timestamp>) -> Self {
        moment.map_or(Self::AwaitChange, Self::At)
    }
}

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Trying again cannot help until the object changes.
    Never,
    /// The world moved while we worked; look again at once.
    Soon,
    /// Something is out of order; try again, ever less often.
    Later,
}

/// An error of a reconcile knows its name in events and metrics, and how to go on.
pub trait Category: StdError + Send + Sync + 'static {
    /// PascalCase name of the kind of error: reason of the event, label of the metric.
    fn category(&self) -> &'static str;
    fn retry(&self) -> Retry;
    /// Whether a person should learn of it by an event. Conflicts pass on their own and are not worth one.
    fn notable(&self) -> bool {
        self.retry() != Retry::Soon
    }
}

/// How to go on after an error of the API server.
pub fn retry_of(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) if status.is_conflict() || status.is_not_found() => Retry::Soon,
        kube::Error::Api(status) if status.is_already_exists() => Retry::Soon,
        kube::Error::Api(status) if status.is_invalid() => Retry::Never,
        _ => Retry::Later,
    }
}

const SOON: Duration = Duration::from_millis(20);
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// Whoever waits for a job should not have to wait long for us to notice that the obstacle is gone.
const LAST_RETRY: Duration = Duration::from_secs(15);

/// Works on the keys of `queue` until cancelled, then lets running reconciles end.
///
/// `reconcile` is called with one key at a time per object; `name` labels metrics and logs. Retries go by real
/// time, since they are about a server out of reach and not about what objects mean.
pub async fn drive<E, F, Fut>(
    context: &Context,
    name: &'static str,
    queue: &Queue,
    workers: usize,
    stop: &CancellationToken,
    reconcile: F,
) where
    E: Category,
    F: Fn(ObjectKey) -> Fut,
    Fut: Future<Output = Result<Next, E>> + Send + 'static,
{
    let mut running: JoinSet<(ObjectKey, Result<Next, E>)> = JoinSet::new();
    let mut keys: HashMap<tokio::task::Id, ObjectKey> = HashMap::new();
    let mut failures: HashMap<ObjectKey, u32> = HashMap::new();
    let mut retries = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = running.join_next_with_id() => {
                let key = match ended {
                    Ok((id, (key, result))) => {
                        keys.remove(&id);
                        if let Some(delay) = settle(name, queue, &key, result, &mut failures) {
                            retries.push(later(delay, key.clone()));
                        }
                        key
                    }
                    // A panic is our fault; the object is tried again, slowly, and the others go on.
                    Err(panic) => {
                        let Some(key) = keys.remove(&panic.id()) else { continue };
                        // Cancelled means that the whole runtime is going down.
                        if panic.is_panic() {
                            tracing::error!(controller = name, object = %key, error = %panic, "reconcile panicked");
                        }
                        retries.push(later(LAST_RETRY, key.clone()));
                        key
                    }
                };
                queue.finish(&key);
            }
            Some(key) = retries.next() => queue.add(key),
            key = queue.next(), if running.len() < workers => {
                context.metrics.reconciled(name);
                let work = reconcile(key.clone());
                let handle = running.spawn({
                    let key = key.clone();
                    async move { (key, work.await) }
                });
                keys.insert(handle.id(), key);
            }
        }
    }
    while running.join_next().await.is_some() {}
}

async fn later(delay: Duration, key: ObjectKey) -> ObjectKey {
    tokio::time::sleep(delay).await;
    key
}

fn settle<E: Category>(
    name: &'static str,
    queue: &Queue,
    key: &ObjectKey,
    result: Result<Next, E>,
    failures: &mut HashMap<ObjectKey, u32>,
) -> Option<Duration> {
    let error = match result {
        Ok(next) => {
            failures.remove(key);
            if let Next::At(moment) = next {
                queue.add_at(key.clone(), moment);
            }
            return None;
        }
        Err(error) => error,
    };
    match error.retry() {
        Retry::Never => {
            failures.remove(key);
            None
        }
        Retry::Soon => {
            tracing::debug!(controller = name, object = %key, error = report::chain(&error), "will look again");
            Some(SOON)
        }
        Retry::Later => {
            let failed = failures.entry(key.clone()).or_default();
            *failed = failed.saturating_add(1);
            Some(back_off(*failed))
        }
    }
}

/// The delay before the next try after `failures` in a row.
fn back_off(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_RETRY.saturating_mul(doubled).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_a_limit() {
        assert_eq!(back_off(1), Duration::from_millis(250));
        assert_eq!(back_off(2), Duration::from_millis(500));
        assert_eq!(back_off(5), Duration::from_secs(4));
        assert_eq!(back_off(40), LAST_RETRY);
    }
}
