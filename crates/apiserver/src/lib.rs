//! A Kubernetes-compatible API server over SQLite.
//!
//! ```text
//!   HTTP ── http ── auth ── verbs ── admission ── store ── SQLite
//!             \               |          |          |
//!              kinds ─────────+──────────+        watches ── tasks
//! ```
//!
//! A request is read and resolved by `http`, authenticated and authorised by `auth`, and handled by one
//! file of `verbs`. What an object may look like is decided by `kinds` and by `admission`,
//! which also looks at the other objects. The [`store`] holds all state; `tasks` follow it in the background.
//!
//! The server knows no kind but Kubernetes' own; every other one is registered as a
//! CustomResourceDefinition.

mod admission;
mod auth;
pub mod files;
mod http;
mod kinds;
mod options;
mod server;
mod status;
pub mod store;
mod tasks;
mod verbs;

pub use admission::room::Room;
pub use auth::Identity;
pub use http::limits::Limits;
pub use kinds::schema::Structural;
pub use options::{Clock, ExtraGroup, Options};
pub use server::{Error, Result, Server};

/// For tests and fuzzers only: the readers of what strangers send, and the kinds to send.
#[doc(hidden)]
pub mod internals {
    pub use crate::http::path::parse as path;
    pub use crate::http::protobuf::decode as protobuf;
    pub use crate::kinds::builtin::{KindInfo, kinds};
    pub use crate::kinds::selector::{Fields, Labels};

    /// A YAML document, if it is one and may be as large and deep.
    pub fn yaml(body: &[u8]) -> Option<serde_json::Value> {
        crate::http::decode::yaml(body).ok()
    }
}
