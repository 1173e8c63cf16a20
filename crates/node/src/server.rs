//! The kubelet's HTTPS endpoints, which the API server proxies to.
//!
//! | path | |
//! |---|---|
//! | `/containerLogs/{namespace}/{pod}/{container}` | `kubectl logs` |
//! | `/exec/{namespace}/{pod}/{container}` | `kubectl exec`, `cp`: WebSocket and SPDY |
//! | `/attach/{namespace}/{pod}/{container}` | `kubectl attach`: output only |
//! | `/portForward/{namespace}/{pod}` | `kubectl port-forward`: SPDY, bare or in a WebSocket; channels |
//! | `/stacks/{namespace}/{pod}/{container}` | what its processes are doing; no kubelet has this |
//! | `/pods` | the pods bound to this node |
//! | `/stats/summary`, `/metrics` | what they use |
//! | `/healthz` | the only one that needs no token |
//!
//! Everything is read from the data directory and the supervisors' sockets, so the endpoints need
//! no state of their own (but remember whose the folders are) and work for pods that an earlier agent started, and for logs of pods
//! that are gone.

mod attach;
mod auth;
mod exec;
mod logs;
mod pods;
mod port_forward;
mod stacks;
mod stats;
pub(crate) mod tls;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};

use crate::metrics::Collector;

pub use tls::{Certificate, serve};

/// What the endpoints need to know.
#[derive(Clone)]
pub struct Options {
    pub data_dir: PathBuf,
    pub node_name: String,
    /// Whoever presents it may do everything here: it is the API server's.
    pub token: String,
    pub collector: Collector,
}

/// What the endpoints share.
pub(crate) struct Server {
    options: Options,
    identities: pods::Identities,
}

impl std::ops::Deref for Server {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

type State = axum::extract::State<Arc<Server>>;

/// The endpoints, behind the bearer token.
pub fn router(options: Options) -> Router {
    let server = Arc::new(Server {
        options,
        identities: pods::Identities::default(),
    });
    Router::new()
        .route(
            "/containerLogs/{namespace}/{pod}/{container}",
            get(logs::serve),
        )
        .route("/exec/{namespace}/{pod}/{container}", any(exec::serve))
        .route("/attach/{namespace}/{pod}/{container}", any(attach::serve))
        .route("/portForward/{namespace}/{pod}", any(port_forward::serve))
        .route("/stacks/{namespace}/{pod}/{container}", get(stacks::serve))
        .route("/pods", get(pods::serve))
        .route("/stats/summary", get(stats::summary))
        .route("/metrics", get(stats::prometheus))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&server),
            auth::require_token,
        ))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(server)
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal. The text goes to the user as it is, in the kubelet's words where it has some.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("pod {pod:?} in namespace {namespace:?} is not on this node")]
    NoSuchPod { namespace: String, pod: String },
    #[error("container {container} is not valid for pod {pod}")]
    NoSuchContainer { pod: String, container: String },
    #[error("container {container:?} in pod {pod:?} is waiting to start: {reason}")]
    Waiting {
        pod: String,
        container: String,
        reason: String,
    },
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { pod: String, container: String },
    #[error("container {container:?} in pod {pod:?} is not running")]
    NotRunning { pod: String, container: String },
    #[error("pod {pod:?} is not running")]
    PodNotRunning { pod: String },
    #[error("{0}")]
    BadRequest(String),
    #[error("{parameter}: Invalid value: {value:?}: {problem}")]
    Parameter {
        parameter: &'static str,
        value: String,
        problem: &'static str,
    },
    #[error("the node has not started yet")]
    Starting,
    #[error("failed to read the log")]
    Log(#[source] std::io::Error),
    #[error("failed to read the node's pods")]
    Pods(#[source] std::io::Error),
    #[error("failed to talk to the pod's supervisor")]
    Control(#[from] crate::control::Error),
    #[error("failed to make pipes or a terminal for the program")]
    Streams(#[source] std::io::Error),
    #[error("failed to read objects from the API server")]
    Api(#[from] kube::Error),
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let code = match &self {
            Self::NoSuchPod { .. } => StatusCode::NOT_FOUND,
            Self::NoSuchContainer { .. }
            | Self::Waiting { .. }
            | Self::NoPrevious { .. }
            | Self::NotRunning { .. }
            | Self::PodNotRunning { .. }
            | Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Parameter { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Starting => StatusCode::SERVICE_UNAVAILABLE,
            Self::Log(_) | Self::Pods(_) | Self::Control(_) | Self::Streams(_) | Self::Api(_) => {
                let chain: Vec<String> =
                    std::iter::successors(std::error::Error::source(&self), |error| error.source())
                        .map(ToString::to_string)
                        .collect();
                tracing::warn!(error = %self, causes = ?chain, "a kubelet request failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (code, self.to_string()).into_response()
    }
}
