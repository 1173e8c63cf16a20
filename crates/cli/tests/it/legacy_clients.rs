//! v1 jobs through what their users have: the variables in their pods, the SDK of the Training Operator, and our own
//! REST API, which shows them beside TrainJobs.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::target::{NO_V1_JOBS, Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl, python};

fn start(flags: &[&str]) -> Option<Up> {
    (applies(Target::runs_v1_jobs, NO_V1_JOBS) && can_run_pods() && has_kubectl())
        .then(|| Up::start(&[&["--stop-pods", "--no-auth"], flags].concat()))
}

fn apply(up: &Up, object: &Value) {
    let file = up.folder.path().join("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// Waits until a job of the list is in this state.
fn until_state(up: &Up, name: &str, state: &str) -> Value {
    up.eventually(&format!("{name} is {state}"), |up| {
        let (_, list) = up.get("/api/trainjobs?namespace=default");
        let items = list["items"].as_array().into_iter().flatten();
        let found = items
            .into_iter()
            .find(|job| job["name"] == name && job["state"] == state);
        found.cloned().ok_or(list)
    })
}

#[test]
fn every_replica_of_a_tensorflow_job_prints_its_tf_config_and_rest_shows_it_all() {
    let Some(up) = start(&[]) else { return };
    let replica = |count: i32| {
        json!({ "replicas": count, "restartPolicy": "Never", "template": { "spec": { "containers": [{
            "name": "tensorflow", "image": "i", "command": ["sh", "-c", "echo \"$TF_CONFIG\""],
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } } }] } } })
    };
    apply(
        &up,
        &json!({ "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": { "name": "tf" },
            "spec": { "successPolicy": "AllWorkers", "tfReplicaSpecs": {
                "Chief": replica(1), "Worker": replica(2), "PS": replica(1), "Evaluator": replica(1) } } }),
    );
    let shown = until_state(&up, "tf", "Complete");
    assert_eq!(
        (&shown["kind"], &shown["framework"], &shown["num_nodes"]),
        (&json!("TFJob"), &json!("tensorflow"), &json!(5))
    );
    let address = |role: &str, index: i32| format!("tf-{role}-{index}.default.svc:2222");
    let cluster = json!({
        "chief": [address("chief", 0)], "ps": [address("ps", 0)], "evaluator": [address("evaluator", 0)],
        "worker": [address("worker", 0), address("worker", 1)] });
    let tasks = [
        ("chief", 0),
        ("worker", 0),
        ("worker", 1),
        ("ps", 0),
        ("evaluator", 0),
    ];
    for (role, index) in tasks {
        let pod = format!("tf-{role}-{index}");
        let log = up.eventually(&format!("{pod} prints"), |up| {
            let output = up.kubectl_command().args(["logs", &pod]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.trim().is_empty() {
                Err(json!(text))
            } else {
                Ok(text)
            }
        });
        let got: Value =
            serde_json::from_str(log.trim()).unwrap_or_else(|_| panic!("{pod}: {log}"));
        let want = json!({ "cluster": cluster, "environment": "cloud", "task": { "type": role, "index": index } });
        assert_eq!(got, want, "{pod}");
    }

    let (status, detail) = up.get("/api/trainjobs/tf?namespace=default");
    assert_eq!(status, 200, "{detail}");
    let roles: Vec<(i64, &str)> = detail["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (
                node["worker"].as_i64().unwrap(),
                node["role"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        roles,
        [
            (0, "chief"),
            (1, "ps"),
            (2, "worker"),
            (3, "worker"),
            (4, "evaluator")
        ]
    );
    let (_, logs) = up.get("/api/trainjob/tf/logs?namespace=default&worker=3");
    let text = logs["logs"].as_str().unwrap_or_default();
    assert!(
        text.contains(r#""index":1"#) && text.contains(r#""type":"worker""#),
        "{logs}"
    );
    let (_, events) = up.get("/api/trainjobs/tf/events?namespace=default");
    assert!(events.to_string().contains("TFJobSucceeded"), "{events}");
    let (_, manifest) = up.get("/api/trainjobs/tf/manifest?namespace=default");
    assert!(
        manifest.as_str().unwrap().contains("kind: TFJob"),
        "{manifest}"
    );
    let (status, answer) = up.get("/api/trainjobs/tf/clone?namespace=default");
    assert_eq!(status, 409, "{answer}");
    let table = up.run(&["jobs", "-A", "-o", "wide"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("TFJob"), "{table}");
    let (status, answer) = up.request("DELETE", "/api/trainjob/tf?namespace=default", None, &[]);
    assert_eq!(status, 200, "{answer}");
    up.eventually("its pods are gone", |up| {
        let pods = up.kubectl(&["get", "pods", "-o", "name"]);
        if pods.trim().is_empty() {
            Ok(())
        } else {
            Err(json!(pods))
        }
    });
    let (_, gone) = up.get("/api/trainjobs/tf?namespace=default");
    assert_eq!(
        (&gone["archived"], &gone["kind"]),
        (&json!(true), &json!("TFJob"))
    );
}

#[test]
fn a_v1_job_is_held_and_let_go_over_rest_and_a_bad_one_is_refused_at_once() {
    let Some(up) = start(&[]) else { return };
    let replica = json!({ "restartPolicy": "Never", "template": { "spec": { "containers": [{ "name": "pytorch", "image": "i",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } } }] } } });
    let mut job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "held" },
        "spec": { "pytorchReplicaSpecs": { "Master": replica, "Worker": replica } } });
    apply(&up, &job);
    until_state(&up, "held", "Running");
    let (status, answer) = up.post("/api/trainjobs/held/suspend?namespace=default", &json!({}));
    assert_eq!(
        (status, &answer["state"]),
        (200, &json!("Suspended")),
        "{answer}"
    );
    up.eventually("its pods are gone", |up| {
        let pods = up.kubectl(&["get", "pods", "-o", "name"]);
        if pods.trim().is_empty() {
            Ok(())
        } else {
            Err(json!(pods))
        }
    });
    let (status, _) = up.post("/api/trainjobs/held/resume?namespace=default", &json!({}));
    assert_eq!(status, 200);
    until_state(&up, "held", "Running");

    job["metadata"]["name"] = json!("bad");
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = json!(2);
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] =
        json!("torch");
    let file = up.folder.path().join("bad.json");
    std::fs::write(&file, job.to_string()).unwrap();
    let output = up
        .kubectl_command()
        .arg("apply")
        .arg("-f")
        .arg(&file)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for want in [
        // Kubernetes writes the key of a map as [Master], we as Master.
        "replicas: Forbidden: must be 1",
        "must have at least one container with name pytorch",
    ] {
        assert!(said.contains(want), "{said}");
    }
}

#[test]
fn the_sdk_of_the_training_operator_trains_a_function() {
    let Some(python) = python() else { return };
    let Some(up) = start(&["--python", python.to_str().unwrap()]) else {
        return;
    };
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk_v1.py");
    let output = Command::new(&python)
        .arg(driver)
        .env("KUBECONFIG", up.folder.path().join("data/kubeconfig"))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("rank 0 of 2, sum 3, at sdk-master-0"),
        "{stdout}"
    );
    assert!(stdout.contains("'Succeeded'"), "{stdout}");
    assert!(stdout.contains("left: []"), "{stdout}");
}
