//! Several jobs at once: the same ports, more jobs than room, and the end of what is finished.
//!
//! The scripts wait for a file on a volume that they share, so that each look sees them all.

use serde_json::{Value, json};

use crate::harness::target::applies;
use crate::harness::{Up, can_run_pods, has_kubectl};

/// Rank 0 listens where every job's rank 0 listens and gives its name; the others ask and compare.
const SAME_PORT: &str = r#"
import os, pathlib, socket, time
rank, name, port = int(os.environ["RANK"]), os.environ["NAME"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(("0.0.0.0", port))
    connection, _ = server.accept()
    connection.sendall(name.encode())
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    heard = connection.recv(100).decode()
    assert heard == name, f"{name} met {heard}"
    print(f"met {heard} on port {port}", flush=True)
print("at the gate", flush=True)
while not pathlib.Path("/gate/open").exists():
    time.sleep(0.05)
"#;

const AT_THE_GATE: &str = r#"
import pathlib, time
print("at the gate", flush=True)
while not pathlib.Path("/gate/open").exists():
    time.sleep(0.05)
"#;

/// A namespace with a volume `gate`.
fn with_gate(up: &Up) {
    up.kubectl(&["create", "namespace", "team"]);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "gate", "namespace": "team" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Mi" } } },
    });
    std::fs::write(up.folder.path().join("gate.json"), claim.to_string()).unwrap();
    up.kubectl(&["apply", "-f", "gate.json"]);
}

fn create(up: &Up, name: &str, nodes: i64, cpu: &str, more: &Value) {
    let mut form = json!({
        "user_id": "kim", "namespace": "team", "framework": "pytorch", "training_code": SAME_PORT, "name": name,
        "num_nodes": nodes, "cpu_request": cpu, "memory_request": "32Mi",
        "env_vars": [{ "name": "NAME", "value": name }],
        "volumes": [{ "name": "gate", "pvc": "gate", "mountPath": "/gate" }],
    });
    for (field, value) in more.as_object().unwrap() {
        form[field] = value.clone();
    }
    let (code, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 200, "{made}");
}

fn status(up: &Up, name: &str) -> Value {
    up.get(&format!("/api/trainjob/{name}/status?namespace=team"))
        .1
}

