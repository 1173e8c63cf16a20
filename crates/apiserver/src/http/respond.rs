//! Turning stored objects into answers.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::negotiate::Output;
use crate::http::pieces;
use crate::kinds::conversion;
use crate::kinds::registry::Kind;
use crate::kinds::table::{self, Include};
use crate::store::Object;
use crate::verbs::call::Call;

/// An answer with one object, in the form that the request asks for.
pub(crate) fn object(call: &Call, object: &Object, warnings: &[String]) -> Response {
    let mut response = json_bytes(shown(call, object));
    add_warnings(&call.kind, &mut response, warnings);
    response
}

/// One object's bytes in the form that the request asks for; a Table has one row.
pub(crate) fn shown(call: &Call, object: &Object) -> Bytes {
    match call.output {
        Output::Json => conversion::rendered(&call.kind, object),
        Output::Metadata => partial(&call.view(object)).to_string().into(),
        Output::Table(version) => table(call, object, version).to_string().into(),
    }
}

pub(crate) fn list(
    call: Call,
    objects: Vec<Arc<Object>>,
    revision: u64,
    more: Option<(String, Option<usize>)>,
) -> Response {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let Some((token, remaining)) = more {
        metadata["continue"] = token.into();
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    let now = (call.core.options.clock)();
    let (head, items) = match call.output {
        Output::Table(version) => (table::head(&call.kind.columns, &metadata, version), "rows"),
        Output::Metadata => {
            let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
            (
                json!({ "kind": kind, "apiVersion": version, "metadata": metadata }),
                "items",
            )
        }
        Output::Json => {
            let (kind, version) = (&call.kind.list_kind, &call.kind.api_version);
            (
                json!({ "kind": kind, "apiVersion": version, "metadata": metadata }),
                "items",
            )
        }
    };
    let head = head.to_string();
    let mut begin = Some(format!("{},{items:?}:[", &head[..head.len() - 1]));
    let mut objects = objects.into_iter();
    let body = pieces::body(move |pieces| {
        match &begin.take() {
            Some(begin) => pieces.put(begin.as_bytes()),
            None => pieces.put(b","),
        }
        if let Some(object) = objects.next() {
            pieces.put_shared(match call.output {
                Output::Table(_) => row(&call, &object, now).to_string().into(),
                Output::Json | Output::Metadata => shown(&call, &object),
            });
        }
        if objects.len() == 0 {
            pieces.put(b"]}");
        }
        objects.len() > 0
    });
    typed(body, "application/json")
}

fn table(call: &Call, object: &Object, version: &str) -> Value {
    let metadata = json!({ "resourceVersion": object.revision.to_string() });
    let mut table = table::head(&call.kind.columns, &metadata, version);
    table["rows"] = json!([row(call, object, (call.core.options.clock)())]);
    table
}

fn row(call: &Call, object: &Object, now: Timestamp) -> Value {
    let include = match call.parameters.include_object.as_deref() {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    };
    table::row(&call.kind.columns, &call.view(object), include, now)
}

pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

pub(crate) fn json_value(value: &Value) -> Response {
    json_bytes(value.to_string().into())
}

pub(crate) fn json_bytes(body: Bytes) -> Response {
    typed(body, "application/json")
}

pub(crate) fn text(body: impl Into<Body>) -> Response {
    typed(body, "text/plain; charset=utf-8")
}

pub(crate) fn typed(body: impl Into<Body>, media: &'static str) -> Response {
    let mut response = Response::new(body.into());
    let media = HeaderValue::from_static(media);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// `Warning` headers, which kubectl prints: the deprecation of the version, and what admission says.
pub(crate) fn add_warnings(kind: &Kind, response: &mut Response, warnings: &[String]) {
    let deprecation = kind
        .custom
        .as_ref()
        .and_then(|custom| custom.deprecation.as_ref());
    for warning in deprecation.into_iter().chain(warnings) {
        add_warning(response, warning);
    }
}

/// The same answer with more of them.
pub(crate) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        add_warning(&mut response, warning);
    }
    response
}

fn add_warning(response: &mut Response, warning: &str) {
    let clean: String = warning
        .chars()
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect();
    let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
        response.headers_mut().append(header::WARNING, value);
    }
}
