//! What is sent as it happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::Stream;
use utoipa_axum::router::OpenApiRouter;

use crate::app;
use crate::app::logs::stream::{self, Item};
use crate::context::Context;
use crate::error::Result;
use crate::extract::{self, Call, OfJob, Parameters};
use crate::model::{ErrorBody, JobSummary, LogLine};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(logs; jobs)
}

/// Follow a job's log. Events are called `line`; `end` comes when the job is over. A client that
/// comes back with `Last-Event-ID` gets the line after it.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/stream", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "One worker only", minimum = 0),
        ("tail" = Option<i64>, Query, description = "How many lines before the end to begin", minimum = 0),
        ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = LogLine, content_type = "text/event-stream"), (status = "4XX", body = ErrorBody)))]
async fn logs(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let tail = parameters
        .integer("tail", 0..=1_000_000)?
        .and_then(|tail| usize::try_from(tail).ok());
    let after = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty());
    let token = extract::token(&headers);
    let items = stream::follow(&context, &caller, token, key, worker, after, tail).await?;
    let events = futures::stream::unfold(items, |mut items| async {
        let event = match items.recv().await? {
            Item::Line { id, line } => Event::default()
                .event("line")
                .id(id)
                .json_data(line)
                .unwrap_or_default(),
            Item::End => Event::default().event("end").data("{}"),
        };
        Some((Ok(event), items))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}

/// Follow all jobs: `job` when one changed, `deleted` when one is gone, `reset` when the client
/// should read its list again.
#[utoipa::path(get, path = "/api/trainjobs/stream", tag = "jobs",
    params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobSummary, content_type = "text/event-stream"), (status = "4XX", body = ErrorBody)))]
async fn jobs(
    Call(context, caller): Call,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let namespace = parameters.text("namespace").map(str::to_owned);
    let changes = app::feed::follow(&context, &caller, extract::token(&headers), namespace).await?;
    let events = futures::stream::unfold(changes, |mut changes| async {
        let event = match changes.recv().await? {
            app::feed::Item::Job(job) => Event::default()
                .event("job")
                .json_data(job)
                .unwrap_or_default(),
            app::feed::Item::Deleted(key) => Event::default()
                .event("deleted")
                .data(format!("{}/{}", key.namespace, key.name)),
            app::feed::Item::Reset => Event::default().event("reset").data("{}"),
        };
        Some((Ok(event), changes))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}