fn log(up: &Up, name: &str, worker: u32) -> String {
    let path = format!("/api/trainjob/{name}/logs?namespace=team&worker={worker}");
    up.get(&path).1["logs"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn at_the_gate(up: &Up, name: &str, workers: u32) -> bool {
    (0..workers).all(|worker| log(up, name, worker).contains("at the gate"))
}

fn open_gate(up: &Up, job: &str) {
    let selector = format!("jobset.sigs.k8s.io/jobset-name={job}");
    let pods = up.kubectl(&["-n", "team", "get", "pods", "-l", &selector, "-o", "name"]);
    let pod = pods.lines().next().unwrap();
    up.kubectl(&["-n", "team", "exec", pod, "--", "touch", "/gate/open"]);
}

fn complete(up: &Up, name: &str) {
    up.eventually("the end of the job", |up| {
        let status = status(up, name);
        if status["state"] == "Complete" {
            Ok(())
        } else {
            Err(status)
        }
    });
}

#[test]
fn two_jobs_use_the_same_port_at_the_same_time() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    with_gate(&up);
    for name in ["left", "right"] {
        create(&up, name, 2, "100m", &json!({}));
    }
    up.eventually("that both run at once", |up| {
        let both = ["left", "right"].map(|name| at_the_gate(up, name, 2));
        if both == [true; 2] {
            Ok(())
        } else {
            Err(json!([status(up, "left"), status(up, "right")]))
        }
    });
    for name in ["left", "right"] {
        assert!(
            log(&up, name, 1).contains(&format!("met {name} on port 29")),
            "{}",
            log(&up, name, 1)
        );
    }
    open_gate(&up, "left");
    complete(&up, "left");
    complete(&up, "right");
}

#[test]
fn jobs_beyond_the_capacity_wait_with_a_reason_and_then_run() {
    if !applies(
        |target| !target.kubernetes,
        "Kubernetes' scheduler starts single pods, and jobs that each have some wait for ever",
    ) {
        return;
    }
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=2,memory=4Gi"]);
    with_gate(&up);
    let names = ["first", "second", "third", "fourth"];
    for name in names {
        create(&up, name, 2, "500m", &json!({}));
    }
    let waiting = up.eventually("that two run and two wait with the reason", |up| {
        let running = names.iter().filter(|name| at_the_gate(up, name, 2));
        let waiting: Vec<&str> = names
            .into_iter()
            .filter(|name| {
                let status = status(up, name);
                let reason = status["message"]
                    .as_str()
                    .unwrap_or_default()
                    .to_lowercase();
                status["state"] == "Pending" && reason.contains("cpu")
            })
            .collect();
        match (running.count(), waiting.len()) {
            (2, 2) => Ok(waiting),
            _ => Err(json!(names.map(|name| status(up, name)))),
        }
    });
    for name in &waiting {
        assert_eq!(
            log(&up, name, 0),
            "",
            "{name} must not have started one of its two nodes"
        );
    }
    let running = names
        .into_iter()
        .find(|name| !waiting.contains(name))
        .unwrap();
    open_gate(&up, running);
    for name in names {
        complete(&up, name);
    }
}

/// On any cluster: what a scheduler says about pods without a place reaches whoever looks at the job.
#[test]
fn a_job_without_room_says_what_it_waits_for_and_then_runs() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=2,memory=4Gi"]);
    with_gate(&up);
    let alone = json!({ "training_code": AT_THE_GATE });
    create(&up, "first", 1, "1500m", &alone);
    up.eventually("that the first runs", |up| {
        if at_the_gate(up, "first", 1) {
            Ok(())
        } else {
            Err(status(up, "first"))
        }
    });
    create(&up, "second", 1, "1500m", &alone);
    let shown = up.eventually("the reason why the second waits", |up| {
        let (_, shown) = up.get("/api/trainjobs/second?namespace=team");
        let reason = shown["message"].as_str().unwrap_or_default().to_lowercase();
        if shown["state"] == "Pending" && reason.contains("cpu") {
            Ok(shown)
        } else {
            Err(shown)
        }
    });
    assert_eq!(log(&up, "second", 0), "", "{shown}");
    open_gate(&up, "first");
    complete(&up, "first");
    complete(&up, "second");
}

#[test]
fn a_finished_job_goes_after_its_time_and_its_history_stays() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods"]);
    let runtime = up.kubectl(&[
        "get",
        "clustertrainingruntime",
        "pytorch-simple",
        "-o",
        "json",
    ]);
    let mut runtime: Value = serde_json::from_str(&runtime).unwrap();
    runtime["metadata"] = json!({ "name": "short-lived", "labels": runtime["metadata"]["labels"] });
    runtime["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = json!(2);
    std::fs::write(up.folder.path().join("runtime.json"), runtime.to_string()).unwrap();
    up.kubectl(&["apply", "-f", "runtime.json"]);
    with_gate(&up);
    let code = json!({ "training_code": "print('here and gone')", "runtime": "short-lived" });
    create(&up, "brief", 1, "100m", &code);
    up.eventually("the end of the TrainJob itself", |up| {
        let left = up.kubectl(&[
            "-n",
            "team",
            "get",
            "trainjobs,jobsets,jobs,pods",
            "-o",
            "name",
        ]);
        if left.trim().is_empty() {
            Ok(())
        } else {
            Err(json!([left, status(up, "brief")]))
        }
    });
    let (code, record) = up.get("/api/trainjobs/brief?namespace=team");
    assert_eq!((code, &record["archived"]), (200, &json!(true)), "{record}");
    assert_eq!(record["state"], "Complete", "{record}");
    let (_, lines) = up.get("/api/trainjobs/brief/logs?namespace=team");
    assert!(lines.to_string().contains("here and gone"), "{lines}");
    up.eventually("the end of its code", |up| {
        let maps = up.kubectl(&["-n", "team", "get", "configmaps", "-o", "name"]);
        if maps.contains("brief-train-script") {
            Err(json!(maps))
        } else {
            Ok(())
        }
    });
}
