//! The kinds of v1 jobs.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CleanPodPolicy, ElasticPolicy, LegacyJob, LegacyJobStatus, ReplicaSpecs, RunPolicy};

/// Defines each kind: its type and that of its specification, its names, the field with its replicas, whether it has
/// a scale, and the optional fields that it alone has.
macro_rules! legacy_jobs {
    ($(
        $(#[$about:meta])*
        $job:ident($spec:ident) $kind:tt $plural:tt, $replicas:ident $key:tt $(, scale $scale:tt)? {
            $($(#[$field_about:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
        #[kube(
            group = "kubeflow.org",
            version = "v1",
            kind = $kind,
            plural = $plural,
            namespaced,
            status = "LegacyJobStatus",
            derive = "PartialEq",
            derive = "Default",
            $(scale $scale,)?
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
        pub struct $spec {
            /// How the job is run and cleaned up.
            #[serde(default)]
            pub run_policy: RunPolicy,
            /// The pods of the job, by their type.
            #[serde(rename = $key)]
            pub $replicas: ReplicaSpecs,
            $(
                $(#[$field_about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl LegacyJob for $job {
            fn replica_specs(&self) -> &ReplicaSpecs {
                &self.spec.$replicas
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

legacy_jobs! {
    /// Specification of a PyTorch job.
    PyTorchJob(PyTorchJobSpec) "PyTorchJob" "pytorchjobs", pytorch_replica_specs "pytorchReplicaSpecs", scale (
        spec_replicas_path = ".spec.pytorchReplicaSpecs.Worker.replicas",
        status_replicas_path = ".status.replicaStatuses.Worker.active",
        label_selector_path = ".status.replicaStatuses.Worker.selector"
    ) {
        /// Processes per node: `auto`, `cpu`, `gpu` or a number.
        nproc_per_node: String,
        /// How many workers there may be, and where they meet.
        elastic_policy: ElasticPolicy,
    }

    /// Specification of a TensorFlow job.
    TFJob(TFJobSpec) "TFJob" "tfjobs", tf_replica_specs "tfReplicaSpecs" {
        /// When the job has succeeded: empty (the chief, or the first worker) or `AllWorkers`.
        success_policy: String,
        /// Whether workers may come and go: each is told of itself and the parameter servers only.
        enable_dynamic_worker: bool,
    }

    /// Specification of a MPI job.
    MPIJob(MPIJobSpec) "MPIJob" "mpijobs", mpi_replica_specs "mpiReplicaSpecs" {
        /// Processes per worker. By default 1.
        slots_per_worker: i32,
        /// Which pods are removed when the job has finished; the older place of runPolicy.cleanPodPolicy.
        clean_pod_policy: CleanPodPolicy,
        /// The container that runs MPI; by default the first.
        main_container: String,
    }

    /// Specification of a XGBoost job.
    XGBoostJob(XGBoostJobSpec) "XGBoostJob" "xgboostjobs", xgb_replica_specs "xgbReplicaSpecs" {}

    /// Specification of a PaddlePaddle job.
    PaddleJob(PaddleJobSpec) "PaddleJob" "paddlejobs", paddle_replica_specs "paddleReplicaSpecs" {
        /// How many workers there may be, and where they meet.
        elastic_policy: ElasticPolicy,
    }

    /// Specification of a MXNet job.
    MXJob(MXJobSpec) "MXJob" "mxjobs", mx_replica_specs "mxReplicaSpecs" {
        /// Whether the job trains (`MXTrain`) or tunes (`MXTune`).
        job_mode: String,
    }

    /// Specification of a JAX job.
    JAXJob(JAXJobSpec) "JAXJob" "jaxjobs", jax_replica_specs "jaxReplicaSpecs" {}
}
