//! `elasticPolicy` of a PyTorchJob: how many workers there may be, and where they meet.

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// How many workers an elastic job may have, and where they meet.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElasticPolicy {
    /// The fewest workers that can train; by default the most.
    pub min_replicas: Option<i32>,
    /// The most workers; by default the fewest, or else the number of workers.
    pub max_replicas: Option<i32>,
    /// The kind of rendezvous; by default c10d.
    pub rdzv_backend: Option<RdzvBackend>,
    /// The port of the rendezvous; by default the workers' own.
    pub rdzv_port: Option<i32>,
    /// The host of the rendezvous; by default the first worker.
    pub rdzv_host: Option<String>,
    /// The name of the rendezvous.
    pub rdzv_id: Option<String>,
    /// Further settings of the rendezvous.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdzv_conf: Vec<RdzvConf>,
    /// Whether each worker is a rendezvous of its own.
    pub standalone: Option<bool>,
    /// Processes per worker. Deprecated: use spec.nprocPerNode.
    pub n_proc_per_node: Option<i32>,
    /// How often torchrun restarts the worker group.
    pub max_restarts: Option<i32>,
    /// What decides on the number of workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
}

/// The kind of rendezvous.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RdzvBackend {
    /// PyTorch's own.
    C10d,
    /// An etcd server.
    Etcd,
    /// An etcd server, by its second API.
    EtcdV2,
}

/// One setting of the rendezvous.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RdzvConf {
    /// Its name.
    pub key: Option<String>,
    /// Its value.
    pub value: Option<String>,
}
