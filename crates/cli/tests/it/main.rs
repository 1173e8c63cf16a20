//! The built binary, from the outside.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "a test that fails should end at once and say so"
)]

mod agents;
mod cluster;
mod cluster_faults;
mod command_line;
mod connect;
mod data;
mod differential;
mod guides;
mod harness;
mod large_log;
mod legacy;
mod legacy_clients;
mod manifests;
mod node_drill;
mod page;
mod reports;
mod settings;
mod stalls;
mod training;
mod training_code;
mod training_faults;
mod training_git;
mod training_kubectl;
mod training_libraries;
mod training_queue;
mod training_roads;
mod training_suspend;
mod training_torchrun;
mod upstream_features;
mod upstream_features_v1;
