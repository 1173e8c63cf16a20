//! A Kubernetes-compatible API server over SQLite.
//!
//! ```text
//!   HTTP ── server ── path ── auth ── verbs ── admission ── store ── SQLite
//!                        \              |          |          |
//!                         registry ─────+──────────+       watches
//! ```
//!
//! A request is resolved by [`path`] and [`registry`], authenticated and authorised by [`auth`], and
//! handled by one file of `verbs`. What an object may look like is decided by the pure modules
//! ([`builtin`], [`schema`], [`cel`], and the crate `patch`). The [`store`] holds all state. `gc` and
//! `namespaces` are the two background tasks that Kubernetes clients take for granted.
//!
//! The server knows no kind but Kubernetes' own; every other one is registered as a
//! CustomResourceDefinition.

// What an object is: its schema, rules, patches and pictures. Pure, no I/O.
pub mod builtin;
pub mod cel;
pub mod openapi;
pub mod protobuf;
pub mod schema;
pub mod table;

mod admission;
mod audit;
pub mod auth;
mod bootstrap;
mod call;
mod cluster_ip;
mod conversion;
mod core;
mod decode;
mod discovery;
mod disruption;
mod edit;
mod expiry;
pub mod files;
mod gc;
mod hex;
mod limit_range;
mod limits;
mod metadata;
mod metrics;
mod negotiate;
mod pages;
pub mod parameters;
pub mod path;
mod printing;
mod quota;
pub mod registry;
mod respond;
mod reviews;
mod room;
pub mod selector;
mod server;
pub mod status;
pub mod store;
mod subresources;
mod supervise;
mod tls;
mod verbs;

pub use auth::Identity;
pub use core::{Clock, ExtraGroup, Options};
pub use limits::Limits;
pub use room::Room;
pub use server::{Error, Result, Server};
