//! The server: opening it, and the ways into it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::quota::{self, Ledger};
use crate::admission::room::Rooms;
use crate::auth::Identity;
use crate::auth::policy::PolicyCache;
use crate::auth::tokens::Tokens;
use crate::http::audit::Audit;
use crate::http::dispatch;
use crate::http::documents::Documents;
use crate::http::limits::Usage;
use crate::http::metrics::Metrics;
use crate::http::tls::{self, Authority};
use crate::kinds::metadata;
use crate::kinds::registry::{Registry, definitions};
use crate::options::Options;
use crate::store::{self, Store};
use crate::tasks::bootstrap;
use crate::tasks::disruption::{self, Disruptions};
use crate::tasks::expiry;
use crate::tasks::gc;
use crate::tasks::roles;
use crate::tasks::supervise;

/// A running API server. Clones share it; when the last one is dropped its tasks end and the store
/// is closed.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
    _stop: Arc<DropGuard>,
}

/// What requests and tasks share.
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
    /// Whoever has it may decide about an object of a kind that takes turns: Services, whose addresses are unique.
    pub(crate) turns: tokio::sync::Mutex<()>,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<Audit>,
    pub(crate) documents: Documents,
    pub(crate) options: Options,
    /// Tasks that panicked and cannot be restarted.
    pub(crate) lost: Mutex<Vec<&'static str>>,
    /// Cancelled when the server stops; ends watches and tasks.
    pub(crate) stopping: CancellationToken,
}

impl Core {
    /// Now, as objects show it.
    pub(crate) fn now(&self) -> String {
        metadata::timestamp((self.options.clock)())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to open the object store")]
    Store(#[from] store::Error),
    #[error("failed to set up the certificate authority")]
    Authority(#[from] tls::Error),
    #[error("failed to open the audit log {}", path.display())]
    Audit {
        path: PathBuf,
        source: std::io::Error,
    },
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
            limits: options.history,
            reserve: options.reserve,
        };
        let (store, pending) = Store::open(&settings)?;
        let authority = Authority::open(&options.directory)?;
        let audit = options.audit_log.as_ref().map(|path| {
            Audit::open(path).map_err(|source| Error::Audit {
                path: path.clone(),
                source,
            })
        });
        let core = Arc::new(Core {
            registry: Arc::new(Registry::new(&definitions(&store))),
            tokens: Tokens::new(&options.admin_tokens, authority.token_key(), &store),
            policy: PolicyCache::default(),
            rights: tokio::sync::watch::Sender::new(0),
            usage: Arc::default(),
            quotas: Arc::default(),
            rooms: Arc::default(),
            disruptions: Disruptions::default(),
            turns: tokio::sync::Mutex::default(),
            metrics: Metrics::default(),
            audit: audit.transpose()?,
            documents: Documents::default(),
            lost: Mutex::default(),
            stopping: CancellationToken::new(),
            authority,
            store,
            options,
        });
        core.quotas.load(&core.store);
        core.rooms.load(&core.store);
        let (work, queue) = mpsc::unbounded_channel();
        let (told, events) = mpsc::unbounded_channel();
        let observed = Arc::downgrade(&core);
        // Who follows the store must not take its writer down.
        pending.start(supervise::observer(Box::new(move |resource, event| {
            // Only between the last handle's end and the writer's is there nothing to tell.
            let Some(core) = observed.upgrade() else {
                return;
            };
            core.registry.observe(&core.store, resource);
            if core.tokens.observe(resource, event) || core.policy.observe(resource) {
                core.rights.send_modify(|count| *count += 1);
            }
            if expiry::is_event(resource) {
                let _ = told.send(event.object.name.clone());
            }
            core.rooms.observe(event);
            core.disruptions.observe(&core.store, resource);
            core.quotas.observe(&core.store, resource, event);
            for item in gc::work(&core.store, resource, event) {
                let _ = work.send(item);
            }
        })))?;
        bootstrap::run(&core).await.map_err(Error::Bootstrap)?;
        supervise::run("gc", &core, gc::run(Arc::clone(&core), queue));
        supervise::run("expiry", &core, expiry::run(Arc::clone(&core), events));
        let quotas = Arc::clone(&core);
        supervise::spawn("quota", &core, move || quota::run(Arc::clone(&quotas)));
        let roles = Arc::clone(&core);
        supervise::spawn("roles", &core, move || roles::run(Arc::clone(&roles)));
        let budgets = Arc::clone(&core);
        supervise::spawn("budgets", &core, move || {
            disruption::run(Arc::clone(&budgets))
        });
        let stop = core.stopping.clone().drop_guard();
        Ok(Self {
            core,
            _stop: Arc::new(stop),
        })
    }

    /// The whole API. Requests are authenticated by bearer token or client certificate, or carry an
    /// [`Identity`] among their extensions, which nothing outside this process can add.
    pub fn router(&self) -> Router {
        Router::new()
            .fallback(|State(server): State<Self>, request: Request| async move {
                dispatch::handle(&server.core, request).await
            })
            .with_state(self.clone())
    }

    /// The API as one identity sees it, without a socket: `kube::Client::new(server.local(..), "default")`.
    pub fn local(&self, identity: Identity) -> Router {
        self.router().layer(axum::Extension(identity))
    }

    /// Serves the API over TLS until `shutdown`, with a certificate of the server's own authority.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<()> {
        let names = &self.core.options.host_names;
        tls::serve(
            &self.core.authority,
            names,
            self.router(),
            listener,
            shutdown,
        )
        .await?;
        Ok(())
    }

