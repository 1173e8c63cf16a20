//! The server: opening it, and the ways into it.

mod dispatch;

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::auth::Identity;
use crate::bootstrap;
use crate::core::{Core, Options, definitions};
use crate::registry::{DEFINITIONS, Registry};
use crate::store::{self, Limits, Store};

/// A running API server. Clones share it; when the last one is dropped its tasks end and the store
/// is closed.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
    _stop: Arc<DropGuard>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to open the object store")]
    Store(#[from] store::Error),
    #[error("failed to create the initial objects")]
    Bootstrap(#[source] crate::status::ApiError),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Server {
    /// Opens the store in the data directory and starts the tasks of the server on the current
    /// runtime. Everything that clients expect to exist does when this returns.
    pub async fn open(options: Options) -> Result<Self> {
        let settings = store::Options {
            directory: options.directory.clone(),
            limits: Limits::default(),
        };
        let (store, pending) = Store::open(&settings)?;
        let registry = Arc::new(Registry::new(&definitions(&store)));
        let observer = {
            let (registry, store) = (Arc::clone(&registry), store.downgrade());
            move |resource: &Arc<str>, _: &store::Event| {
                if let (DEFINITIONS, Some(store)) = (&**resource, store.upgrade()) {
                    registry.replace(&definitions(&store));
                }
            }
        };
        pending.start(Box::new(observer))?;
        let stopping = CancellationToken::new();
        let core = Arc::new(Core {
            store,
            registry,
            options,
            stopping: stopping.clone(),
        });
        bootstrap::run(&core).await.map_err(Error::Bootstrap)?;
        Ok(Self {
            core,
            _stop: Arc::new(stopping.drop_guard()),
        })
    }

    /// The whole API. Requests are authenticated by bearer token or client certificate, or carry an
    /// [`Identity`] among their extensions, which nothing outside this process can add.
    pub fn router(&self) -> Router {
        Router::new()
            .fallback(dispatch::handle)
            .with_state(self.clone())
    }

    /// The API as one identity sees it, without a socket: `kube::Client::new(server.local(..), "default")`.
    pub fn local(&self, identity: Identity) -> Router {
        self.router().layer(axum::Extension(identity))
    }

    /// Ends watches and tasks, and closes the store when every write that was begun is on disk.
    pub async fn close(&self) {
        self.core.stopping.cancel();
        self.core.store.close().await;
    }
}
