//! Turning stored objects into answers.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, header};
use serde_json::{Value, json};

use crate::http::negotiate::Output;
use crate::kinds::conversion;
use crate::kinds::table::{self, Include};
use crate::store::Object;
use crate::verbs::call::Call;

/// An answer with one object, in the form that the request asks for.
pub(crate) fn object(call: &Call, object: &Object, warnings: &[String]) -> Response {
    let mut response = json_bytes(shown(call, object));
    add_warnings(call, &mut response, warnings);
    response
}

/// One object's bytes in the form that the request asks for; a Table has one row.
pub(crate) fn shown(call: &Call, object: &Object) -> Bytes {
    match call.output {
        Output::Json => conversion::rendered(&call.kind, object),
        Output::Metadata => partial(&call.view(object)).to_string().into(),
        Output::Table(version) => {
            let metadata = json!({ "resourceVersion": object.revision.to_string() });
            table(call, &[call.view(object)], &metadata, version)
                .to_string()
                .into()
        }
    }
}

/// A list's bytes.
pub(crate) fn list<'a>(
    call: &Call,
    objects: impl ExactSizeIterator<Item = &'a Object>,
    revision: u64,
    more: Option<(String, Option<usize>)>,
) -> Bytes {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let Some((token, remaining)) = more {
        metadata["continue"] = token.into();
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    if let Output::Table(version) = call.output {
        let objects: Vec<_> = objects.map(|object| call.view(object)).collect();
        let table = table(call, &objects, &metadata, version);
        return table.to_string().into();
    }
    let (kind, api_version) = match call.output {
        Output::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        _ => (call.kind.list_kind.as_str(), call.kind.api_version.as_str()),
    };
    let head = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }).to_string();
    let items: Vec<Bytes> = objects.map(|object| shown(call, object)).collect();
    let size = items.iter().map(|item| item.len() + 1).sum::<usize>() + head.len() + 16;
    let mut body = BytesMut::with_capacity(size);
    body.put(&head.as_bytes()[..head.len() - 1]);
    body.put(&b",\"items\":["[..]);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put(&item[..]);
    }
    body.put(&b"]}"[..]);
    body.freeze()
}

/// A Table of the objects; `metadata` is the list's.
fn table(call: &Call, objects: &[Value], metadata: &Value, version: &str) -> Value {
    let include = match call.parameters.include_object.as_deref() {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    };
    let now = (call.core.options.clock)();
    let mut table = table::render(&call.kind.columns, objects, metadata, include, now);
    table["apiVersion"] = version.into();
    table
}

/// `PartialObjectMetadata` of an object.
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
pub(crate) fn add_warnings(call: &Call, response: &mut Response, warnings: &[String]) {
    let deprecation = call
        .kind
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
