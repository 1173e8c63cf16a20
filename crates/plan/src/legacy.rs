//! The jobs of the Training Operator v1: from a PyTorchJob, TFJob, … to its pods and Services. Pure.
//!
//! ```text
//!  PyTorchJob …  ── TrainingJob::of ──>  TrainingJob   checked, defaults filled in
//!                                          ├─ pod ─────> Pod      `<job>-<type>-<index>`
//!                                          ├─ service ─> Service  of the same name, headless
//!                                          └─ mpi ─────> host file, scripts, key request (MPIJob)
//! ```
//!
//! The kinds differ by a row of a table ([`Framework`]), by a few fields ([`Details`]) and by the environment that
//! their pods get (`environment`). All else is the same for all of them.
//!
//! Names, labels and variables are the Training Operator's, since scripts and its SDK look for them. It differs from
//! there in these points:
//! - Replica types are read without regard to case, and a type that is given twice is refused, not merged.
//! - Workers wait for their master by `getent` in their own image, not by a second image from a registry.
//! - MPI workers are reached over ssh, not by `kubectl exec`: no credentials of the API server are in the pods.
//! - An MPIJob that does not say otherwise removes its workers at its end. They would idle for ever.

mod environment;
mod kinds;
mod migrate;
pub mod mpi;
mod pod;
mod replica_job;
mod service;
mod validate;

pub use astrago_api::legacy::{Framework, MASTER_ROLE};
pub use kinds::{Details, LegacyKind};
pub use migrate::{Migration, NoCounterpart};
pub use replica_job::{Replica, TrainingJob};

#[cfg(test)]
mod tests;
