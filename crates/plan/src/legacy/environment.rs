//! What the pods of a framework are told, so that they find each other: one framework per file.

mod jax;
mod mxnet;
mod paddle;
mod pytorch;
mod tensorflow;
mod xgboost;

use k8s_openapi::api::core::v1::EnvVar;

use super::mpi;
use super::replica_job::{Replica, TrainingJob};

/// Who gets the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All containers but init containers.
    EveryContainer,
    MainContainer,
}

/// The variables of one pod. They win over the template's.
pub(super) fn of(job: &TrainingJob, replica: &Replica, index: i32) -> (Scope, Vec<EnvVar>) {
    match job.framework.kind {
        "PyTorchJob" => (
            Scope::EveryContainer,
            pytorch::variables(job, replica, index),
        ),
        "TFJob" => (
            Scope::MainContainer,
            tensorflow::variables(job, replica, index),
        ),
        "MPIJob" => (Scope::MainContainer, mpi::variables(job, replica)),
        "XGBoostJob" => (
            Scope::EveryContainer,
            xgboost::variables(job, replica, index),
        ),
        "PaddleJob" => (
            Scope::EveryContainer,
            paddle::variables(job, replica, index),
        ),
        "MXJob" => (Scope::MainContainer, mxnet::variables(job, replica, index)),
        _ => (Scope::EveryContainer, jax::variables(job, index)),
    }
}

/// The rank of a node where a master comes before the workers.
fn node_rank(job: &TrainingJob, kind: &str, index: i32) -> i32 {
    if kind == "Worker" && job.has_leader() {
        index + 1
    } else {
        index
    }
}
