//! What all of our servers share: how they take connections, what becomes of a task that panics, which addresses are
//! public, how an error is told in the log, and how numbers are told to Prometheus.

mod chain;
mod connections;
mod exposition;
mod public;
mod serve;
pub mod supervise;

pub use chain::chain;
pub use connections::until_sent;
pub use exposition::Exposition;
pub use public::is_public;
pub use serve::{serve, take_descriptors};
