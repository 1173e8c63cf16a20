//! Logs.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Error;
use crate::app::logs::{self, Selection, Wanted};
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Name, Parameters};
use crate::identity::Caller;
use crate::model::{ErrorBody, LogLines, SearchResult, WorkerLogs};
use crate::world::Key;

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::new()
        .routes(routes!(worker))
        .routes(routes!(merged))
        .routes(routes!(search))
        .routes(routes!(download))
}

/// One worker's log.
#[utoipa::path(get, path = "/api/trainjob/{name}/logs", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "The rank, 0 by default", minimum = 0),
        ("tail" = Option<i64>, Query, description = "Only so many lines from the end", minimum = 0),
        ("since" = Option<i64>, Query, description = "Only the last so many seconds", minimum = 1),
        ("previous" = Option<bool>, Query, description = "The attempt before this one"),
        ("timestamps" = Option<bool>, Query)),
    responses((status = 200, body = WorkerLogs), (status = "4XX", body = ErrorBody)))]
async fn worker(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Name(name): Name,
    parameters: Parameters,
) -> Result<Answer<WorkerLogs>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    let worker = parameters
        .integer("worker", 0..=i64::from(i32::MAX))?
        .unwrap_or(0);
    let selection = selection(&parameters)?;
    Ok(Answer(
        logs::worker(&context, &caller, &key, worker, &selection).await?,
    ))
}

/// The log of all workers, in the order of time.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "One worker only", minimum = 0),
        ("tail" = Option<i64>, Query, description = "Only so many lines from the end", minimum = 0),
        ("since" = Option<i64>, Query, description = "Only the last so many seconds", minimum = 1),
        ("previous" = Option<bool>, Query, description = "The attempt before this one")),
    responses((status = 200, body = LogLines), (status = "4XX", body = ErrorBody)))]
async fn merged(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Name(name): Name,
    parameters: Parameters,
) -> Result<Answer<LogLines>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let selection = selection(&parameters)?;
    Ok(Answer(
        logs::merged(&context, &caller, &key, worker, &selection).await?,
    ))
}

/// Search the log of all workers.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/search", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("q" = String, Query, description = "What to look for"),
        ("regex" = Option<bool>, Query),
        ("worker" = Option<i64>, Query, minimum = 0),
        ("context" = Option<i64>, Query, description = "Lines around each hit", minimum = 0, maximum = 20),
        ("limit" = Option<i64>, Query, description = "Most hits, 100 by default", minimum = 1, maximum = 1000)),
    responses((status = 200, body = SearchResult), (status = "4XX", body = ErrorBody)))]
async fn search(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Name(name): Name,
    parameters: Parameters,
) -> Result<Answer<SearchResult>> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let count = |value: Option<i64>, default| {
        value
            .and_then(|value| usize::try_from(value).ok())
            .unwrap_or(default)
    };
    let wanted = Wanted {
        text: parameters
            .text("q")
            .ok_or_else(|| Error::invalid("q", "is required"))?
            .to_owned(),
        regex: parameters.flag("regex")?,
        context: count(parameters.integer("context", 0..=20)?, 0),
        limit: count(parameters.integer("limit", 1..=1000)?, 100),
    };
    Ok(Answer(
        logs::find(&context, &caller, &key, worker, wanted).await?,
    ))
}

/// The log as a text file.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/download", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, minimum = 0),
        ("previous" = Option<bool>, Query)),
    responses((status = 200, body = String, content_type = "text/plain"), (status = "4XX", body = ErrorBody)))]
async fn download(
    State(context): State<Arc<Context>>,
    caller: Caller,
    Name(name): Name,
    parameters: Parameters,
) -> Result<([(HeaderName, String); 2], Body)> {
    let key = Key {
        namespace: parameters.namespace(&caller)?,
        name,
    };
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let lines = logs::download(
        &context,
        &caller,
        &key,
        worker,
        parameters.flag("previous")?,
    )
    .await?;
    let file = format!(
        "attachment; filename=\"{}.log\"",
        key.name.replace(['"', '\\', '\n', '\r'], "_")
    );
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, file),
    ];
    Ok((headers, Body::from_stream(lines)))
}

fn selection(parameters: &Parameters) -> Result<Selection> {
    Ok(Selection {
        tail: parameters.integer("tail", 0..=i64::from(i32::MAX))?,
        since_seconds: parameters.integer("since", 1..=i64::from(i32::MAX))?,
        previous: parameters.flag("previous")?,
        timestamps: parameters.flag("timestamps")?,
    })
}
