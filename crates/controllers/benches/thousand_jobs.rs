//! TrainJobs of two nodes on the embedded API server.
//!
//! One after another on an idle machine: how long from the creation of a TrainJob until its pods have a node. Then many
//! at once, a thousand by default: how long until all pods exist, run and are done, and what the controllers did for it.
//!
//! `cargo bench --bench thousand_jobs [-- JOBS …]`. With another number of jobs the reconciles and writes per job must
//! stay what they are; that is the point.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use astrago_api::{TrainJob, labels};
use astrago_controllers::report::Counter;
use astrago_testkit::{Behaviour, Plane, train_job};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};

/// As in the product.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const DEFAULT_JOBS: usize = 1000;

#[tokio::main(flavor = "multi_thread")]
async fn main() {
    let mut sizes: Vec<usize> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    if sizes.is_empty() {
        sizes.push(DEFAULT_JOBS);
    }
    one_by_one().await;
    for jobs in sizes {
        all_at_once(jobs).await;
    }
}

/// How many jobs are timed one by one.
const TIMED: usize = 100;

#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
async fn one_by_one() {
    let plane = Plane::start().await;
    plane.node.behave(|_| Behaviour::Succeed);
    plane.run_controllers();
    let pods = plane.api::<Pod>();
    let mut times = Vec::with_capacity(TIMED);
    for number in 0..TIMED {
        let name = format!("one-{number}");
        let selector = ListParams::default().labels(&format!("{}={name}", labels::JOBSET_NAME));
        let watched = WatchParams::default().labels(&format!("{}={name}", labels::JOBSET_NAME));
        let version = pods
            .list_metadata(&selector)
            .await
            .expect("pods are listed");
        let version = version.metadata.resource_version.unwrap_or_default();
        let events = pods
            .watch(&watched, &version)
            .await
            .expect("pods are watched");
        let mut events = std::pin::pin!(events);
        let start = Instant::now();
        let job = train_job(&name).nodes(2).build();
        plane.create(&job).await;
        let mut bound = HashSet::new();
        while bound.len() < 2 {
            let event = events.try_next().await.expect("the watch goes on");
            if let Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event
                && pod
                    .spec
                    .as_ref()
                    .is_some_and(|spec| spec.node_name.is_some())
            {
                bound.insert(pod.metadata.uid);
            }
        }
        times.push(start.elapsed());
        plane.until_condition(&name, "Complete").await;
    }
    times.sort();
    println!(
        "one job at a time: from TrainJob created to its 2 pods bound {:?} p50, {:?} p95, {:?} at most",
        times[TIMED / 2],
        times[TIMED * 95 / 100],
        times[TIMED - 1]
    );
}

#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
async fn all_at_once(jobs: usize) {
    let capacity = [("cpu", "100000"), ("memory", "1000Ti"), ("pods", "1000000")];
    let plane = Plane::with_node(&capacity).await;
    plane.node.behave(|_| Behaviour::Succeed);
    plane.run_controllers();
    let start = Instant::now();
    let api = plane.api::<TrainJob>();
    stream::iter(0..jobs)
        .for_each_concurrent(16, |number| {
            let api = api.clone();
            async move {
                let job = train_job(&format!("job-{number}")).nodes(2).build();
                api.create(&PostParams::default(), &job)
                    .await
                    .expect("the job is accepted");
            }
        })
        .await;
    println!("{jobs} jobs accepted after {:?}", start.elapsed());
    let pods = Api::<Pod>::all(plane.client.clone());
    wait(|| async { count(&pods).await >= 2 * jobs }).await;
    println!("{} pods exist after {:?}", 2 * jobs, start.elapsed());
    wait(|| async {
        let all = api
            .list(&ListParams::default())
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        all.iter().all(TrainJob::is_complete)
    })
    .await;
    println!("all complete after {:?}", start.elapsed());
    let per_job = |count: u64| {
        f64::from(u32::try_from(count).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(jobs).unwrap_or(1))
    };
    for (counter, count) in plane.metrics.snapshot() {
        match counter {
            Counter::Reconciles(name) => {
                println!("{name}: {:.2} reconciles per job", per_job(count));
            }
            Counter::Writes(name) => println!("{name}: {:.2} writes per job", per_job(count)),
            Counter::Failures(name, reason) => println!("{name}: {count} times {reason}"),
        }
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        println!(
            "peak memory of server, controllers and test: {}",
            line.unwrap_or("unknown")
        );
    }
}

async fn count(pods: &Api<Pod>) -> usize {
    pods.list_metadata(&ListParams::default())
        .await
        .map_or(0, |list| list.items.len())
}

async fn wait<F, Fut>(mut check: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    while !check().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
