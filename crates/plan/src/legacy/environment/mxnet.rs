//! MXNet: `DMLC_*` for its parameter servers, and all addresses in `MX_CONFIG`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use serde_json::json;

use crate::legacy::replica_job::{Replica, TrainingJob};
use crate::template::env;

pub(super) fn variables(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<EnvVar> {
    let role = replica.kind.to_lowercase();
    let mut variables = vec![env("MX_CONFIG", config(job, &role, index))];
    if job.replica("Scheduler").is_none() {
        return variables;
    }
    let count = |kind: &str| {
        job.replica(kind)
            .map_or(0, |replica| replica.count)
            .to_string()
    };
    variables.extend([
        env("DMLC_PS_ROOT_PORT", job.port("Scheduler").to_string()),
        env("DMLC_PS_ROOT_URI", job.pod_name("Scheduler", 0)),
        env("DMLC_NUM_SERVER", count("Server")),
        env("DMLC_NUM_WORKER", count("Worker")),
        env("DMLC_ROLE", role),
        env("DMLC_USE_KUBERNETES", "1"),
    ]);
    if replica.kind == "Worker" {
        variables.push(env("DMLC_WORKER_ID", index.to_string()));
    }
    variables
}

fn config(job: &TrainingJob, role: &str, index: i32) -> String {
    let address = |kind: &str, index: i32| json!({ "url": job.pod_name(kind, index), "port": job.port(kind) });
    let cluster: BTreeMap<String, Vec<_>> = job
        .replicas
        .iter()
        .map(|replica| {
            let addresses = (0..replica.count).map(|index| address(replica.kind, index));
            (replica.kind.to_lowercase(), addresses.collect())
        })
        .collect();
    json!({ "cluster": cluster, "labels": {}, "task": { "type": role, "index": index } })
        .to_string()
}
