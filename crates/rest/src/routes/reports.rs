//! Where training code reports its progress, by Kubeflow's protocol. It is served apart from the
//! API, to pods only, and answers as Kubernetes does.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};

use crate::app::reports::{self, Error};
use crate::context::Context;
use crate::form::name;
use crate::world::Key;

/// The largest report that is read.
const BODY_LIMIT: usize = 64 * 1024;

pub(crate) fn router(context: Arc<Context>) -> Router {
    let path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status";
    Router::new()
        .route(path, post(take))
        .fallback(|| async { Error::NotFound("there is nothing at this address") })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(context)
}

async fn take(
    State(context): State<Arc<Context>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, Error> {
    let body = body.map_err(|_| Error::TooLarge(BODY_LIMIT))?;
    if name::check_label(&namespace).is_err() || name::check_subdomain(&name).is_err() {
        return Err(Error::NotFound("there is no such TrainJob"));
    }
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .map(str::trim);
    let key = Key { namespace, name };
    reports::take(&context, &key, token, &body).await.map(Json)
}
