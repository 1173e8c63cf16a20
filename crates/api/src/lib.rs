//! The nouns of Astrago Trainer.
//!
//! ```text
//!  ClusterTrainingRuntime / TrainingRuntime        what an administrator offers
//!            ^ runtimeRef
//!         TrainJob                                 what a user writes
//!            | plan
//!            v
//!          JobSet ──> Service (headless)           one address per node
//!            |
//!            v
//!           Job (Indexed) ──> Pod                  one per node
//! ```
//!
//! The kinds carry the union of the two dialects of Kubeflow Trainer that are in the field: v2.1
//! (`podTemplateOverrides`, `labels`, `annotations`, `numProcPerNode: auto`) and v2.2 and later
//! (`runtimePatches`, `activeDeadlineSeconds`, `status.trainerStatus`), so that the same object is
//! read, stored and shown without loss whichever way it was written.
//!
//! This crate does no I/O and has no async. Everything that *decides* lives in `astrago-plan`.

#![warn(missing_docs)]

pub mod conditions;
mod job_set;
mod key;
pub mod labels;
pub mod legacy;
pub mod names;
mod priority;
mod readable;
mod runtime;
mod schema;
mod train_job;

pub use job_set::*;
pub use key::ObjectKey;
pub use priority::highest_priority;
pub use readable::Readable;
pub use runtime::*;
pub use train_job::*;

pub use astrago_patch::quantity;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// How many pods one job may have at a time, over all of its templates and replicas, whatever its kind. More are a
/// mistake: they would fill the memory of the server long before they found a node. The definitions refuse it, and
/// what is stored already or multiplies only in the plan is failed by name.
pub const MOST_PODS: i32 = 2_000;

/// The custom resource definitions that `astrago up` and an administrator install, in a fixed
/// order, ready to be applied.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        schema::with_status::<TrainJobSpec, TrainJobStatus>(
            TrainJob::crd(),
            "TrainJob is one distributed training: a runtime, and what the user changes in it.",
        ),
        schema::without_status::<TrainingRuntimeSpec>(
            TrainingRuntime::crd(),
            "TrainingRuntime is a blueprint that the TrainJobs of its namespace can start from.",
        ),
        schema::without_status::<ClusterTrainingRuntimeSpec>(
            ClusterTrainingRuntime::crd(),
            "ClusterTrainingRuntime is a blueprint that every TrainJob of the cluster can start from.",
        ),
        schema::with_status::<JobSetSpec, JobSetStatus>(
            JobSet::crd(),
            "JobSet is a set of Jobs that start, succeed, fail and are held together.",
        ),
    ]
}
