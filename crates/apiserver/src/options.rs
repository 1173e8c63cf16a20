//! How a server is set up.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::admission::room::Room;
use crate::http::limits::Limits;
use crate::store;

/// Where the server gets the time from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub struct Options {
    /// Holds the store and the certificate authority.
    pub directory: PathBuf,
    /// Bearer tokens of the administrator.
    pub admin_tokens: Vec<String>,
    /// What the server presents to nodes when it proxies logs and exec.
    pub kubelet_token: String,
    /// Groups that another router serves, such as `metrics.k8s.io`.
    pub extra_groups: Vec<ExtraGroup>,
    /// Names and addresses, besides loopback, that the server's certificate is for.
    pub host_names: Vec<String>,
    /// What one user may have under way.
    pub limits: Limits,
    /// What a namespace may hold whose annotations do not say otherwise.
    pub room: Room,
    /// How far back watches and lists can reach.
    pub history: store::Limits,
    /// Bytes of the disk that are held back, twice, for tidying up when it is full; 0 for none.
    pub reserve: u64,
    /// Where writes are recorded, if anywhere.
    pub audit_log: Option<PathBuf>,
    pub clock: Clock,
}

/// An API group served by a router of its own. The server authenticates and authorises; the router
/// finds the caller's [`crate::Identity`] in the request's extensions.
#[derive(Clone)]
pub struct ExtraGroup {
    pub group: String,
    pub version: String,
    /// `APIResource` entries for discovery.
    pub resources: Vec<Value>,
    pub router: axum::Router,
}

impl Options {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            admin_tokens: Vec::new(),
            kubelet_token: String::new(),
            extra_groups: Vec::new(),
            host_names: Vec::new(),
            limits: Limits::default(),
            room: Room::default(),
            history: store::Limits::default(),
            reserve: 0,
            audit_log: None,
            clock: Arc::new(Timestamp::now),
        }
    }
}
