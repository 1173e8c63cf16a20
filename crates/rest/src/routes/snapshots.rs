//! Folders of code.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::http::HeaderName;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use utoipa_axum::router::OpenApiRouter;

use crate::app::Error;
use crate::app::snapshots;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Call, OfJob, Parameters};
use crate::model::{ErrorBody, SnapshotInfo};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(upload; describe; code)
}

/// Upload a folder of code: a tar archive of plain files, compressed with gzip.
///
/// Jobs of the same namespace can then name it as `snapshot`. A content that is there already is not
/// stored again. A snapshot that no job has used within an hour is forgotten.
#[utoipa::path(post, path = "/api/snapshots", tag = "jobs",
    params(("namespace" = Option<String>, Query)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = SnapshotInfo), (status = "4XX", body = ErrorBody)))]
async fn upload(
    Call(context, caller): Call,
    parameters: Parameters,
    body: Body,
) -> Result<Answer<SnapshotInfo>> {
    let namespace = parameters.namespace(&caller)?;
    let body = body.into_data_stream();
    snapshots::upload(&context, &caller, &namespace, body)
        .await
        .map(Answer)
}

/// What is stored under a digest.
#[utoipa::path(get, path = "/api/snapshots/{digest}", tag = "jobs",
    params(
        ("digest" = String, Path, description = "sha256: and 64 hexadecimal digits"),
        ("namespace" = Option<String>, Query)),
    responses((status = 200, body = SnapshotInfo), (status = "4XX", body = ErrorBody)))]
async fn describe(
    Call(context, caller): Call,
    axum::extract::Path(digest): axum::extract::Path<String>,
    parameters: Parameters,
) -> Result<Answer<SnapshotInfo>> {
    let namespace = parameters.namespace(&caller)?;
    let digest = digest
        .parse()
        .map_err(|message| Error::invalid("digest", message))?;
    snapshots::describe(&context, &caller, &namespace, &digest)
        .await
        .map(Answer)
}

/// The code that a job runs or ran, as a tar archive compressed with gzip.
#[utoipa::path(get, path = "/api/trainjobs/{name}/code", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/gzip"),
        (status = "4XX", body = ErrorBody)))]
async fn code(OfJob(context, caller, key): OfJob) -> Result<([(HeaderName, String); 2], Body)> {
    let archive = snapshots::code(&context, &caller, &key).await?;
    let file = format!("attachment; filename=\"{}.tar.gz\"", key.name);
    let headers = [
        (CONTENT_TYPE, "application/gzip".to_owned()),
        (CONTENT_DISPOSITION, file),
    ];
    Ok((headers, Body::from_stream(archive)))
}
