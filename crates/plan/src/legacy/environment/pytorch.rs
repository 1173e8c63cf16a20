//! PyTorch: `MASTER_ADDR` and its like for `init_process_group`, `PET_*` for torchrun.

use astrago_api::legacy::{ElasticPolicy, RdzvBackend};
use k8s_openapi::api::core::v1::EnvVar;

use super::node_rank;
use crate::legacy::kinds::Details;
use crate::legacy::replica_job::{Replica, TrainingJob};
use crate::resources;
use crate::template::env;

pub(super) fn variables(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<EnvVar> {
    let Details::PyTorch {
        nproc_per_node,
        elastic,
    } = &job.details
    else {
        return Vec::new();
    };
    let mut variables = vec![env("PYTHONUNBUFFERED", "1")];
    if job.has_leader() {
        let (address, port) = (job.pod_name("Master", 0), job.port("Master").to_string());
        let rank = node_rank(job, replica.kind, index).to_string();
        let world = i64::from(job.total()) * processes(job, replica, nproc_per_node.as_deref());
        variables.extend([
            env("MASTER_PORT", port.clone()),
            env("PET_MASTER_PORT", port),
            env("MASTER_ADDR", address.clone()),
            env("PET_MASTER_ADDR", address),
            env("WORLD_SIZE", world.to_string()),
            env("RANK", rank.clone()),
            env("PET_NODE_RANK", rank),
        ]);
    }
    let nproc = nproc_per_node.as_deref().unwrap_or("auto");
    variables.push(env("PET_NPROC_PER_NODE", nproc));
    match elastic {
        None => variables.push(env("PET_NNODES", job.total().to_string())),
        Some(elastic) => variables.extend(elastic_variables(job, elastic)),
    }
    variables
}

/// Processes on a node. Who asks for one per GPU or CPU is given their number, so that `WORLD_SIZE` is right for
/// code that reads it before torchrun sets it. (The Training Operator counts one.)
fn processes(job: &TrainingJob, replica: &Replica, asked: Option<&str>) -> i64 {
    let main = job.main_container(replica);
    let limits = main.and_then(|main| main.resources.as_ref());
    match asked {
        None => 1,
        Some("cpu") => resources::cpus(limits),
        Some("auto" | "gpu") => resources::gpus(limits).max(1),
        Some(number) => number.parse().unwrap_or(1),
    }
}

fn elastic_variables(job: &TrainingJob, elastic: &ElasticPolicy) -> Vec<EnvVar> {
    let workers = job
        .replica("Worker")
        .map_or(1, |replica| replica.count.max(1));
    let min = elastic
        .min_replicas
        .or(elastic.max_replicas)
        .unwrap_or(workers);
    let max = elastic
        .max_replicas
        .or(elastic.min_replicas)
        .unwrap_or(workers);
    let host = elastic
        .rdzv_host
        .clone()
        .unwrap_or_else(|| job.pod_name("Worker", 0));
    let port = elastic.rdzv_port.unwrap_or_else(|| job.port("Worker"));
    let backend = match elastic.rdzv_backend {
        None | Some(RdzvBackend::C10d) => "c10d",
        Some(RdzvBackend::Etcd) => "etcd",
        Some(RdzvBackend::EtcdV2) => "etcd-v2",
    };
    let mut variables = vec![
        env("PET_RDZV_ENDPOINT", format!("{host}:{port}")),
        env("PET_RDZV_BACKEND", backend),
        env("PET_NNODES", format!("{min}:{max}")),
    ];
    if let Some(restarts) = elastic.max_restarts {
        variables.push(env("PET_MAX_RESTARTS", restarts.to_string()));
    }
    if let Some(processes) = elastic.n_proc_per_node {
        variables.push(env("PET_NPROC_PER_NODE", processes.to_string()));
    }
    if let Some(id) = &elastic.rdzv_id {
        variables.push(env("PET_RDZV_ID", id));
    }
    if !elastic.rdzv_conf.is_empty() {
        let settings = elastic.rdzv_conf.iter().map(|setting| {
            let key = setting.key.as_deref().unwrap_or_default();
            format!("{key}={}", setting.value.as_deref().unwrap_or_default())
        });
        let settings: Vec<String> = settings.collect();
        variables.push(env("PET_RDZV_CONF", settings.join(",")));
    }
    if elastic.standalone == Some(true) {
        variables.push(env("PET_STANDALONE", ""));
    }
    variables
}
