//! `elasticPolicy` of a PyTorchJob: how many workers there may be, and where they meet.

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many workers an elastic job may have, and where they meet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElasticPolicy {
    /// The fewest workers that can train; by default the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The most workers; by default the fewest, or else the number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// The kind of rendezvous; by default c10d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdzv_backend: Option<RdzvBackend>,
    /// The port of the rendezvous; by default the workers' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdzv_port: Option<i32>,
    /// The host of the rendezvous; by default the first worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdzv_host: Option<String>,
    /// The name of the rendezvous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdzv_id: Option<String>,
    /// Further settings of the rendezvous.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdzv_conf: Vec<RdzvConf>,
    /// Whether each worker is a rendezvous of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standalone: Option<bool>,
    /// Processes per worker. Deprecated: use spec.nprocPerNode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_proc_per_node: Option<i32>,
    /// How often torchrun restarts the worker group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RdzvConf {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}
