//! `watch`: events as they happen, one JSON object per line.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, header};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use super::list::{Selection, parse_revision, wait_for_revision};
use crate::http::parameters::VersionMatch;
use crate::http::respond;
use crate::status::{ApiError, Result};
use crate::store::{Change, Event, Object, Watch};
use crate::verbs::call::Call;

/// Between two bookmarks; clients resume from the last one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);
/// Without `timeoutSeconds`, between half an hour and an hour, so that clients do not all come back at once.
const DEFAULT_TIMEOUT: std::ops::Range<u64> = 1800..3600;

/// A day: whoever asks for more comes back once a day.
const LONGEST_TIMEOUT: u64 = 24 * 3600;

pub(crate) async fn watch(call: Call) -> Result<Response> {
    let selection = Selection::parse(&call)?;
    let begin = Begin::of(&call)?;
    wait_for_revision(&call).await?;
    let mut first = BytesMut::new();
    let revision = match begin {
        Begin::After(revision) => revision,
        Begin::State { bookmark } => {
            let page = selection.list(&call, None, None, 0)?;
            for object in &page.objects {
                write_event(&call, &mut first, "ADDED", object);
            }
            if bookmark {
                write_bookmark(&call, &mut first, page.revision, true);
            }
            page.revision
        }
    };
    let store = &call.core.store;
    let source = match store.watch(&call.kind.resource, revision) {
        Ok(source) => source,
        Err(expired) => {
            // As Kubernetes: the answer is 200, and the first event is the error.
            let mut frame = BytesMut::new();
            write_error(&mut frame, &expired.into());
            return Ok(stream_response(Body::from(frame.freeze())));
        }
    };
    let timeout = call
        .parameters
        .timeout_seconds
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or_else(
        || rand::random_range(DEFAULT_TIMEOUT),
        |seconds| seconds.min(LONGEST_TIMEOUT),
    );
    let state = State {
        bookmarks: call.parameters.allow_watch_bookmarks,
        call,
        selection,
        source,
        first: Some(first.freeze()),
        deadline: Instant::now() + Duration::from_secs(timeout),
        ended: false,
        ticker: {
            let mut ticker =
                tokio::time::interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
            ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticker
        },
    };
    let frames = futures::stream::unfold(state, |mut state| async move {
        let frame = state.next().await?;
        Some((Ok::<_, Infallible>(frame), state))
    });
    Ok(stream_response(Body::from_stream(frames)))
}

/// Where a watch begins.
enum Begin {
    /// With the events after a revision.
    After(u64),
    /// With what exists, as `ADDED` events, and perhaps a bookmark that ends them.
    State { bookmark: bool },
}

impl Begin {
    fn of(call: &Call) -> Result<Self> {
        let parameters = &call.parameters;
        let version = parameters.resource_version.as_str();
        if let Some(initial) = parameters.send_initial_events {
            if parameters.resource_version_match != Some(VersionMatch::NotOlderThan) {
                return Err(ApiError::bad_request(
                    "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
                     resourceVersionMatch to NotOlderThan",
                ));
            }
            if initial {
                return Ok(Self::State {
                    bookmark: parameters.allow_watch_bookmarks,
                });
            }
            let start = match version {
                "" | "0" => call.core.store.revision(),
                version => parse_revision(version)?,
            };
            return Ok(Self::After(start));
        }
        if parameters.resource_version_match.is_some() {
            return Err(ApiError::bad_request(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        match version {
            "" | "0" => Ok(Self::State { bookmark: false }),
            version => Ok(Self::After(parse_revision(version)?)),
        }
    }
}

struct State {
    call: Call,
    selection: Selection,
    source: Watch,
    first: Option<Bytes>,
    bookmarks: bool,
    deadline: Instant,
    ticker: tokio::time::Interval,
    ended: bool,
}

impl State {
    /// The next frame to send, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take()
            && !first.is_empty()
        {
            return Some(first);
        }
        let mut frame = BytesMut::new();
        while !self.ended {
            match self.source.take() {
                Err(expired) => {
                    self.ended = true;
                    write_error(&mut frame, &expired.into());
                    return Some(frame.freeze());
                }
                Ok(events) => {
                    for event in &events {
                        self.write(&mut frame, event);
                    }
                }
            }
            if !frame.is_empty() {
                return Some(frame.freeze());
            }
            tokio::select! {
                () = self.source.changed() => {}
                _ = self.ticker.tick(), if self.bookmarks => {
                    write_bookmark(&self.call, &mut frame, self.source.revision(), false);
                    return Some(frame.freeze());
                }
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = self.call.core.stopping.cancelled() => return None,
            }
        }
        None
    }

    /// Writes what the event means to this watch: objects enter and leave its selection.
    fn write(&self, frame: &mut BytesMut, event: &Event) {
        let inside = |object: &Object| {
            let namespace = self.call.namespace();
            (namespace.is_empty() || *object.name.namespace == *namespace)
                && self.selection.matches(object)
        };
        let before = event.previous.as_ref().filter(|previous| inside(previous));
        let after = event.change != Change::Deleted && inside(&event.object);
        match (before, after) {
            (None, false) => {}
            (None, true) => write_event(&self.call, frame, "ADDED", &event.object),
            (Some(_), true) => write_event(&self.call, frame, "MODIFIED", &event.object),
            (Some(_), false) if event.change == Change::Deleted => {
                write_event(&self.call, frame, "DELETED", &event.object);
            }
            (Some(previous), false) => {
                let last = previous.at_revision(event.object.revision);
                write_event(&self.call, frame, "DELETED", &last);
            }
        }
    }
}

fn write_event(call: &Call, frame: &mut BytesMut, kind: &str, object: &Object) {
    let body = respond::shown(call, object);
    frame.reserve(body.len() + 40);
    frame.put(&b"{\"type\":\""[..]);
    frame.put(kind.as_bytes());
    frame.put(&b"\",\"object\":"[..]);
    frame.put(&body[..]);
    frame.put(&b"}\n"[..]);
}

fn write_bookmark(call: &Call, frame: &mut BytesMut, revision: u64, initial: bool) {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if initial {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = match call.output {
        crate::http::negotiate::Output::Json => json!({
            "kind": *call.kind.kind, "apiVersion": call.kind.api_version, "metadata": metadata,
        }),
        crate::http::negotiate::Output::Metadata => json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        }),
        crate::http::negotiate::Output::Table(version) => json!({
            "kind": "Table", "apiVersion": version, "metadata": { "resourceVersion": revision.to_string() },
            "columnDefinitions": [],
            "rows": [{ "cells": [], "object": {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            }}],
        }),
    };
    let line = json!({ "type": "BOOKMARK", "object": object });
    frame.put(line.to_string().as_bytes());
    frame.put_u8(b'\n');
}

fn write_error(frame: &mut BytesMut, error: &ApiError) {
    let line = json!({ "type": "ERROR", "object": error.to_status() });
    frame.put(line.to_string().as_bytes());
    frame.put_u8(b'\n');
}

fn stream_response(body: Body) -> Response {
    let mut response = respond::typed(body, "application/json");
    let caching = HeaderValue::from_static("no-cache, private");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, caching);
    response
}
