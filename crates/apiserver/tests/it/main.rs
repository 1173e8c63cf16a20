//! The API server as its clients see it.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests may fail and say so"
)]

mod access;
mod crash;
mod deletion;
mod evictions;
mod guards;
mod hostile;
mod kubectl;
mod kubectl_objects;
mod kubectl_versions;
mod node;
mod parsers;
mod plane;
mod python;
mod quota;
mod requests;
mod rust_clients;
mod streams;
