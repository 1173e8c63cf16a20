//! The REST API against the embedded API server, in one process.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so and prints what it measured"
)]

mod authorization;
mod bad_requests;
mod create;
mod harness;
mod isolation;
mod legacy;
mod limits;
mod logs;
mod notifications;
mod oidc;
mod queue;
mod reports;
mod schema;
mod tokens;
mod upkeep;
