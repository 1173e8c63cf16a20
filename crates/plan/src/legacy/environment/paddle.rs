//! PaddlePaddle: with masters, these are parameter servers; without, the workers meet at the first of them.

use k8s_openapi::api::core::v1::EnvVar;

use crate::legacy::replica_job::{Replica, TrainingJob};
use crate::template::{env, env_from_field};

pub(super) fn variables(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<EnvVar> {
    let leader = job.leader();
    let port = job.port(leader);
    let mut variables = vec![
        env("PADDLE_JOB_ID", job.name.clone()),
        env("PADDLE_NNODES", job.total().to_string()),
    ];
    if job.leads(replica.kind, index) {
        // Its launcher serves the others only if the address is its own, and it compares numbers, not names.
        variables.push(env_from_field("POD_IP_DUMMY", "status.podIP".to_owned()));
        variables.push(env("PADDLE_MASTER", format!("$(POD_IP_DUMMY):{port}")));
    } else {
        let master = job.pod_name(leader, 0);
        variables.push(env("PADDLE_MASTER", format!("{master}:{port}")));
    }
    if job.has_leader() {
        let what = if replica.kind == "Master" {
            "PADDLE_SERVER_NUM"
        } else {
            "PADDLE_TRAINER_NUM"
        };
        variables.push(env(what, "1"));
    }
    variables
}
