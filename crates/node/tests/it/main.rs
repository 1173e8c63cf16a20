//! The node on the real kernel.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail and speak as tests do"
)]

mod exec;
mod image;
mod kubelet;
mod logs;
mod agent;
mod network;
mod registry;
mod sandbox;
mod support;
