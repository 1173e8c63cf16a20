//! What every part of the application needs.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::create::Idempotency;
use crate::app::{self, Error};
use crate::form::Policy;
use crate::form::manifest::Dialect;
use crate::history::History;
use crate::identity::Gate;
use crate::logbook::Logbook;
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
    pub dialect: Dialect,
    /// Where records, logs and the audit trail of jobs are kept.
    pub directory: PathBuf,
}

impl Options {
    /// The usual options for a client and a folder.
    pub fn new(client: Client, directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            client,
            authentication: Authentication::Token,
            policy: Policy::default(),
            dialect: Dialect::RuntimePatches,
        }
    }
}

/// The application: options, caches, and the tasks that keep them current.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) authentication: Authentication,
    pub(crate) policy: Policy,
    pub(crate) dialect: Dialect,
    pub(crate) gate: Gate,
    pub(crate) world: Arc<World>,
    pub(crate) history: History,
    pub(crate) logbook: Logbook,
    pub(crate) idempotency: Idempotency,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Context {
    pub(crate) fn new(options: Options, stop: CancellationToken) -> app::Result<Self> {
        std::fs::create_dir_all(&options.directory).map_err(Error::disk)?;
        Ok(Self {
            history: History::open(&options.directory).map_err(Error::disk)?,
            logbook: Logbook::open(&options.directory).map_err(Error::disk)?,
            gate: Gate::new(options.client.clone()),
            world: World::new(),
            idempotency: Idempotency::default(),
            client: options.client,
            authentication: options.authentication,
            policy: options.policy,
            dialect: options.dialect,
            stop,
            tasks: TaskTracker::new(),
        })
    }

    #[expect(
        clippy::unused_self,
        reason = "time is asked of the context, which may have a clock of its own"
    )]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
