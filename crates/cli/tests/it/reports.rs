//! Training code that reports its own progress with Kubeflow's SDK, from inside a sandbox.

use serde_json::{Value, json};

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, python};

const SCRIPT: &str = "
import os, time
from kubeflow.trainer import update_trainjob_status
assert update_trainjob_status(progress_percent=40, estimated_remaining_seconds=30, metrics={'loss': 2.5})
print('first', flush=True)
time.sleep(5.5)  # the SDK sends one report in five seconds
assert update_trainjob_status(progress_percent=80, metrics={'loss': 1.5})
print('second', flush=True)
while not os.path.exists('/tmp/end'):
    time.sleep(0.2)
";

#[test]
fn kubeflows_sdk_reports_progress_from_a_pod() {
    if !applies(
        Target::is_embedded,
        "who takes reports is told to pods by our controllers together with our API server",
    ) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(python) = python() else {
        return;
    };
    let up = Up::start(&[
        "--no-auth",
        "--stop-pods",
        "--python",
        python.to_str().unwrap(),
    ]);
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "training_code": SCRIPT, "name": "demo",
        "config": { "num_nodes": 1, "cpu_per_node": "100m", "memory_per_node": "512Mi" }, "max_restarts": 0,
    });
    let (code, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 200, "{made}");
    let shown = |up: &Up, path: &str| -> Value {
        up.get(&format!("/api/trainjobs/demo{path}?namespace=user-kim"))
            .1
    };
    let job = up.eventually("the second report", |up| {
        let job = shown(up, "");
        assert_ne!(job["state"], "Failed", "{job:#}\n{}", shown(up, "/logs"));
        if job["progress"]["percent"] == 80.0 {
            Ok(job)
        } else {
            Err(job)
        }
    });
    assert_eq!(job["metrics"][0]["name"], "loss");
    up.eventually("a curve of both reports", |up| {
        let metrics = shown(up, "/metrics");
        let points = metrics[0]["points"].as_array();
        let values: Vec<f64> = points
            .into_iter()
            .flatten()
            .filter_map(|point| point["value"].as_f64())
            .collect();
        if values == [2.5, 1.5] {
            Ok(())
        } else {
            Err(metrics)
        }
    });
    assert_eq!(job["progress"]["remaining_seconds"], Value::Null);
}
