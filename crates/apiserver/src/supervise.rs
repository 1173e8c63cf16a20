//! What happens when our own code panics: it is logged, and the rest goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;

use crate::core::Core;
use crate::store::Observer;

/// Between a task's end and its next beginning, so that a bug that strikes at once does not spin.
const PAUSE: Duration = Duration::from_millis(200);

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

/// Runs a task that cannot be begun anew, as what it was sent is gone with it. When it panics, `/readyz` names it.
pub(crate) fn run(
    name: &'static str,
    core: &Arc<Core>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            let detail = message(&*panic);
            tracing::error!(
                task = name,
                detail,
                "a task panicked and is gone until the server starts anew"
            );
            core.lost
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(name);
        }
    });
}

/// The tasks that are gone.
pub(crate) fn lost(core: &Core) -> Vec<&'static str> {
    core.lost
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
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
