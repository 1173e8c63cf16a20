//! The API server as its clients see it.

mod access;
mod deletion;
mod kubectl;
mod plane;
mod rust_clients;
