//! Logs.

use std::io;
use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::http::HeaderName;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;

use super::count;
use crate::app::Error;
use crate::app::logs::page::{self, Where};
use crate::app::logs::stream::Position;
use crate::app::logs::{self, Selection, Wanted};
use crate::context::Context;
use crate::error::Result;
use crate::extract::{OfJob, Parameters};
use crate::model::{ErrorBody, LogAttempt, LogLines, LogPage, SearchResult, WorkerLogs};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(worker; merged; page; attempts; search; download)
}

/// One worker's log.
#[utoipa::path(get, path = "/api/trainjob/{name}/logs", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "The rank, 0 by default", minimum = 0),
        ("tail" = Option<i64>, Query, description = "How many lines from the end; 100000 by default", minimum = 0),
        ("since" = Option<i64>, Query, description = "Only lines no older than this, in seconds", minimum = 1),
        ("previous" = Option<bool>, Query, description = "The attempt before this one"),
        ("timestamps" = Option<bool>, Query)),
    responses((status = 200, body = WorkerLogs), (status = "4XX", body = ErrorBody)))]
async fn worker(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<([(HeaderName, &'static str); 1], Body)> {
    let worker = parameters
        .integer("worker", 0..=i64::from(i32::MAX))?
        .unwrap_or(0);
    let mut selection = selection(&parameters)?;
    selection.tail = selection.tail.or(Some(logs::MOST_LINES));
    let text = logs::worker(&context, &caller, &key, worker, &selection).await?;
    let head = format!(
        "{{\"trainjob_name\":{},\"worker\":{worker},\"logs\":\"",
        json(&key.name)
    );
    let pieces = text.map_ok(|text| {
        let quoted = json(&text);
        quoted[1..quoted.len() - 1].to_owned()
    });
    Ok((
        [(CONTENT_TYPE, "application/json")],
        between(head, pieces, "\"}").await?,
    ))
}

/// The log of all workers, in the order of time.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "One worker only", minimum = 0),
        ("tail" = Option<i64>, Query, description = "How many lines from the end; 100000 by default, except with `format=ndjson`", minimum = 0),
        ("since" = Option<i64>, Query, description = "Only lines no older than this, in seconds", minimum = 1),
        ("previous" = Option<bool>, Query, description = "The attempt before this one"),
        ("format" = Option<String>, Query, description = "`ndjson` for one JSON object per line, without an end to how many")),
    responses((status = 200, body = LogLines), (status = "4XX", body = ErrorBody)))]
async fn merged(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<([(HeaderName, &'static str); 1], Body)> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let mut selection = selection(&parameters)?;
    let by_line = match parameters.text("format") {
        None | Some("json") => false,
        Some("ndjson") => true,
        Some(other) => {
            let message = format!("must be json or ndjson, not {other:?}");
            return Err(Error::invalid("format", message));
        }
    };
    if !by_line {
        selection.tail = selection.tail.or(Some(logs::MOST_LINES));
    }
    let lines = logs::merged(&context, &caller, &key, worker, &selection).await?;
    if by_line {
        let pieces = lines.map_ok(|lines| lines.iter().map(|line| json(line) + "\n").collect());
        let body = between(String::new(), pieces, "").await?;
        return Ok(([(CONTENT_TYPE, "application/x-ndjson")], body));
    }
    let head = format!("{{\"trainjob_name\":{},\"lines\":[", json(&key.name));
    let mut first = true;
    let pieces = lines.map_ok(move |lines| {
        let mut text = String::new();
        for line in &lines {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(&json(line));
        }
        text
    });
    Ok((
        [(CONTENT_TYPE, "application/json")],
        between(head, pieces, "]}").await?,
    ))
}

/// A short answer is sent as one, with its length; a longer one as it is read.
const SHORT: usize = 1 << 20;

/// A body of a head, what comes, and a tail.
async fn between(
    head: String,
    pieces: impl Stream<Item = io::Result<String>> + Send + 'static,
    tail: &str,
) -> Result<Body> {
    let mut pieces = Box::pin(pieces);
    let mut text = head;
    while text.len() < SHORT {
        match pieces.next().await {
            Some(piece) => text.push_str(&piece.map_err(Error::disk)?),
            None => return Ok(Body::from(text + tail)),
        }
    }
    let ends = |text: String| futures::stream::once(async { Ok(text) });
    let whole = ends(text).chain(pieces).chain(ends(tail.to_owned()));
    Ok(Body::from_stream(whole))
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    // Texts and plain structures always can be written.
    serde_json::to_string(value).unwrap_or_else(|_| "\"\"".to_owned())
}

/// A page of the log of all workers: its end, or the lines before or behind a place, around a time or
/// a part of the way through.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/page", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "One worker only", minimum = 0),
        ("attempt" = Option<i64>, Query, description = "How many attempts back; 0 is the last one", minimum = 0),
        ("before" = Option<String>, Query, description = "A page's `start`: what comes before it"),
        ("after" = Option<String>, Query, description = "A page's `end`: what comes behind it"),
        ("around" = Option<String>, Query, description = "The `place` of a search's hit: what is around it"),
        ("time" = Option<String>, Query, description = "Around this moment (RFC 3339)"),
        ("thousandths" = Option<i64>, Query, description = "Around this part of the log", minimum = 0, maximum = 1000),
        ("limit" = Option<i64>, Query, description = "Most lines, 1000 by default", minimum = 1, maximum = 5000)),
    responses((status = 200, body = LogPage), (status = "4XX", body = ErrorBody)))]
