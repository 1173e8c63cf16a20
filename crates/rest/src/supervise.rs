//! What happens when our own code panics: it is logged, and the rest goes on.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Between a task's end and its next beginning, so that a bug that strikes at once does not spin.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a task until it ends by itself; one that panics is begun anew.
pub(crate) fn spawn<F: Future<Output = ()> + Send>(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    name: &'static str,
    task: impl Fn() -> F + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
            let detail = message(&*panic);
            tracing::error!(task = name, detail, "a task panicked and is begun anew");
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => return,
            }
        }
    });
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_anew_until_it_ends() {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        spawn(&tasks, &stop, "one", move || {
            let earlier = count.fetch_add(1, Ordering::Relaxed);
            async move { earlier.checked_sub(2).map(drop).expect("a bug") }
        });
        tasks.close();
        tasks.wait().await;
        assert_eq!(begun.load(Ordering::Relaxed), 3);
    }
}
