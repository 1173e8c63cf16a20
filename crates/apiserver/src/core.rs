//! What the parts of the server share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::auth::policy::PolicyCache;
use crate::auth::tokens::Tokens;
use crate::disruption::Disruptions;
use crate::limits::{Limits, Usage};
use crate::metadata;
use crate::metrics::Metrics;
use crate::pages::Documents;
use crate::quota::Ledger;
use crate::registry::{DEFINITIONS, Registry};
use crate::room::{Room, Rooms};
use crate::store::{self, Object, Query, Store};
use crate::tls::Authority;

/// Where the server gets the time from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) authority: Authority,
    pub(crate) tokens: Tokens,
    pub(crate) policy: PolicyCache,
    /// Counts the changes of tokens and rules, for those who rely on them for longer than a moment.
    pub(crate) rights: tokio::sync::watch::Sender<u64>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) quotas: Arc<Ledger>,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) disruptions: Disruptions,
    /// Whoever has it may give a Service an address.
    pub(crate) cluster_ips: tokio::sync::Mutex<()>,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<Audit>,
    pub(crate) documents: Documents,
    pub(crate) options: Options,
    /// Tasks that panicked and cannot be begun anew.
    pub(crate) lost: Mutex<Vec<&'static str>>,
    /// Cancelled when the server stops; ends watches and tasks.
    pub(crate) stopping: CancellationToken,
}

/// How a server is set up.
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
    /// So many bytes of the disk are held back, twice, for tidying up when it is full; 0 for none.
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

impl Core {
    /// Now, as objects show it.
    pub(crate) fn now(&self) -> String {
        metadata::timestamp((self.options.clock)())
    }
}

/// All stored definitions.
pub(crate) fn definitions(store: &Store) -> Vec<Arc<Object>> {
    store
        .list(DEFINITIONS, &Query::default())
        .map(|page| page.objects)
        .unwrap_or_default()
}
