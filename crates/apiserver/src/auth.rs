//! Who asks, and whether they may.

mod identity;

pub use identity::Identity;
