//! The control loops that make a TrainJob run, on any Kubernetes API.
//!
//! ```text
//! TrainJob --train_job--> JobSet --job_set--> Job --job--> Pod --scheduler--> Pod on a node
//! PyTorchJob, TFJob, … -------------------legacy-----------> Pod
//! ```
//!
//! Each controller is one level of this chain and knows only its neighbours; what it builds comes from
//! `astrago_plan`, what it decides from pure functions beside it. All of them read the same [`astrago_mirror::Mirrors`]
//! (one watch per kind) and work off their own [`queue::Queue`].
//!
//! A reconcile has five steps, each in its own file: fetch, validate, plan, apply, status. Only the first and the
//! last two do I/O.
//!
//! On a cluster whose own controllers already do part of this, [`Options`] says which of ours run.

pub mod clock;
mod conditions;
pub mod context;
pub mod controller;
pub mod events;
mod fingerprint;
mod job;
mod job_set;
pub mod leader;
mod legacy;
mod node;
pub mod options;
mod patience;
pub mod persistent_volume_claim;
pub mod pod;
pub mod queue;
pub mod report;
pub mod scheduler;
mod service;
mod status;
mod train_job;
mod ttl_policy;

use std::sync::Arc;

use astrago_api::legacy::{JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use crate::clock::{Clock, SharedClock, SystemClock};
pub use crate::leader::Election;
pub use crate::options::Options;

use crate::context::Context;

/// Runs the chosen controllers until cancelled. With [`Options::election`], only while holding the lease.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let client = patience::patient(&client);
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

/// One term: the mirrors, the tasks, and an orderly end.
async fn work(client: Client, options: &Options, stop: CancellationToken) {
    let clock = Arc::clone(&options.clock);
    let mirrors = options.mirrors.clone().unwrap_or_default();
    let metrics = Arc::clone(&options.metrics);
    let (context, notices) = Context::new(client.clone(), clock, metrics, mirrors);
    let mut tasks: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    // Events outlive the controllers by a moment, so that the last ones are written.
    let quiet = CancellationToken::new();
    let clock = Arc::clone(&options.clock);
    let events = tokio::spawn(events::write(client, clock, notices, quiet.clone()));
    start(&context, options, &stop, &tasks);
    follow(&context, options, &stop, &tasks);
    while tasks.next().await.is_some() {}
    quiet.cancel();
    // It only ends early by a panic, which has been reported by then.
    let _ = events.await;
}

/// Starts the controllers. They subscribe to the mirrors before these are filled.
fn start<'a>(
    context: &'a Arc<Context>,
    options: &'a Options,
    stop: &CancellationToken,
    tasks: &FuturesUnordered<BoxFuture<'a, ()>>,
) {
    let (workers, shared) = (options.workers, || Arc::clone(context));
    if options.train_jobs {
        let options = options.clone();
        tasks.push(Box::pin(train_job::run(shared(), options, stop.clone())));
    }
    if options.job_sets {
        tasks.push(Box::pin(job_set::run(shared(), workers, stop.clone())));
    }
    if options.jobs {
        tasks.push(Box::pin(job::run(shared(), workers, stop.clone())));
    }
    if options.legacy_jobs {
        start_legacy(context, workers, stop, tasks);
    }
    if options.nodes {
        tasks.push(Box::pin(node::run(shared(), stop.clone())));
        tasks.push(Box::pin(service::run(shared(), stop.clone())));
    }
    if options.scheduler {
        tasks.push(Box::pin(scheduler::run(shared(), stop.clone())));
        tasks.push(Box::pin(persistent_volume_claim::run(
            context,
            stop.clone(),
        )));
    }
}

/// Starts a controller for every kind of v1 job.
fn start_legacy<'a>(
    context: &'a Arc<Context>,
    workers: usize,
    stop: &CancellationToken,
    tasks: &FuturesUnordered<BoxFuture<'a, ()>>,
) {
    macro_rules! run {
        ($($kind:ident)*) => {$(
            let run = legacy::run::<$kind>(Arc::clone(context), workers, stop.clone());
            tasks.push(Box::pin(run));
        )*};
    }
    run!(PyTorchJob TFJob MPIJob XGBoostJob PaddleJob MXJob JAXJob);
}

/// Starts the watches that the chosen controllers read.
fn follow<'a>(
    context: &'a Arc<Context>,
    options: &Options,
    stop: &CancellationToken,
    tasks: &FuturesUnordered<BoxFuture<'a, ()>>,
) {
    let mirrors = &context.mirrors;
    macro_rules! watch {
        ($($mirror:ident if $wanted:expr;)*) => {$(
            if $wanted {
                let client = context.client.clone();
                tasks.push(Box::pin(mirrors.$mirror.run(client, stop.clone())));
            }
        )*};
    }
    watch! {
        train_jobs if options.train_jobs || options.scheduler;
        cluster_runtimes if options.train_jobs;
        runtimes if options.train_jobs;
        job_sets if options.train_jobs || options.job_sets || options.scheduler;
        services if options.job_sets || options.legacy_jobs || options.nodes;
        jobs if options.job_sets || options.jobs || options.scheduler;
        pods if options.jobs || options.legacy_jobs || options.scheduler || options.nodes;
        pytorch_jobs if options.legacy_jobs;
        tf_jobs if options.legacy_jobs;
        mpi_jobs if options.legacy_jobs;
        xgboost_jobs if options.legacy_jobs;
        paddle_jobs if options.legacy_jobs;
        mx_jobs if options.legacy_jobs;
        jax_jobs if options.legacy_jobs;
        leases if options.nodes;
        nodes if options.scheduler || options.nodes;
        namespaces if options.scheduler;
        priority_classes if options.scheduler;
        quotas if options.scheduler;
        claims if options.scheduler;
    }
}
