//! The node on the real kernel.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail and speak as tests do"
)]

mod agent;
mod doctor;
mod exec;
mod image;
mod kubelet;
mod logs;
mod network;
mod pods;
mod registry;
mod sandbox;
mod support;
