//! Where training code reports its progress, by Kubeflow's protocol. It is served apart from the
//! API, to pods only, and answers as Kubernetes does.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;

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
        .fallback(|| async {
            status(
                StatusCode::NOT_FOUND,
                "NotFound",
                "there is nothing at this address",
            )
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(context)
}

async fn take(
    State(context): State<Arc<Context>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(body) = body else {
        let message = format!("the report is larger than {BODY_LIMIT} bytes");
        return status(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            &message,
        );
    };
    if name::check_label(&namespace).is_err() || name::check_subdomain(&name).is_err() {
        return status(
            StatusCode::NOT_FOUND,
            "NotFound",
            "there is no such TrainJob",
        );
    }
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .map(str::trim);
    let key = Key { namespace, name };
    match reports::take(&context, &key, token, &body).await {
        Ok(report) => Json(report).into_response(),
        Err(error) => refuse(error),
    }
}

fn refuse(error: Error) -> Response {
    let message = error.to_string();
    match error {
        Error::Unauthenticated => status(StatusCode::UNAUTHORIZED, "Unauthorized", &message),
        Error::Forbidden(_) => status(StatusCode::FORBIDDEN, "Forbidden", &message),
        Error::Malformed(_) => status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &message),
        Error::TooMany(seconds) => {
            let mut response = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &message);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Error::Cluster(kube::Error::Api(refusal)) if refusal.code < 500 => {
            let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::BAD_GATEWAY);
            status(code, &refusal.reason, &refusal.message)
        }
        Error::Cluster(source) => {
            tracing::error!(error = %crate::error::chain(&source), "failed to take a report of progress");
            status(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "internal error",
            )
        }
    }
}

/// An answer in Kubernetes' form.
fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, Json(body)).into_response()
}
