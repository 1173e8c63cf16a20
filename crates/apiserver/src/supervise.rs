//! What happens when our own code panics: it is logged, and the rest goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;

use crate::core::Core;
use crate::store::Observer;

/// Between a task's end and its next beginning, so that a bug that strikes at once does not spin.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs a task until it ends by itself; one that panics is begun anew.
pub(crate) fn spawn<F: Future<Output = ()> + Send>(
    name: &'static str,
    core: &Core,
    task: impl Fn() -> F + Send + 'static,
) {
    let stopping = core.stopping.clone();
    tokio::spawn(async move {
        while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
            let detail = message(&*panic);
            tracing::error!(task = name, detail, "a task panicked and is begun anew");
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stopping.cancelled() => return,
            }
        }
    });
}

/// An observer whose panics end with the event that caused them.
pub(crate) fn observer(observer: Observer) -> Observer {
    Box::new(move |resource, event| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(resource, event))) {
            let (name, detail) = (&event.object.name, message(&*panic));
            tracing::error!(%resource, ?name, detail, "following a change panicked");
        }
    })
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_says_what_it_said() {
        let panic = catch_unwind(|| assert_eq!(1, 2, "not {}", "equal")).unwrap_err();
        assert!(message(&*panic).contains("not equal"));
    }
}
