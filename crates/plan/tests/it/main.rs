//! Plans of whole jobs: the examples of the repository, tables of cases, and laws.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod cases;
mod examples;
mod laws;
mod objects;
