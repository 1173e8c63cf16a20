//! JAX: where process 0 is, how many processes there are, and which one this is.

use k8s_openapi::api::core::v1::EnvVar;

use crate::legacy::replica_job::TrainingJob;
use crate::template::env;

pub(super) fn variables(job: &TrainingJob, index: i32) -> Vec<EnvVar> {
    vec![
        env("PYTHONUNBUFFERED", "1"),
        env("COORDINATOR_PORT", job.port("Worker").to_string()),
        env("COORDINATOR_ADDRESS", job.pod_name("Worker", 0)),
        env("NUM_PROCESSES", job.total().to_string()),
        env("PROCESS_ID", index.to_string()),
    ]
}
