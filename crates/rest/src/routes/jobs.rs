//! Jobs.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Json, Parameters};
use crate::identity::Caller;
use crate::model::{CreateRequest, CreateResponse, Deleted, ErrorBody, JobStatus};
use crate::world::Key;

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(status))
        .routes(routes!(delete))
        .routes(routes!(suspend))
        .routes(routes!(resume))
}

/// Create a training job, in either form.
#[utoipa::path(post, path = "/api/trainjob/create", tag = "jobs", request_body = CreateRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeat a request safely")),
    responses((status = 200, body = CreateResponse), (status = "4XX", body = ErrorBody)))]
async fn create(
    State(context): State<Arc<Context>>,
    caller: Caller,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Answer<CreateResponse>> {
    let key = headers
        .get("idempotency-key")
        .map(|value| value.to_str().unwrap_or_default());
    Ok(Answer(
        app::create::create(&context, &caller, &body, key).await?,
    ))
}

/// The state of a job.
#[utoipa::path(get, path = "/api/trainjob/{name}/status", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn status(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Result<Answer<JobStatus>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    Ok(Answer(app::jobs::status(&context, &caller, &key).await?))
}

/// Delete a job, its pods and its code.
#[utoipa::path(delete, path = "/api/trainjob/{name}", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Deleted), (status = "4XX", body = ErrorBody)))]
async fn delete(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Result<Answer<Deleted>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    Ok(Answer(app::jobs::delete(&context, &caller, &key).await?))
}

/// Hold a job: its pods go, the job stays.
#[utoipa::path(post, path = "/api/trainjob/{name}/suspend", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn suspend(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Result<Answer<JobStatus>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    Ok(Answer(
        app::jobs::suspend(&context, &caller, &key, true).await?,
    ))
}

/// Let a held job go on.
#[utoipa::path(post, path = "/api/trainjob/{name}/resume", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn resume(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Result<Answer<JobStatus>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    Ok(Answer(
        app::jobs::suspend(&context, &caller, &key, false).await?,
    ))
}
