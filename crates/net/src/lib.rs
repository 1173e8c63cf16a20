//! What all of our servers share: how they take connections, what becomes of a task that panics, and which
//! addresses are public, and how an error is told in the log.

mod chain;
mod connections;
mod public;
mod serve;
pub mod supervise;

pub use chain::chain;
pub use connections::until_sent;
pub use public::is_public;
pub use serve::{serve, take_descriptors};
