//! What the server does without being asked, and what becomes of a task that panics.

pub(crate) mod bootstrap;
pub(crate) mod disruption;
pub(crate) mod expiry;
pub(crate) mod gc;
pub(crate) mod roles;
pub(crate) mod supervise;
