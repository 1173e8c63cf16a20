//! Where jobs run: machines, queue, runtimes, namespaces, volumes, secrets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Amounts, Cause};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    pub name: String,
    pub ready: bool,
    pub instance_type: Option<String>,
    pub architecture: String,
    pub os: String,
    pub gpu_count: i64,
    /// `on-demand`, `spot`, or what the machine's label says.
    pub capacity_type: Option<String>,
    pub zone: Option<String>,
    pub capacity: Amounts,
    /// What the pods that run there have asked for.
    pub used: Amounts,
    /// The jobs that run there, as `namespace/name`.
    pub jobs: Vec<String>,
    pub message: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    pub items: Vec<QueueEntry>,
    /// Jobs ahead in the queue that the caller may not see.
    pub hidden: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct QueueEntry {
    pub name: String,
    pub namespace: String,
    pub position: i64,
    pub priority: i64,
    pub reason: String,
    /// The reason for programs.
    pub cause: Cause,
    pub needs: Amounts,
    pub since: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Runtime {
    pub name: String,
    /// As create requests name it.
    pub framework: Option<String>,
    /// The framework's name as its makers write it.
    pub title: String,
    /// The Python modules by which scripts for it are known.
    pub imports: Vec<String>,
    /// Whether create requests that name the framework and no runtime get this one.
    pub default: bool,
    /// Whether a launcher, which does not train itself, starts the nodes and has sizes of its own.
    pub launcher: bool,
    /// Whether torchrun can start several processes on a node.
    pub torchrun: bool,
    /// Whether it fetches its code from git, and takes no other.
    pub fetches_git: bool,
    pub image: Option<String>,
    pub num_nodes: i64,
    pub max_restarts: Option<i64>,
    pub ttl_seconds: Option<i64>,
    pub jobs: Vec<String>,
    pub deprecated: bool,
    /// What it is for, by language; `en` is there if any is.
    #[serde(default)]
    pub descriptions: BTreeMap<String, String>,
}

/// What the copy of a runtime is to be called.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRuntime {
    #[schema(example = "pytorch-large-images")]
    pub name: String,
}

/// A named priority, as administrators define them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Priority {
    pub name: String,
    pub value: i64,
    pub description: Option<String>,
    /// Whether jobs that name none have this one.
    pub default: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNamespace {
    #[schema(example = "experiments")]
    pub name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    pub name: String,
    pub user: Option<String>,
    pub jobs: usize,
    pub quota: Option<Quota>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Upper limits by resource, as in a ResourceQuota: `requests.cpu`, `requests.memory`, `requests.nvidia.com/gpu`.
    #[serde(default)]
    pub hard: BTreeMap<String, String>,
    #[serde(default)]
    pub used: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Claim {
    pub name: String,
    pub namespace: String,
    pub size: String,
    pub state: String,
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    pub namespace: String,
    pub name: String,
    #[schema(example = "10Gi")]
    pub size: String,
}

/// A secret, of which only the keys can be read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SecretInfo {
    pub name: String,
    pub namespace: String,
    pub keys: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretRequest {
    pub namespace: String,
    pub name: String,
    pub data: BTreeMap<String, String>,
}

/// Whether a request would find room.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Fit {
    pub verdict: FitVerdict,
    /// A sentence with the numbers.
    pub reason: String,
    /// The reason for programs.
    pub cause: Cause,
    pub needs: Amounts,
    pub free: Amounts,
    pub total: Amounts,
    /// An estimate from the running jobs' progress and deadlines, where there is one.
    pub wait_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitVerdict {
    FitsNow,
    WouldWait,
    NeverFits,
}
