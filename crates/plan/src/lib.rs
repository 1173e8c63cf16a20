//! From a TrainJob and its runtime to the exact pods that will run. Pure: no I/O, no async, no
//! clock; the same input gives the same bytes.
//!
//! ```text
//!  TrainJob ─┐                    validate      everything that is wrong, at once
//!            ├─ plan_train_job ─> Plan          JobSet + host file + ssh key request
//!  Runtime ──┘                      │
//!                                   ├─ service_of ─────────> Service (headless)
//!                                   ├─ volume_claims_of ───> PersistentVolumeClaim…
//!                                   └─ jobs_of ──> Job ── pod_of ──> Pod
//! ```
//!
//! A plan grows in stages, each of which has an [`Origin`]: the runtime's template, every override
//! and patch in order, the trainer's fields, the framework's policy, the defaults. Asked to
//! explain itself ([`explain_train_job`]), it compares the template before and after each stage, so
//! that every field of every pod knows where it came from; nothing has to be kept in step by hand.
//!
//! [`fit`] and [`queue`] tell who of those that wait is started, and where.
//!
//! Where upstream is known to be wrong we are right, and `docs/compatibility.md` says so.

mod catalogue;
mod deadline;
mod draft;
mod error;
pub mod fit;
mod framework;
mod initializer;
mod job;
mod job_set;
mod launcher;
pub mod legacy;
mod lifetime;
mod merge;
mod nodes;
mod owner;
mod policy;
mod preview;
mod provenance;
pub mod queue;
mod resources;
mod runtime;
mod template;
mod train_job;
mod trainer;
mod validate;
pub mod yaml;

pub use catalogue::{BuiltInRuntime, built_in_runtime, built_in_runtimes};
pub use deadline::{after, deadline};
pub use error::{FieldError, FieldErrorKind, FieldErrors};
pub use framework::{Framework, GIT_CLONE, framework_name};
pub use job::{default_job, default_pod, pod_of, pods_of};
pub use job_set::{default_job_set, jobs_of, service_of, volume_claims_of};
pub use lifetime::{effective_max_restarts, effective_ttl, runtime_of_one_job};
pub use owner::owned_by;
pub use policy::mpi::{SshAuth, ssh_auth_secret};
pub use policy::tensorflow::GENERATOR as TF_CONFIG_GENERATOR;
pub use policy::torch::{ONE_PROCESS, RESERVED as RESERVED_VARIABLES};
pub use preview::{PlannedPod, Preview, pod_fields, preview};
pub use provenance::{Origin, Origins};
pub use runtime::Runtime;
pub use train_job::{Options, Plan, StatusServer, explain_train_job, plan_train_job};
pub use validate::{
    too_many_pods, validate_job_set, validate_runtime, validate_train_job,
    validate_train_job_update,
};

/// The name of the container that trains, in every runtime.
pub const TRAINER_CONTAINER: &str = "node";
/// The port where the nodes of a training meet.
pub const RENDEZVOUS_PORT: i32 = 29500;
