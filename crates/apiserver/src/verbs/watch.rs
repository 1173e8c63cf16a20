//! `watch`: events as they happen, one JSON object per line.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use super::list::{Selection, parse_revision, wait_for_revision};
use crate::http::parameters::VersionMatch;
use crate::http::pieces::{PIECE, Pieces};
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
    let (revision, initial, bookmark) = match begin {
        Begin::After(revision) => (revision, Vec::new(), false),
        Begin::State { bookmark } => {
            let page = selection.list(&call, None, None, 0)?;
            (page.revision, page.objects, bookmark)
        }
    };
    let store = &call.core.store;
    let source = match store.watch(&call.kind.resource, revision) {
        Ok(source) => source,
        Err(expired) => {
            // As Kubernetes: the answer is 200, and the first event is the error.
            let mut frame = Pieces::default();
            write_error(&mut frame, &expired.into());
            let frame = frame.take().unwrap_or_default();
            return Ok(stream_response(Body::from(frame)));
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
        initial: initial.into_iter(),
        initial_end: bookmark.then_some(revision),
        frame: Pieces::default(),
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
    /// What there was at the beginning and is still to be sent.
    initial: std::vec::IntoIter<Arc<Object>>,
    /// The revision of the bookmark that follows it.
    initial_end: Option<u64>,
    frame: Pieces,
    bookmarks: bool,
    deadline: Instant,
    ticker: tokio::time::Interval,
    ended: bool,
}

impl State {
    /// The next frame to send, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frame.take() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            if self.write_more() {
                continue;
            }
            tokio::select! {
                () = self.source.changed() => {}
                _ = self.ticker.tick(), if self.bookmarks => {
                    write_bookmark(&self.call, &mut self.frame, self.source.revision(), false);
                }
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = self.call.core.stopping.cancelled() => return None,
            }
        }
    }

    /// Writes some of what there is to tell; false when that is nothing.
    fn write_more(&mut self) -> bool {
        let mut any = false;
        while !self.frame.is_full()
            && let Some(object) = self.initial.next()
        {
            any = true;
            write_event(&self.call, &mut self.frame, "ADDED", &object);
        }
        if self.initial.len() > 0 {
            return any;
        }
        if let Some(revision) = self.initial_end.take() {
            any = true;
            write_bookmark(&self.call, &mut self.frame, revision, true);
        }
        if any {
            return true;
        }
        match self.source.take(PIECE) {
            Err(expired) => {
                self.ended = true;
                write_error(&mut self.frame, &expired.into());
                true
            }
            Ok(events) => {
                for event in &events {
                    self.write(event);
                }
                !events.is_empty()
            }
        }
    }

    /// Writes what the event means to this watch: objects enter and leave its selection.
    fn write(&mut self, event: &Event) {
        let inside = |object: &Object| {
            let namespace = self.call.namespace();
            (namespace.is_empty() || *object.name.namespace == *namespace)
                && self.selection.matches(object)
        };
        let before = event.previous.as_ref().filter(|previous| inside(previous));
        let after = event.change != Change::Deleted && inside(&event.object);
        let (call, frame) = (&self.call, &mut self.frame);
        match (before, after) {
            (None, false) => {}
            (None, true) => write_event(call, frame, "ADDED", &event.object),
            (Some(_), true) => write_event(call, frame, "MODIFIED", &event.object),
            (Some(_), false) if event.change == Change::Deleted => {
                write_event(call, frame, "DELETED", &event.object);
            }
            (Some(previous), false) => {
                let last = previous.at_revision(event.object.revision);
                write_event(call, frame, "DELETED", &last);
            }
        }
    }
}

fn write_event(call: &Call, frame: &mut Pieces, kind: &str, object: &Object) {
    frame.put(format!("{{\"type\":{kind:?},\"object\":").as_bytes());
    frame.put_shared(respond::shown(call, object));
    frame.put(b"}\n");
}

fn write_bookmark(call: &Call, frame: &mut Pieces, revision: u64, initial: bool) {
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
    frame.put(format!("{line}\n").as_bytes());
}

fn write_error(frame: &mut Pieces, error: &ApiError) {
    let line = json!({ "type": "ERROR", "object": error.to_status() });
    frame.put(format!("{line}\n").as_bytes());
}

fn stream_response(body: Body) -> Response {
    let mut response = respond::typed(body, "application/json");
    let caching = HeaderValue::from_static("no-cache, private");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, caching);
    response
}
