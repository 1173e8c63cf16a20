//! The live feed of changes of jobs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::lease::Lease;
use super::{Result, glance, list};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::model::JobSummary;
use crate::view::Job;
use crate::world::Key;

/// One entry of the feed.
pub(crate) enum Item {
    Job(Box<JobSummary>),
    Deleted(Key),
    /// Too much happened at once; read the list again.
    Reset,
}

/// Changes of one job within this time are one.
const GATHER: Duration = Duration::from_millis(200);

/// Follows the jobs that the caller may see.
pub(crate) async fn follow(
    context: &Arc<Context>,
    caller: &Caller,
    token: Option<String>,
    namespace: Option<String>,
) -> Result<mpsc::Receiver<Item>> {
    list::readable(context, caller, namespace.as_deref()).await?;
    let (sender, receiver) = mpsc::channel(64);
    let (context_, caller) = (Arc::clone(context), caller.clone());
    let mut changes = context.world.changes();
    let lease = Lease {
        context: Arc::clone(context),
        caller: caller.clone(),
        token,
        access: None,
    };
    let follow = async move {
        let context = context_;
        loop {
            let mut touched = BTreeSet::new();
            let mut reset = false;
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(change) => _ = touched.insert(change.job),
                    Err(RecvError::Lagged(_)) => reset = true,
                    Err(RecvError::Closed) => return,
                },
                () = sender.closed() => return,
                () = context.stop.cancelled() => return,
            }
            tokio::time::sleep(GATHER).await;
            while let Ok(change) = changes.try_recv() {
                touched.insert(change.job);
            }
            if reset && sender.send(Item::Reset).await.is_err() {
                return;
            }
            for key in touched {
                if namespace
                    .as_ref()
                    .is_some_and(|wanted| *wanted != key.namespace)
                {
                    continue;
                }
                // Rights are asked for each time: a follower outlives a change of them.
                let access = Access::jobs("get", &key.namespace);
                if !context.gate.may(&caller, &access).await.unwrap_or(false) {
                    continue;
                }
                let job = Job::find(&context.world.mirrors, &key);
                if let Some(legacy) = job.as_ref().and_then(|job| job.legacy.as_ref()) {
                    let access = legacy.kind.access("get", &key.namespace);
                    if !context.gate.may(&caller, &access).await.unwrap_or(false) {
                        continue;
                    }
                }
                let item = match job {
                    Some(job) => Item::Job(Box::new(glance::summary(&context, &job))),
                    None => Item::Deleted(key),
                };
                if sender.send(item).await.is_err() {
                    return;
                }
            }
        }
    };
    context.tasks.spawn(async move {
        tokio::select! {
            () = follow => {}
            () = lease.ended() => {}
        }
    });
    Ok(receiver)
}
