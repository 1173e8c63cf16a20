//! The node on the real kernel.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod image;
mod registry;
mod sandbox;
mod support;
