//! What happens when our own code panics: it is logged, and the rest goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use astrago_net::supervise::{keep, message};
use futures::FutureExt as _;

use crate::server::Core;
use crate::store::Observer;

/// Runs a task until it ends by itself; one that panics is begun again.
pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    core: &Core,
    task: impl Fn() -> F + Send + 'static,
) {
    tokio::spawn(keep(name, core.stopping.clone(), task));
}

/// Runs a task that cannot be restarted, as what it was sent is gone with it. When it panics, `/readyz` names it.
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
                "a task panicked and is gone until the server restarts"
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
