//! What every part of the application needs.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use astrago_mirror::Mirrors;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::create::Idempotency;
use crate::app::glance::Glances;
use crate::app::stalls::Stalls;
use crate::app::{self, Error};
use crate::cluster::Cluster;
use crate::form::Policy;
use crate::history::{History, SESSION_PREFIX};
use crate::identity::{Caller, Gate};
use crate::ledger::Ledger;
use crate::limits::{Limiter, Limits};
use crate::logbook::Logbook;
use crate::oidc::{Oidc, OidcOptions};
use crate::outbound::Outbound;
use crate::patience::impatient;
use crate::snapshots::Snapshots;
use crate::world::World;

/// How callers prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// A bearer token, or the page's cookie with one.
    Token,
    /// None: everybody is the administrator. Only for a server that listens on loopback; requests
    /// with a foreign `Host` or `Origin` are refused.
    Off,
}

/// How the REST API is set up.
pub struct Options {
    /// Acts with the product's own rights, among them impersonation.
    pub client: Client,
    pub authentication: Authentication,
    pub policy: Policy,
    pub cluster: Cluster,
    /// Sends requests without any credentials. Where it is present, what callers ask for is done with
    /// their own token, and no right to impersonate them is needed.
    pub bearer_client: Option<Client>,
    /// Where records, logs, the code and the audit trail of jobs are kept.
    pub directory: PathBuf,
    pub retention: Retention,
    /// Whether users may have this machine and its private networks notified.
    pub private_webhooks: bool,
    /// Whether browsers reach this server over TLS, so that its cookies can be kept to that.
    pub secure: bool,
    /// The provider that browsers sign in with; its tokens are those that the API server takes.
    pub oidc: Option<OidcOptions>,
    /// Whether users and their tokens are the embedded API server's, for this API to manage.
    pub manages_users: bool,
    /// What plans depend on besides the objects; as the controllers have it.
    pub plan: astrago_plan::Options,
    /// `None` for no limits.
    pub limits: Option<Limits>,
    pub clock: Clock,
    /// Copies of the cluster's objects, which others in this process may read too.
    pub mirrors: Mirrors,
    /// Whether the nodes can mount code from `directory`: those of the embedded engine can.
    pub mounts_snapshots: bool,
}

/// Where the time comes from; tests bring their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How long and how much of jobs that are gone is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
    /// Of all logs and records together; the oldest jobs go first.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_hours(30 * 24),
            bytes: 20 << 30,
        }
    }
}

impl Options {
    /// The usual options for a client and a folder.
    pub fn new(client: Client, directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            client,
            authentication: Authentication::Token,
            policy: Policy::default(),
            retention: Retention::default(),
            private_webhooks: false,
            secure: false,
            oidc: None,
            manages_users: true,
            plan: astrago_plan::Options::default(),
            limits: Some(Limits::default()),
            clock: Arc::new(Timestamp::now),
            mirrors: Mirrors::default(),
            mounts_snapshots: false,
            cluster: Cluster::default(),
            bearer_client: None,
        }
    }
}

/// Where snapshots lie below the folder of the options; the embedded engine's node looks there too.
pub fn snapshots_folder(directory: &Path) -> PathBuf {
    directory.join("snapshots")
}

/// The application: options, caches, and the tasks that keep them current.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) authentication: Authentication,
    pub(crate) policy: Policy,
    cluster: RwLock<Arc<Cluster>>,
    connected: AtomicBool,
    pub(crate) gate: Gate,
    pub(crate) world: Arc<World>,
    pub(crate) history: History,
    pub(crate) logbook: Logbook,
    pub(crate) ledger: Ledger,
    pub(crate) glances: Glances,
    pub(crate) stalls: Stalls,
    pub(crate) idempotency: Idempotency,
    pub(crate) retention: Retention,
    pub(crate) limiter: Limiter,
    pub(crate) secure: bool,
    pub(crate) oidc: Option<Oidc>,
    pub(crate) manages_users: bool,
    pub(crate) plan: astrago_plan::Options,
    clock: Clock,
    pub(crate) outbound: Outbound,
    /// Woken when a notification is to be sent.
    pub(crate) deliveries: Notify,
    pub(crate) snapshots: Snapshots,
    pub(crate) mounts_snapshots: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Context {
    pub(crate) fn new(options: Options, stop: CancellationToken) -> app::Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&options.directory)
            .map_err(Error::disk)?;
        let client = impatient(&options.client);
        let bearer = options.bearer_client.as_ref().map(impatient);
        Ok(Self {
            history: History::open(&options.directory).map_err(Error::disk)?,
            ledger: Ledger::default(),
            glances: Glances::default(),
            stalls: Stalls::default(),
            logbook: Logbook::open(&options.directory).map_err(Error::disk)?,
            snapshots: Snapshots::new(snapshots_folder(&options.directory)),
            mounts_snapshots: options.mounts_snapshots,
            gate: Gate::new(client.clone(), bearer),
            world: World::new(options.mirrors),
            idempotency: Idempotency::default(),
            retention: options.retention,
            limiter: Limiter::new(options.limits),
            secure: options.secure,
            oidc: options
                .oidc
                .map(Oidc::new)
                .transpose()
                .map_err(|source| Error::Internal {
                    operation: "set up the sign-in",
                    source: Box::new(source),
                })?,
            manages_users: options.manages_users,
            plan: options.plan,
            clock: options.clock,
            outbound: Outbound::new(options.private_webhooks).map_err(|source| {
                Error::Internal {
                    operation: "set up the HTTP client",
                    source: Box::new(source),
                }
            })?,
            deliveries: Notify::new(),
            client,
            authentication: options.authentication,
            policy: options.policy,
            cluster: RwLock::new(Arc::new(options.cluster)),
            connected: AtomicBool::new(true),
            stop,
            tasks: TaskTracker::new(),
        })
    }

    /// Who a bearer token, or the page's cookie, belongs to.
    pub(crate) async fn caller(&self, token: &str) -> app::Result<Caller> {
        if token.starts_with(SESSION_PREFIX) {
            let session = self.history.session(token, self.now());
            let id_token = session.map_err(Error::disk)?;
            return self
                .gate
                .caller(&id_token.ok_or(Error::Unauthenticated)?)
                .await;
        }
        self.gate.caller(token).await
    }

    /// Whether the API server answered when it was last asked.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        if self.connected.swap(connected, Ordering::Relaxed) != connected {
            if connected {
                tracing::info!("the API server answers again");
            } else {
                tracing::warn!("the API server does not answer; what is shown is from before");
            }
        }
    }

    /// What is known of the cluster.
    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_cluster(&self, mut cluster: Cluster) {
        let mut known = self.cluster.write().unwrap_or_else(PoisonError::into_inner);
        // Who runs the jobs is known better by those who started us than from a definition.
        cluster.extended &= known.extended;
        if **known != cluster {
            tracing::info!(?cluster, "the cluster has changed");
            *known = Arc::new(cluster);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}
