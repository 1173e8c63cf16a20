//! The API server as its clients see it.

mod plane;
mod rust_clients;
