//! The product's HTTP API and the embedded web page.
//!
//! ```text
//! request ── guard ── extract ── routes ── app ──┬── world    reads: caches kept by watches
//!           (origin)  (caller,   (thin)          ├── form     a request body to objects, pure
//!                      JSON)                     ├── view     objects to answers, pure
//!                                                └── kube     writes, impersonating the caller
//! ```
//!
//! Nothing here knows whether the API server is the embedded one or a real cluster's: there is
//! one [`kube::Client`], and rights are decided by the API server's RBAC.

mod app;
mod cause;
mod cluster;
mod context;
mod error;
mod extract;
mod form;
mod guard;
mod history;
mod identity;
mod ledger;
mod legacy;
mod limits;
mod logbook;
mod metrics;
pub mod model;
mod names;
mod oidc;
mod outbound;
mod patience;
mod progress;
mod routes;
mod signature;
pub mod snapshot;
mod snapshots;
mod stall;
mod ui;
mod view;
mod world;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;

pub use self::cluster::{Cluster, DetectError};
pub use self::context::{Authentication, Clock, Options, Retention, snapshots_folder};
pub use self::form::Policy;
pub use self::form::manifest::Dialect;
pub use self::history::{BackupError, backup as backup_history, check as check_history};
pub use self::limits::{Limit, Limits};
pub use self::oidc::OidcOptions;
use crate::context::Context;

/// The API, running: its router, and the tasks that keep its caches current.
pub struct Rest {
    context: Arc<Context>,
}

impl Rest {
    /// Starts the caches' tasks and waits until they know the cluster.
    pub async fn start(options: Options, stop: CancellationToken) -> Result<Self, StartError> {
        let context = Arc::new(Context::new(options, stop).map_err(StartError)?);
        app::users::install_role(&context)
            .await
            .map_err(StartError)?;
        let world = Arc::clone(&context.world);
        context
            .tasks
            .spawn(world.follow(context.client.clone(), context.stop.clone()));
        tokio::select! {
            () = context.world.synced() => {}
            () = context.stop.cancelled() => {}
        }
        keep(&context, "recorder", logbook::recorder::run);
        keep(&context, "upkeep", app::upkeep::run);
        keep(&context, "sampling", app::sampling::run);
        keep(&context, "stalls", app::stalls::run);
        keep(&context, "webhooks", app::webhooks::run);
        keep(&context, "lifetimes", app::lifetimes::run);
        keep(&context, "cluster", watch_cluster);
        Ok(Self { context })
    }

    /// The router of the whole API and the page.
    pub fn router(&self) -> Router {
        let (router, document) = routes::all().split_for_parts();
        let json = describe(document).to_json().unwrap_or_default();
        let document = move || async move { ([("content-type", "application/json")], json) };
        router
            .route("/api/openapi.json", axum::routing::get(document))
            .route("/healthz", axum::routing::get(|| async { "ok" }))
            .merge(routes::oidc::routes())
            .fallback(ui::fallback)
            .method_not_allowed_fallback(|| async { app::Error::MethodNotAllowed })
            .layer(DefaultBodyLimit::max(extract::BODY_LIMIT))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.context),
                guard::guard,
            ))
            .with_state(Arc::clone(&self.context))
    }

    /// Where training code reports its progress; to be served over TLS to pods, and to nobody else.
    pub fn reports(&self) -> Router {
        routes::reports::router(Arc::clone(&self.context))
    }

    /// Waits for the tasks to end, after the token they were started with was cancelled.
    pub async fn stopped(&self) {
        self.context.tasks.close();
        self.context.tasks.wait().await;
    }
}

/// Runs one of the tasks for as long as the API runs.
fn keep<F: Future<Output = ()> + Send + 'static>(
    context: &Arc<Context>,
    name: &'static str,
    task: fn(Arc<Context>) -> F,
) {
    let kept = Arc::clone(context);
    let task =
        astrago_net::supervise::keep(name, context.stop.clone(), move || task(Arc::clone(&kept)));
    context.tasks.spawn(task);
}

/// How often the API server is asked whether it is there.
const PROBE: Duration = Duration::from_secs(2);

/// How many probes pass until the cluster is looked at again; at once when its definition of TrainJobs has changed.
const PROBES_PER_DETECTION: u32 = 30;

/// Keeps what is known of the cluster current: whether it answers, and what its Trainer is, which may
/// be upgraded while we run.
async fn watch_cluster(context: Arc<Context>) {
    let mut known = Cluster::definition_version(&context.client).await;
    for turn in 1_u32.. {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(PROBE) => {}
        }
        let answer = tokio::time::timeout(PROBE * 2, context.client.apiserver_version()).await;
        context.set_connected(matches!(answer, Ok(Ok(_))));
        if !context.is_connected() {
            // While the API server is away, what was known before stays.
            continue;
        }
        let version = Cluster::definition_version(&context.client).await;
        let changed = version.is_some() && version != known;
        if (changed || turn.is_multiple_of(PROBES_PER_DETECTION))
            && let Ok(mut cluster) = Cluster::detect(&context.client).await
        {
            known = version;
            if context.manages_users {
                // On one machine the definitions are ours whoever runs the jobs; that was said at the start.
                cluster.extended = context.cluster().extended;
            }
            context.set_cluster(cluster);
        }
    }
}

/// The description of the whole API, as it is served at `/api/openapi.json`.
pub fn openapi() -> utoipa::openapi::OpenApi {
    describe(routes::all().split_for_parts().1)
}

fn describe(operations: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    document.merge(operations);
    document
}

#[derive(Debug, thiserror::Error)]
#[error("failed to prepare the cluster for the REST API")]
pub struct StartError(#[source] app::Error);

/// The frame of the OpenAPI document; operations are added from the routes.
#[derive(OpenApi)]
#[openapi(info(
    title = "Astrago Trainer",
    description = "Distributed training with only training code."
))]
struct Document;

/// A short random text of lower-case letters and digits, for names and request numbers.
fn random_text(length: usize) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = rand::rng();
    (0..length)
        .map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())]))
        .collect()
}