async fn page(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<Answer<LogPage>> {
    let place = |name: &str| {
        let text = parameters.text(name);
        let parse = |text| {
            Position::parse(text).ok_or_else(|| Error::invalid(name, "is no place of this log"))
        };
        text.map(parse).transpose()
    };
    let time = parameters.text("time").map(|text| {
        let time: Result<jiff::Timestamp, _> = text.parse();
        time.map_err(|_| Error::invalid("time", "must be a moment such as 2025-11-05T13:00:00Z"))
    });
    let part = parameters.integer("thousandths", 0..=1000)?;
    let places = [place("before")?, place("after")?, place("around")?];
    let at = match (places, time.transpose()?, part) {
        ([Some(before), ..], ..) => Where::Before(before),
        ([_, Some(after), _], ..) => Where::After(after),
        ([.., Some(around)], ..) => Where::Around(around),
        (_, Some(time), _) => Where::Time(time),
        (_, _, Some(part)) => Where::Thousandths(part.unsigned_abs()),
        _ => Where::End,
    };
    let wanted = page::Wanted {
        worker: parameters.integer("worker", 0..=i64::from(i32::MAX))?,
        back: count(&parameters, "attempt", 0..=1_000_000, 0)?,
        at,
        limit: count(&parameters, "limit", 1..=5000, 1000)?,
    };
    Ok(Answer(page::page(&context, &caller, &key, wanted).await?))
}

/// The attempts of which there is a log, the last one first.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/attempts", tag = "logs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Vec<LogAttempt>), (status = "4XX", body = ErrorBody)))]
async fn attempts(OfJob(context, caller, key): OfJob) -> Result<Answer<Vec<LogAttempt>>> {
    Ok(Answer(page::attempts(&context, &caller, &key).await?))
}

/// Search the log of all workers.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/search", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("q" = String, Query, description = "What to look for"),
        ("regex" = Option<bool>, Query),
        ("worker" = Option<i64>, Query, minimum = 0),
        ("attempt" = Option<i64>, Query, description = "How many attempts back; 0 is the last one", minimum = 0),
        ("context" = Option<i64>, Query, description = "Lines around each hit", minimum = 0, maximum = 20),
        ("limit" = Option<i64>, Query, description = "Most hits, 100 by default", minimum = 1, maximum = 1000)),
    responses((status = 200, body = SearchResult), (status = "4XX", body = ErrorBody)))]
async fn search(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<Answer<SearchResult>> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let wanted = Wanted {
        text: parameters
            .text("q")
            .ok_or_else(|| Error::invalid("q", "is required"))?
            .to_owned(),
        regex: parameters.flag("regex")?,
        context: count(&parameters, "context", 0..=20, 0)?,
        limit: count(&parameters, "limit", 1..=1000, 100)?,
        back: count(&parameters, "attempt", 0..=1_000_000, 0)?,
    };
    logs::find(&context, &caller, &key, worker, wanted)
        .await
        .map(Answer)
}

/// The log as a text file.
#[utoipa::path(get, path = "/api/trainjobs/{name}/logs/download", tag = "logs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, minimum = 0),
        ("attempt" = Option<i64>, Query, description = "How many attempts back; 0 is the last one", minimum = 0),
        ("previous" = Option<bool>, Query, description = "The same as `attempt=1`")),
    responses((status = 200, body = String, content_type = "text/plain"), (status = "4XX", body = ErrorBody)))]
async fn download(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<([(HeaderName, String); 2], Body)> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let previous = usize::from(parameters.flag("previous")?);
    let back = count(&parameters, "attempt", 0..=1_000_000, previous)?;
    let lines = logs::download(&context, &caller, &key, worker, back).await?;
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
