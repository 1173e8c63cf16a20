//! The kinds of v1 jobs.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CleanPodPolicy, ElasticPolicy, LegacyJob, LegacyJobStatus, ReplicaSpecs, RunPolicy};

/// Specification of a PyTorch job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "PyTorchJob",
    plural = "pytorchjobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    scale(
        spec_replicas_path = ".spec.pytorchReplicaSpecs.Worker.replicas",
        status_replicas_path = ".status.replicaStatuses.Worker.active",
        label_selector_path = ".status.replicaStatuses.Worker.selector"
    ),
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PyTorchJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "pytorchReplicaSpecs")]
    pub pytorch_replica_specs: ReplicaSpecs,
    /// Processes per node: `auto`, `cpu`, `gpu` or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nproc_per_node: Option<String>,
    /// How many workers there may be, and where they meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_policy: Option<ElasticPolicy>,
}

/// Specification of a TensorFlow job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "TFJob",
    plural = "tfjobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct TFJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "tfReplicaSpecs")]
    pub tf_replica_specs: ReplicaSpecs,
    /// When the job has succeeded: empty (the chief, or the first worker) or `AllWorkers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<String>,
    /// Whether workers may come and go: each is told of itself and the parameter servers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_dynamic_worker: Option<bool>,
}

/// Specification of a MPI job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "MPIJob",
    plural = "mpijobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MPIJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "mpiReplicaSpecs")]
    pub mpi_replica_specs: ReplicaSpecs,
    /// Processes per worker. By default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<i32>,
    /// Which pods are removed when the job has finished; the older place of runPolicy.cleanPodPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<CleanPodPolicy>,
    /// The container that runs MPI; by default the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_container: Option<String>,
}

/// Specification of a XGBoost job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "XGBoostJob",
    plural = "xgboostjobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct XGBoostJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "xgbReplicaSpecs")]
    pub xgb_replica_specs: ReplicaSpecs,
}

/// Specification of a PaddlePaddle job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "PaddleJob",
    plural = "paddlejobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PaddleJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "paddleReplicaSpecs")]
    pub paddle_replica_specs: ReplicaSpecs,
    /// How many workers there may be, and where they meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_policy: Option<ElasticPolicy>,
}

/// Specification of a MXNet job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "MXJob",
    plural = "mxjobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MXJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "mxReplicaSpecs")]
    pub mx_replica_specs: ReplicaSpecs,
    /// Whether the job trains (`MXTrain`) or tunes (`MXTune`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_mode: Option<String>,
}

/// Specification of a JAX job.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1",
    kind = "JAXJob",
    plural = "jaxjobs",
    namespaced,
    status = "LegacyJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[-1:].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct JAXJobSpec {
    /// How the job is run and cleaned up.
    #[serde(default)]
    pub run_policy: RunPolicy,
    /// The pods of the job, by their type.
    #[serde(rename = "jaxReplicaSpecs")]
    pub jax_replica_specs: ReplicaSpecs,
}

macro_rules! legacy_job {
    ($($kind:ident, $field:ident;)*) => {$(
        impl LegacyJob for $kind {
            fn replica_specs(&self) -> &ReplicaSpecs {
                &self.spec.$field
            }

            fn run_policy(&self) -> &RunPolicy {
                &self.spec.run_policy
            }

            fn status(&self) -> Option<&LegacyJobStatus> {
                self.status.as_ref()
            }
        }
    )*};
}

legacy_job! {
    PyTorchJob, pytorch_replica_specs;
    TFJob, tf_replica_specs;
    MPIJob, mpi_replica_specs;
    XGBoostJob, xgb_replica_specs;
    PaddleJob, paddle_replica_specs;
    MXJob, mx_replica_specs;
    JAXJob, jax_replica_specs;
}
