//! States and messages, by table.
#![expect(clippy::needless_pass_by_value, reason = "cases read better")]

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn job(spec: Value, conditions: Value, pods: Vec<Value>, restarts: i32) -> Job {
    let job = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": "demo", "namespace": "team", "creationTimestamp": "2025-11-05T13:00:00Z" },
        "spec": spec,
        "status": { "conditions": conditions },
    });
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": "demo", "namespace": "team" },
        "spec": {}, "status": { "restarts": restarts },
    });
    Job {
        legacy: None,
        job: Arc::new(serde_json::from_value(job).unwrap()),
        job_set: Some(Arc::new(serde_json::from_value(set).unwrap())),
        pods: pods
            .into_iter()
            .map(|pod| Arc::new(serde_json::from_value(pod).unwrap()))
            .collect(),
        per_node: Amounts::default(),
        num_nodes: 2,
        framework: None,
        lacks_runtime: false,
    }
}

#[test]
fn a_job_whose_runtime_is_missing_says_so() {
    let mut job = job(spec(), json!([]), vec![], 0);
    job.lacks_runtime = true;
    assert_eq!(
        job.message(),
        "the runtime \"pytorch-simple\" does not exist"
    );
    assert_eq!(json!(job.cause())["code"], "no_runtime");
}

fn spec() -> Value {
    json!({ "runtimeRef": { "name": "pytorch-simple" } })
}

fn condition(kind: &str, message: &str) -> Value {
    json!([{ "type": kind, "status": "True", "reason": "R", "message": message,
             "lastTransitionTime": "2025-11-05T13:05:00Z" }])
}

fn pod(index: u32, phase: &str, state: Value) -> Value {
    json!({
        "metadata": { "name": format!("demo-node-0-{index}-abcde"), "namespace": "team",
            "labels": { "batch.kubernetes.io/job-completion-index": index.to_string() } },
        "spec": { "containers": [{ "name": "node",
            "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } }] },
        "status": { "phase": phase,
            "conditions": [{ "type": "PodScheduled", "status": "True",
                             "lastTransitionTime": "2025-11-05T13:01:00Z" }],
            "containerStatuses": [{ "name": "node", "image": "", "imageID": "", "ready": true,
                                    "restartCount": 0, "state": state }] },
    })
}

fn running() -> Value {
    json!({ "running": { "startedAt": "2025-11-05T13:02:00Z" } })
}

#[rstest]
#[case::fresh(job(spec(), json!([]), vec![], 0), JobState::Pending, "waiting for its pods")]
#[case::made(job(spec(), json!([]), vec![json!({ "metadata": { "name": "demo-node-0-0-abcde" } })], 0),
    JobState::Pending, "waiting for its pods")]
#[case::placed(job(spec(), json!([]), vec![pod(0, "Pending", json!({}))], 0), JobState::Pending, "starting")]
#[case::running(
    job(spec(), json!([]), vec![pod(0, "Running", running()), pod(1, "Running", running())], 0),
    JobState::Running, "2 of 2 nodes are running")]
#[case::one_is_up(
    job(spec(), json!([]), vec![pod(0, "Running", running()), pod(1, "Pending", json!({}))], 0),
    JobState::Running, "1 of 2 nodes are running")]
#[case::crashed(
    job(spec(), json!([]), vec![pod(0, "Running", json!({ "terminated": { "exitCode": 1 } }))], 0),
    JobState::Restarting, "a node has failed")]
#[case::between_attempts(job(spec(), json!([]), vec![], 2), JobState::Restarting, "restart 2 after a failure")]
#[case::complete(
    job(spec(), condition("Complete", "jobset completed successfully"), vec![], 0),
    JobState::Complete, "jobset completed successfully")]
#[case::failed_wins_over_pods(
    job(spec(), condition("Failed", "no more"), vec![pod(0, "Running", running())], 6),
    JobState::Failed, "no more")]
#[case::suspended(
    job(json!({ "runtimeRef": { "name": "x" }, "suspend": true }), json!([]), vec![], 0),
    JobState::Suspended, "TrainJob is suspended")]
fn the_state_follows_from_the_objects(
    #[case] job: Job,
    #[case] want: JobState,
    #[case] message: &str,
) {
    assert_eq!(job.state(), want);
    assert_eq!(job.message(), message);
}

#[test]
fn a_pod_costs_what_it_held_since_it_had_its_place() {
    let job = job(
        spec(),
        condition("Complete", "done"),
        vec![pod(0, "Succeeded", running())],
        0,
    );
    let usage = job.usage_of_pods(Timestamp::UNIX_EPOCH);
    assert!((usage[0].1.cpu_core_hours - 2.0 * 240.0 / 3600.0).abs() < 1e-9);
}

#[test]
fn the_newest_pod_of_a_rank_counts() {
    let mut old = pod(1, "Failed", json!({ "terminated": { "exitCode": 1 } }));
    old["metadata"]["creationTimestamp"] = json!("2025-11-05T13:00:00Z");
    let mut new = pod(1, "Running", running());
    new["metadata"]["creationTimestamp"] = json!("2025-11-05T13:03:00Z");
    new["metadata"]["name"] = json!("demo-node-0-1-fresh");
    let job = job(spec(), json!([]), vec![new, old], 1);
    assert_eq!(job.worker(1).unwrap().name_any(), "demo-node-0-1-fresh");
    assert_eq!(job.nodes().len(), 1);
    assert!(job.worker(2).is_none());
}

/// A JobSet of an MPI runtime with two nodes that train beside a launcher, or with the launcher as one of them.
fn with_launcher(pods_of_nodes: i32) -> Job {
    let mut job = job(spec(), json!([]), vec![], 0);
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": "demo", "namespace": "team" },
        "spec": { "replicatedJobs": [
            { "name": "launcher", "template": { "spec": { "parallelism": 1, "template": {} } } },
            { "name": "node", "template": { "spec": { "parallelism": pods_of_nodes, "template": {} } } },
        ] },
    });
    job.job_set = Some(Arc::new(serde_json::from_value(set).unwrap()));
    let of = |role: &str, index: i32| {
        let mut pod = pod(0, "Running", running());
        pod["metadata"]["name"] = json!(format!("demo-{role}-0-{index}-abcde"));
        pod["metadata"]["labels"] = json!({ "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": index.to_string() });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    job.pods = (0..pods_of_nodes).map(|index| of("node", index)).collect();
    job.pods.push(of("launcher", 0));
    job.pods.push(of("dataset-initializer", 0));
    job
}

#[rstest]
#[case::beside_the_nodes(2, 3)]
#[case::one_of_the_nodes(1, 2)]
fn a_launcher_counts_as_a_node_only_where_it_trains(
    #[case] pods_of_nodes: i32,
    #[case] workers: i64,
) {
    let job = with_launcher(pods_of_nodes);
    assert_eq!(job.message(), "2 of 2 nodes are running");
    assert_eq!(job.summary(None, Timestamp::UNIX_EPOCH).nodes_running, 2);
    assert_eq!(job.num_workers(), workers);
    let ranks: Vec<_> = job.nodes().iter().map(|node| node.worker).collect();
    assert_eq!(ranks, (0..workers).collect::<Vec<_>>());
}
