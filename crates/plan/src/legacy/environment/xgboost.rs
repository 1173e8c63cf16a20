//! XGBoost (Rabit) and LightGBM.

use k8s_openapi::api::core::v1::EnvVar;

use super::node_rank;
use crate::legacy::replica_job::{Replica, TrainingJob};
use crate::template::env;

pub(super) fn variables(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<EnvVar> {
    let mut variables = vec![
        env("MASTER_PORT", job.port("Master").to_string()),
        env("MASTER_ADDR", job.pod_name("Master", 0)),
        env("WORLD_SIZE", job.total().to_string()),
        env("RANK", node_rank(job, replica.kind, index).to_string()),
        env("PYTHONUNBUFFERED", "1"),
    ];
    let workers = job.replica("Worker").map_or(0, |workers| workers.count);
    if workers > 0 {
        let addresses: Vec<String> = (0..workers)
            .map(|index| job.pod_name("Worker", index))
            .collect();
        variables.push(env("WORKER_PORT", job.port("Worker").to_string()));
        variables.push(env("WORKER_ADDRS", addresses.join(",")));
    }
    variables
}
