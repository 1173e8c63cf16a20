//! The node on the real kernel.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "helpers of tests fail and speak as tests do"
)]

mod agent;
mod contract;
mod doctor;
mod egress;
mod events;
mod exec;
mod image;
mod kubelet;
mod launcher;
mod logs;
mod network;
mod plane;
mod pods;
mod registry;
mod reports;
mod sandbox;
mod services;
mod shared;
mod stacks;
mod support;
