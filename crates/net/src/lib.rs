//! What all of our servers share: how they take connections, what becomes of a task that panics, and which
//! addresses are public.

mod connections;
mod public;
mod serve;
pub mod supervise;

pub use public::is_public;
pub use serve::{serve, take_descriptors};