    /// Serves something else over TLS until `shutdown`, under other names but with the same authority.
    pub async fn serve_beside(
        &self,
        router: Router,
        names: &[String],
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<()> {
        tls::serve(&self.core.authority, names, router, listener, shutdown).await?;
        Ok(())
    }

    /// The certificate of the authority, for clients.
    pub fn ca_pem(&self) -> &str {
        self.core.authority.pem()
    }

    /// A kubeconfig with a bearer token, for the server at `url` (`https://127.0.0.1:8443`).
    pub fn kubeconfig(&self, url: &str, user: &str, token: &str, namespace: &str) -> String {
        tls::kubeconfig(&self.core.authority, url, user, token, namespace)
    }

    /// A client certificate and its key, in PEM.
    pub fn client_certificate(&self, user: &str, groups: &[&str]) -> Result<(String, String)> {
        Ok(self.core.authority.client_certificate(user, groups)?)
    }

    /// A serving certificate of the authority and its key, in PEM, for the kubelet of a node.
    pub fn serving_certificate(&self, names: &[String]) -> Result<(String, String)> {
        Ok(self.core.authority.serving_certificate(names)?)
    }

    /// Ends watches and tasks, and closes the store when every write that was begun is on disk.
    pub async fn close(&self) {
        self.core.stopping.cancel();
        self.core.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_anew_or_makes_the_server_unready() {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::open(Options::new(directory.path())).await.unwrap();
        let ready = async || {
            let request = http::Request::get("/readyz")
                .body(axum::body::Body::empty())
                .unwrap();
            let router = server.local(Identity::admin());
            let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
            answer.status().as_u16()
        };
        let begun = Arc::new(AtomicUsize::new(0));
        let (count, (told, mut ended)) = (Arc::clone(&begun), mpsc::unbounded_channel());
        supervise::spawn("one", &server.core, move || {
            let (count, told) = (Arc::clone(&count), told.clone());
            async move {
                let earlier = count.fetch_add(1, Ordering::Relaxed);
                earlier.checked_sub(2).expect("a bug");
                let _ = told.send(());
            }
        });
        ended.recv().await.unwrap();
        assert_eq!((begun.load(Ordering::Relaxed), ready().await), (3, 200));
        supervise::run("two", &server.core, async {
            let nothing = "".chars().next();
            nothing.map(drop).expect("a bug");
        });
        while ready().await == 200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ready().await, 500);
    }

    #[tokio::test]
    async fn a_server_whose_writer_has_ended_is_unready() {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::open(Options::new(directory.path())).await.unwrap();
        server.core.store.close().await;
        let request = http::Request::get("/readyz")
            .body(axum::body::Body::empty())
            .unwrap();
        let router = server.local(Identity::admin());
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(answer.status().as_u16(), 500);
    }
}
