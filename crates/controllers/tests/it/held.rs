//! A TrainJob, a JobSet or a Job that is held, let go, loses pods and controllers, and fails a few times of its own:
//! however that goes, it completes once it is left alone, and only its own failures count.

use astrago_api::{JobSet, TrainJob};
use astrago_testkit::{Plane, eventually, train_job};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

const NODES: i32 = 2;
/// More than the training fails of its own in any run.
const MAX_RESTARTS: i32 = 50;
const JOB: &str = "demo-node-0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TrainJob,
    JobSet,
    Job,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Hold(bool),
    /// The training itself ends with an error.
    Fail(i32),
    /// Somebody deletes a pod.
    Kill(i32),
    /// How pods end from now on when they are told to.
    Manners(i32),
    Crash,
    Advance(i64),
    Breathe(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let rank = 0..NODES;
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Hold),
        1 => rank.clone().prop_map(Step::Fail),
        2 => rank.prop_map(Step::Kill),
        1 => prop_oneof![Just(0), Just(1), Just(143)].prop_map(Step::Manners),
        2 => Just(Step::Crash),
        1 => (1_i64..30).prop_map(Step::Advance),
        8 => (1_usize..200).prop_map(Step::Breathe),
    ]
}

#[test]
fn whatever_is_done_to_it_a_train_job_completes_and_only_its_own_failures_count() {
    run(Kind::TrainJob);
}

#[test]
fn so_does_a_job_set() {
    run(Kind::JobSet);
}

#[test]
fn and_a_job() {
    run(Kind::Job);
}

fn run(kind: Kind) {
    let config = Config {
        cases: 5,
        max_shrink_iters: 30,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut runner = TestRunner::new(config);
    let result = runner.run(&prop::collection::vec(step(), 5..40), |steps| {
        let lived = runtime.block_on(live(kind, steps));
        lived.map_err(TestCaseError::fail)
    });
    assert!(result.is_ok(), "{}", result.expect_err("a failure"));
}

async fn live(kind: Kind, steps: Vec<Step>) -> Result<(), String> {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.node.stop_with(0);
    create(&plane, kind).await;
    let mut errors = 0;
    for step in steps {
        match step {
            Step::Hold(hold) => self::hold(&plane, kind, hold).await,
            Step::Fail(rank) => {
                plane.node.end_if_running(JOB, rank, 1).await;
                errors += 1;
            }
            Step::Kill(rank) => kill(&plane, rank).await,
            Step::Manners(code) => plane.node.stop_with(code),
            Step::Crash => {
                plane.crash_controllers().await;
                plane.run_controllers();
            }
            Step::Advance(seconds) => advance(&plane, seconds).await,
            Step::Breathe(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
        }
        if let Some(end) = end(&plane, kind).await {
            return Err(format!("it ended before its pods did: {end}"));
        }
    }
    hold(&plane, kind, false).await;
    let ended = eventually("it ends", || async {
        for rank in 0..NODES {
            plane.node.end_if_running(JOB, rank, 0).await;
        }
        advance(&plane, 10).await;
        end(&plane, kind).await.ok_or("it goes on")
    })
    .await;
    let counted = counted(&plane, kind).await;
    plane.stop_controllers().await;
    if ended.starts_with("Complete") && counted <= errors {
        Ok(())
    } else {
        Err(format!("{ended} after {errors} errors, {counted} counted"))
    }
}

async fn create(plane: &Plane, kind: Kind) {
    let job = json!({ "completionMode": "Indexed", "completions": NODES, "parallelism": NODES, "template": { "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "node", "image": "i" }] } } });
    match kind {
        Kind::TrainJob => {
            let job = train_job("demo").nodes(NODES).max_restarts(MAX_RESTARTS);
            plane.create(&job.build()).await;
        }
        Kind::JobSet => {
            let mut job = job;
            job["backoffLimit"] = json!(0);
            let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": "demo" },
                "spec": { "failurePolicy": { "maxRestarts": MAX_RESTARTS },
                    "replicatedJobs": [{ "name": "node", "template": { "spec": job } }] } });
            let set: JobSet = serde_json::from_value(set).expect("a set");
            plane.create(&set).await;
        }
        Kind::Job => {
            let mut job = job;
            job["backoffLimit"] = json!(MAX_RESTARTS);
            let job = json!({ "metadata": { "name": JOB }, "spec": job });
            let job: Job = serde_json::from_value(job).expect("a Job");
            plane.create(&job).await;
        }
    }
}

async fn hold(plane: &Plane, kind: Kind, hold: bool) {
    let change = json!({ "spec": { "suspend": hold } });
    match kind {
        Kind::TrainJob => drop(plane.patch::<TrainJob>("demo", change).await),
        Kind::JobSet => drop(plane.patch::<JobSet>("demo", change).await),
        Kind::Job => drop(plane.patch::<Job>(JOB, change).await),
    }
}

async fn kill(plane: &Plane, rank: i32) {
    let (pods, gently) = (plane.api::<Pod>(), DeleteParams::default());
    for pod in plane.list::<Pod>().await {
        let name = pod.name_any();
        if name.starts_with(&format!("{JOB}-{rank}-")) {
            // It may be gone already.
            let _ = pods.delete(&name, &gently).await;
        }
    }
}

async fn advance(plane: &Plane, seconds: i64) {
    plane.clock.advance(seconds);
    plane.node.beat().await;
}

/// The object as it is.
async fn object(plane: &Plane, kind: Kind) -> Value {
    let shown = match kind {
        Kind::TrainJob => {
            serde_json::to_value(plane.api::<TrainJob>().get("demo").await.expect("it"))
        }
        Kind::JobSet => serde_json::to_value(plane.api::<JobSet>().get("demo").await.expect("it")),
        Kind::Job => serde_json::to_value(plane.api::<Job>().get(JOB).await.expect("it")),
    };
    shown.expect("JSON")
}

/// The condition that ends it.
async fn end(plane: &Plane, kind: Kind) -> Option<String> {
    let object = object(plane, kind).await;
    let conditions = object["status"]["conditions"].as_array()?;
    let ends = ["Complete", "Completed", "Failed"];
    let end = conditions.iter().find(|one| {
        ends.contains(&one["type"].as_str().unwrap_or_default()) && one["status"] == "True"
    })?;
    Some(format!("{}: {}", end["type"].as_str()?, end["message"]))
}

/// How many failures are held against it.
async fn counted(plane: &Plane, kind: Kind) -> i64 {
    let count = match kind {
        Kind::Job => object(plane, kind).await["status"]["failed"].as_i64(),
        Kind::TrainJob | Kind::JobSet => {
            object(plane, Kind::JobSet).await["status"]["restartsCountTowardsMax"].as_i64()
        }
    };
    count.unwrap_or_default()
}
