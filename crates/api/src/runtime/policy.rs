//! The policies of a runtime: how many nodes, how they find each other, how they are started.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::MOST_PODS;

/// How many nodes train by default, and how the framework on them finds its peers. At most one
/// framework is named; without one the nodes are only counted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MlPolicy {
    /// How many nodes train when the job does not say; 1 if this does not say either.
    #[schemars(range(min = 1, max = MOST_PODS))]
    pub num_nodes: Option<i32>,

    /// PyTorch: the nodes get the variables that torchrun reads.
    pub torch: Option<TorchPolicy>,

    /// MPI: a launcher gets a host file and keys to reach the nodes.
    pub mpi: Option<MpiPolicy>,

    /// JAX: the nodes get the address of their coordinator.
    pub jax: Option<JaxPolicy>,

    /// XGBoost: the nodes get the address of their tracker.
    pub xgboost: Option<XgboostPolicy>,

    /// Flux, an HPC scheduler inside the job. Known so that such runtimes can be stored; not run by
    /// the embedded engine.
    pub flux: Option<FluxPolicy>,

    /// TensorFlow: the nodes get TF_CONFIG. Kubeflow has no such policy; a runtime that must also
    /// work there is labelled trainer.kubeflow.org/framework=tensorflow instead.
    pub tensorflow: Option<TensorFlowPolicy>,
}

/// PyTorch.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TorchPolicy {
    /// How many processes every node starts when the job does not say: a number, auto, cpu or gpu.
    /// (Kubeflow Trainer v2.1.)
    #[schemars(range(min = 1), extend("pattern" = "^(auto|cpu|gpu|[1-9][0-9]*)$"))]
    pub num_proc_per_node: Option<IntOrString>,

    /// Further containers that get the variables that torchrun reads.
    pub env_injection: Option<EnvInjection>,
}

/// Further containers that get the variables that torchrun reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvInjection {
    /// The containers, by job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub targets: Vec<EnvInjectionTarget>,
}

/// Containers of one job that get the variables that torchrun reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvInjectionTarget {
    /// The name of the job in the runtime's template.
    #[schemars(length(min = 1, max = 253))]
    pub job_name: String,

    /// Names of its init containers and containers.
    #[schemars(
        length(min = 1, max = 8),
        extend(
            "x-kubernetes-list-type" = "set",
            "x-kubernetes-validations" = [{
                "rule": "!self.exists(c, c == 'node')",
                "message": "containerNames must not include the main node container because PET_* envs are always injected into it"
            }]
        )
    )]
    pub container_names: Vec<String>,
}

/// MPI.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MpiPolicy {
    /// How many processes run on every node.
    #[schemars(
        extend(
            "default" = 1,
            "x-kubernetes-validations" = [{
                "rule": "self >= 1",
                "message": "NumProcPerNode in mpiPolicy must be >= 1"
            }]
        )
    )]
    pub num_proc_per_node: Option<i32>,

    /// The MPI implementation; only OpenMPI is supported.
    #[schemars(extend("enum" = ["OpenMPI", ""], "default" = "OpenMPI"))]
    pub mpi_implementation: Option<String>,

    /// Where the ssh keys are mounted, in the launcher and in the nodes.
    #[schemars(length(max = 4096), extend("default" = "/root/.ssh"))]
    pub ssh_auth_mount_path: Option<String>,

    /// Whether the launcher trains too, as one of the nodes.
    #[schemars(extend("default" = false))]
    pub run_launcher_as_node: Option<bool>,
}

impl MpiPolicy {
    /// Where the ssh keys are mounted, with its default.
    pub fn ssh_auth_mount_path(&self) -> &str {
        self.ssh_auth_mount_path.as_deref().unwrap_or("/root/.ssh")
    }

    /// Whether the launcher trains too, with its default.
    pub fn runs_launcher_as_node(&self) -> bool {
        self.run_launcher_as_node.unwrap_or(false)
    }
}

/// JAX.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct JaxPolicy {}

/// XGBoost.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct XgboostPolicy {}

/// TensorFlow.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TensorFlowPolicy {}

/// Flux.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxPolicy {
    /// How many processes run on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        extend(
            "default" = 1,
            "x-kubernetes-validations" = [{
                "rule": "self >= 1",
                "message": "NumProcPerNode in fluxPolicy must be >= 1"
            }]
        )
    )]
    pub num_proc_per_node: Option<i32>,
}

/// How a cluster's scheduler starts the nodes together. The embedded engine always does.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupPolicy {
    /// With the coscheduling plugin of the Kubernetes scheduler.
    pub coscheduling: Option<CoschedulingPolicy>,

    /// With Volcano.
    pub volcano: Option<VolcanoPolicy>,
}

/// The coscheduling plugin of the Kubernetes scheduler.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoschedulingPolicy {
    /// How many seconds the scheduler waits until all nodes fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 60))]
    pub schedule_timeout_seconds: Option<i32>,
}

/// Volcano.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolcanoPolicy {
    /// How close the nodes have to be in the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
}

/// How close the nodes have to be in the network.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTopology {
    /// Whether the tier is a must (hard) or a wish (soft).
    #[schemars(extend("enum" = ["hard", "soft"], "default" = "hard"))]
    pub mode: Option<String>,

    /// The highest tier of the network that the nodes may span.
    #[schemars(extend("default" = 1))]
    pub highest_tier_allowed: Option<i32>,
}
