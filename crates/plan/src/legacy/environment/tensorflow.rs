//! TensorFlow: `TF_CONFIG`, with the addresses of all replicas and the task of this one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use serde::Serialize;

use crate::legacy::kinds::Details;
use crate::legacy::replica_job::{Replica, TrainingJob};
use crate::template::env;

#[derive(Serialize)]
struct Config {
    cluster: Cluster,
    task: Task,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Cluster {
    All(BTreeMap<String, Vec<String>>),
    /// Of the workers, each knows only itself; so the others may come and go.
    Sparse {
        worker: BTreeMap<i32, String>,
        ps: Vec<String>,
    },
}

#[derive(Serialize)]
struct Task {
    #[serde(rename = "type")]
    kind: String,
    index: i32,
}

pub(super) fn variables(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<EnvVar> {
    // One pod alone is no cluster; with a `TF_CONFIG`, TensorFlow would make it one.
    if job.total() == 1 {
        return Vec::new();
    }
    let dynamic = matches!(
        job.details,
        Details::TensorFlow {
            dynamic_worker: true,
            ..
        }
    );
    let config = Config {
        cluster: if dynamic {
            sparse(job, replica.kind, index)
        } else {
            Cluster::All(
                job.replicas
                    .iter()
                    .map(|replica| (replica.kind.to_lowercase(), addresses(job, replica)))
                    .collect(),
            )
        },
        task: Task {
            kind: replica.kind.to_lowercase(),
            index,
        },
        environment: (!dynamic).then_some("cloud"),
    };
    // Maps with number or string keys and plain strings always serialize.
    let config = serde_json::to_string(&config).unwrap_or_default();
    vec![env("TF_CONFIG", config)]
}

fn sparse(job: &TrainingJob, kind: &str, index: i32) -> Cluster {
    let own = address(job, kind, index);
    if kind == "PS" {
        return Cluster::Sparse {
            worker: BTreeMap::new(),
            ps: vec![own],
        };
    }
    Cluster::Sparse {
        worker: BTreeMap::from([(index, own)]),
        ps: job
            .replica("PS")
            .map(|servers| addresses(job, servers))
            .unwrap_or_default(),
    }
}

fn addresses(job: &TrainingJob, replica: &Replica) -> Vec<String> {
    (0..replica.count)
        .map(|index| address(job, replica.kind, index))
        .collect()
}

fn address(job: &TrainingJob, kind: &str, index: i32) -> String {
    let name = job.pod_name(kind, index);
    format!("{name}.{}.svc:{}", job.namespace, job.port(kind))
}
