//! The node: pods as sandboxed processes on one machine.
//!
//! ```text
//!   Kubernetes API                        this machine
//!        ^   |
//!  status|   |pods bound here
//!        |   v
//!      agent  ── pod.json ──>  supervisor (one per pod)  ── clone ──>  container, container …
//!             <─ state.json ─        │ control.sock                     own user, mount, PID,
//!                                    └ logs, probes, restarts           network … namespaces
//! ```
//!
//! The *agent* ([`run`]) is a client of the API like a kubelet: it registers a Node, resolves every
//! reference a pod makes (ConfigMaps, Secrets, fields, images) into a [`spec::PodSpec`] and starts a
//! *supervisor* ([`supervise`]), a small process that outlives the agent. The supervisor needs no API
//! and no async runtime: a spec goes in, a [`state::State`] comes out. It is PID 1 of a PID namespace
//! that holds all containers of its pod, so that nothing of the pod survives it.
//!
//! **Invariant:** only [`sys`] contains `unsafe`. **Invariant:** a container is started only by the
//! supervisor that holds the pod's lock file, and only after the state file says so; therefore each
//! attempt runs exactly once, whoever is killed when.

mod agent;
pub mod control;
pub mod doctor;
pub mod egress;
pub mod gpu;
mod housekeeping;
pub mod image;
pub mod launch;
pub mod layout;
pub mod logs;
pub mod metrics;
pub mod options;
pub mod phase;
pub mod relay;
mod sandbox;
pub mod server;
pub mod spec;
pub mod stacks;
pub mod state;
mod supervisor;
mod sys;
mod tree;

pub use agent::{Error, MIRROR, run};
pub use options::{Images, Options};
pub use supervisor::supervise;
