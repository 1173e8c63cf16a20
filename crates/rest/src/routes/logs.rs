//! Logs.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::{Path, State};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::logs::{self, Selection};
use crate::context::Context;
use crate::error::Result;
use crate::extract::Parameters;
use crate::identity::Caller;
use crate::model::{ErrorBody, WorkerLogs};
use crate::world::Key;

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::new().routes(routes!(worker))
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
    Path(name): Path<String>,
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

fn selection(parameters: &Parameters) -> Result<Selection> {
    Ok(Selection {
        tail: parameters.integer("tail", 0..=i64::from(i32::MAX))?,
        since_seconds: parameters.integer("since", 1..=i64::from(i32::MAX))?,
        previous: parameters.flag("previous")?,
        timestamps: parameters.flag("timestamps")?,
    })
}
