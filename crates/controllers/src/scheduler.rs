//! The gang scheduler: gives pods their nodes, all pods of a job at once or none, and says why the
//! others wait.
//!
//! What a gang is, who comes first and what is decided from that is told in [`astrago_plan::queue`].
//!
//! # Tasks
//! One ([`run`]): in: the shared mirrors and those of quotas, priority classes and claims; out: bindings,
//! the condition `PodScheduled`, events and the status of quotas. It keeps a [`astrago_plan::queue::World`] up to date
//! change by change, so that a pass costs what waits and not what has run. All of it is
//! derived from the API: after a crash the next process finds a gang that was bound in part and
//! makes it whole before anything else.

mod act;
mod run;

pub use run::run;
