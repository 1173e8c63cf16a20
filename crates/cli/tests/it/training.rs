//! Requests as backends send them, with jobs that really run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Up, can_run_pods};

const SCRIPT: &str = "import os, socket\n\
    rank, world = os.environ['RANK'], os.environ['WORLD_SIZE']\n\
    print(f'rank {rank} of {world} on {socket.gethostname()}', flush=True)\n\
    for batch in range(3):\n\
    \x20   print(f'Epoch 1/1, Batch {batch}/3, Loss: {1.0 / (batch + 1):.4f}', flush=True)\n";

fn form_a() -> Value {
    json!({
        "user_id": "user123", "namespace": "user-123", "framework": "pytorch", "training_code": SCRIPT,
        "config": { "num_nodes": 2, "gpu_per_node": 0, "cpu_per_node": "100m", "memory_per_node": "128Mi" },
    })
}

fn form_b() -> Value {
    json!({
        "user_id": "user123", "namespace": "user-123", "framework": "pytorch", "training_code": SCRIPT,
        "image": "pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime", "num_nodes": 2,
        "cpu_request": "100m", "cpu_limit": "1", "memory_request": "64Mi", "memory_limit": "256Mi", "gpu_count": 0,
        "command": "python3 /workspace/scripts/train.py",
        "env_vars": [{ "name": "EPOCHS", "value": "10" }], "volumes": [],
    })
}

fn state(up: &Up, name: &str, want: &str) -> Result<Value, Value> {
    let (_, status) = up.get(&format!("/api/trainjob/{name}/status?namespace=user-123"));
    if status["state"] == want {
        Ok(status)
    } else {
        Err(status)
    }
}

fn log(up: &Up, name: &str, worker: u32) -> String {
    let (code, logs) = up.get(&format!(
        "/api/trainjob/{name}/logs?namespace=user-123&worker={worker}"
    ));
    assert_eq!(code, 200, "{logs}");
    assert_eq!(logs["worker"], worker);
    logs["logs"].as_str().unwrap().to_owned()
}

#[test]
fn both_forms_of_a_create_request_run_on_two_nodes() {
    if !can_run_pods() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods"]);
    let mut names = Vec::new();
    for form in [form_a(), form_b()] {
        let (code, made) = up.post("/api/trainjob/create", &form);
        assert_eq!((code, &made["status"]), (200, &json!("success")), "{made}");
        assert_eq!(made["namespace"], "user-123");
        names.push(made["trainjob_name"].as_str().unwrap().to_owned());
    }
    assert_ne!(names[0], names[1]);
    for name in &names {
        assert!(name.starts_with("user123-job-2"), "{name}");
        let status = up.eventually("the end of the job", |up| state(up, name, "Complete"));
        assert_eq!(status["message"], "jobset completed successfully");
        assert!(status["completed_at"].is_string());
        for worker in 0..2 {
            let log = log(&up, name, worker);
            assert!(
                log.contains(&format!("rank {worker} of 2 on {name}-node-0-{worker}")),
                "{log}"
            );
        }
    }
    let (_, detail) = up.get(&format!("/api/trainjobs/{}?namespace=user-123", names[0]));
    assert_eq!(detail["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(detail["metrics"][0]["name"], "loss");

    let (code, _) = up.get(&format!(
        "/api/trainjob/{}/logs?namespace=user-123&worker=2",
        names[0]
    ));
    assert_eq!(code, 404);
    let (code, gone) = up.request(
        "DELETE",
        &format!("/api/trainjob/{}?namespace=user-123", names[0]),
        None,
        &[],
    );
    assert_eq!((code, &gone["status"]), (200, &json!("success")));
    up.eventually("the end of the job's record in the cluster", |up| {
        let (code, body) = up.get(&format!(
            "/api/trainjob/{}/status?namespace=user-123",
            names[0]
        ));
        if code == 404 { Ok(()) } else { Err(body) }
    });
    // What it was and what it printed stays in the history.
    let (code, record) = up.get(&format!("/api/trainjobs/{}?namespace=user-123", names[0]));
    assert_eq!((code, &record["archived"]), (200, &json!(true)), "{record}");
    let (_, lines) = up.get(&format!(
        "/api/trainjobs/{}/logs?namespace=user-123",
        names[0]
    ));
    assert!(lines["lines"].as_array().unwrap().len() >= 8, "{lines}");

    let (code, took) = up.stop();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_failure_is_explained_and_becomes_the_exit_code() {
    if !can_run_pods() {
        return;
    }
    let up = Up::start(&["--stop-pods"]);
    let script = up.folder.path().join("train.py");
    std::fs::write(&script, "print('about to fail')\nimport nosuchmodule\n").unwrap();
    let script = script.to_str().unwrap();
    let output = up.run(&["run", script, "--name", "broken", "--max-restarts", "0"]);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    assert!(stdout.contains("about to fail"), "{stdout}");
    assert!(stderr.contains("nosuchmodule"), "{stderr}");

    std::fs::write(script, "import os\nprint('worker', os.environ['RANK'])\n").unwrap();
    let output = up.run(&["run", script, "--nodes", "2", "--name", "fine"]);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("[0] worker 0") && stdout.contains("[1] worker 1"),
        "{stdout}"
    );
}
