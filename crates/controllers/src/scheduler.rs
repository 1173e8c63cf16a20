//! The gang scheduler: gives pods their nodes, all pods of a job at once or none, and says why the
//! others wait.
//!
//! # What a gang is
//! | pods | gang | it is whole when |
//! |---|---|---|
//! | with `astrago.io/gang` (label or annotation) | all of that name in the namespace | `astrago.io/gang-size` pods exist, or without it the parallelism of their Job |
//! | of a JobSet | those of one restart attempt and one wave | every Job of the wave has all its pods |
//! | of a v1 training job | those of its `training.kubeflow.org/job-name` | `astrago.io/gang-size` pods exist, or without it always |
//! | any other | each alone | always |
//!
//! A *wave* are the replicated jobs of a JobSet that start together: `dependsOn` and `InOrder` startup
//! put a job into a later wave, so initializers do not wait for the trainers that wait for them.
//!
//! # Order
//! By priority (the TrainJob's own word, else `spec.priority` of its pods, else their PriorityClass, else 0), but no higher
//! than the namespace allows; then by age. What is decided from that is told in [`astrago_plan::queue`].
//!
//! # Tasks
//! One ([`run`]): in: the shared mirrors and those of quotas, priority classes and claims; out: bindings,
//! the condition `PodScheduled`, events and the status of quotas. It keeps a [`world::World`] up to date
//! change by change, so that a pass costs what waits and not what has run. All of it is
//! derived from the API: after a crash the next process finds a gang that was bound in part and
//! makes it whole before anything else.

mod act;
mod run;
pub mod world;

pub use run::run;
