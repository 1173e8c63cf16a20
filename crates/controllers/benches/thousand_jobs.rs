//! A thousand TrainJobs of two nodes, submitted at once to the embedded API server: how long until all pods exist,
//! run and are done, and what the controllers did for it.
//!
//! `cargo bench -p astrago-controllers --bench thousand_jobs [-- JOBS]`. With another number of jobs the
//! reconciles and writes per job must stay what they are; that is the point.

use std::time::{Duration, Instant};

use astrago_api::TrainJob;
use astrago_controllers::report::Counter;
use astrago_testkit::{Behaviour, Plane, train_job};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};

const DEFAULT_JOBS: usize = 1000;

#[tokio::main(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
async fn main() {
    let jobs = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(DEFAULT_JOBS);
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
