//! What happens when our own code panics: it is logged, and the rest goes on.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// Between a task's end and its next beginning, so that a bug that strikes at once does not spin.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a task until it ends by itself or is stopped; one that panics is begun again.
pub async fn keep<F: Future<Output = ()> + Send>(
    name: &'static str,
    stop: CancellationToken,
    task: impl Fn() -> F + Send,
) {
    while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
        let detail = message(&*panic);
        tracing::error!(task = name, detail, "a task panicked and is begun again");
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_says_what_it_said() {
        let panic = std::panic::catch_unwind(|| assert_eq!(1, 2, "not {}", "equal")).unwrap_err();
        assert!(message(&*panic).contains("not equal"));
    }

    #[tokio::test]
    async fn a_task_that_panics_is_begun_again_until_it_ends() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let kept = keep("one", CancellationToken::new(), move || {
            let earlier = count.fetch_add(1, Ordering::Relaxed);
            async move { earlier.checked_sub(2).map(drop).expect("a bug") }
        });
        kept.await;
        assert_eq!(begun.load(Ordering::Relaxed), 3);
    }
}
