//! A Kubernetes-compatible API server over SQLite.

// What an object is: its schema, rules, patches and pictures. Pure, no I/O.
pub mod builtin;
pub mod cel;
pub mod openapi;
pub mod protobuf;
pub mod schema;
pub mod table;
