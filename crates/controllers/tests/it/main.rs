//! Controllers against the embedded API server, in one process and without a socket.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so and prints what it measured"
)]

mod any_order;
mod faults;
mod held;
mod job_set_admission;
mod legacy;
mod legacy_admission;
mod lifecycle;
mod on_purpose;
mod queue;
mod refusals;
mod scheduler;
