//! The API server as its clients see it.

mod access;
mod crash;
mod deletion;
mod kubectl;
mod kubectl_objects;
mod kubectl_versions;
mod plane;
mod rust_clients;
