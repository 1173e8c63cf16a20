//! Will these pods fit on these nodes: now, later, or never, and why not.
//!
//! The arithmetic here is what the scheduler places gangs with and what the REST API answers
//! "will it fit?" with, so the two can never disagree. It is pure: a [`Cluster`] is built from nodes
//! and pods (or kept up to date by the scheduler), pods become [`PodNeed`]s, and
//! [`Cluster::verdict`] answers.
//!
//! What counts: the pod's requests (defaulting to its limits) for every resource the node
//! declares, one of the node's `pods`, `nodeSelector`, required node affinity, taints, and whether
//! the node is ready and schedulable. What does not, because no training runtime uses it here:
//! preferred affinity, affinity between pods, topology spread and host ports.
//!
//! # Placement policy
//! Pods that ask for GPUs are *packed*: they go to the node with the fewest free GPUs that still
//! fit, so that whole nodes stay free for big jobs. Other pods are *balanced*: they avoid nodes with
//! GPUs if they can and go where most room is left. Nodes with an untolerated `PreferNoSchedule`
//! taint come last. Pods are placed the most demanding first. For a gang of equal pods (the
//! ordinary case) this finds a placement whenever there is one; a gang of several shapes gets a second
//! try that packs everything.

mod cluster;
mod constraints;
mod place;
mod resources;
mod waiting;

pub use cluster::{Cluster, NodeInfo, holds_room};
pub use place::{Moment, Shape, Verdict, place, shapes};
pub use resources::{CPU, GPU, MEMORY, PODS, PodNeed, Resources, pod_limits};
pub use waiting::{Ahead, Cause, Waiting};

/// Why the needs of a pod or the offer of a node cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is invalid")]
pub struct Error {
    pub field: String,
    #[source]
    pub source: astrago_api::quantity::Error,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests;
