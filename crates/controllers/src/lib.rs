//! The control loops that make a TrainJob run, on any Kubernetes API.
//!
//! ```text
//! TrainJob --train_job--> JobSet --job_set--> Job --job--> Pod --scheduler--> Pod on a node
//! ```
//!
//! Each controller is one level of this chain and knows only its neighbours; what it builds comes from
//! `astrago_plan`, what it decides from pure functions beside it. All of them read the same [`context::Mirrors`]
//! (one watch per kind) and work off their own [`queue::Queue`].
//!
//! A reconcile has five steps, each in its own file: fetch, validate, plan, apply, status. Only the first and the
//! last two do I/O.
//!
//! On a cluster whose own controllers already do part of this, [`Options`] says which of ours run.

pub mod clock;
pub mod context;
pub mod controller;
pub mod events;
pub mod leader;
pub mod mirror;
pub mod options;
pub mod persistent_volume_claim;
pub mod queue;
pub mod report;
pub mod scheduler;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

pub use crate::clock::{Clock, SharedClock, SystemClock};
pub use crate::leader::Election;
pub use crate::options::Options;

use crate::context::Context;

/// Runs the chosen controllers until cancelled. With [`Options::election`], only while holding the lease.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    match options.election.clone() {
        None => work(client, &options, stop).await,
        Some(election) => {
            let clock = Arc::clone(&options.clock);
            leader::lead(client.clone(), clock, election, stop, |term| {
                work(client.clone(), &options, term)
            })
            .await;
        }
    }
}

/// One term: fresh mirrors, the tasks, and an orderly end.
async fn work(client: Client, options: &Options, stop: CancellationToken) {
    let (context, notices) = Context::new(
        client.clone(),
        Arc::clone(&options.clock),
        Arc::clone(&options.metrics),
    );
    let mut tasks: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    tasks.push(Box::pin(events::write(
        client,
        Arc::clone(&options.clock),
        notices,
        stop.clone(),
    )));
    if options.scheduler {
        // They subscribe to the mirrors, so they come before the watches start.
        tasks.push(Box::pin(scheduler::run(Arc::clone(&context), stop.clone())));
        tasks.push(Box::pin(persistent_volume_claim::run(
            &context,
            stop.clone(),
        )));
    }
    follow(&context, &stop, &tasks);
    while tasks.next().await.is_some() {}
}

/// Starts the watches.
fn follow<'a>(
    context: &'a Context,
    stop: &CancellationToken,
    tasks: &FuturesUnordered<BoxFuture<'a, ()>>,
) {
    let client = || context.client.clone();
    tasks.push(Box::pin(
        context.mirrors.jobs.run(Api::all(client()), stop.clone()),
    ));
    tasks.push(Box::pin(
        context.mirrors.pods.run(Api::all(client()), stop.clone()),
    ));
    tasks.push(Box::pin(
        context.mirrors.nodes.run(Api::all(client()), stop.clone()),
    ));
}
