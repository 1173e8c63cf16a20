//! Health, version, metrics and OpenAPI.

use std::collections::BTreeSet;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::core::Core;
use crate::openapi::{self, CustomKind};
use crate::registry::Table;
use crate::respond;
use crate::status::{ApiError, Result};

pub(crate) fn answer(core: &Core, path: &str, parts: &Parts) -> Result<Response> {
    if let Some(rest) = path.strip_prefix("/openapi/v3") {
        return open_api(core, rest, parts);
    }
    match path {
        "/livez" | "/healthz" => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" if core.store.is_writable() => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" => {
            let text = "[-]store failed: it cannot be written; reads go on\nreadyz check failed\n";
            Ok(respond::text(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
        "/version" => Ok(respond::json_value(StatusCode::OK, &version())),
        "/metrics" => {
            let mut response = respond::text(StatusCode::OK, core.metrics.render(&core.store));
            let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            Ok(response)
        }
        "/" => {
            let paths = [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v3",
                "/readyz",
                "/version",
            ];
            Ok(respond::json_value(
                StatusCode::OK,
                &json!({ "paths": paths }),
            ))
        }
        _ => Err(ApiError::NoSuchPath),
    }
}

/// The index, or the document of one group and version.
fn open_api(core: &Core, path: &str, parts: &Parts) -> Result<Response> {
    let table = core.registry.table();
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let (group, version) = match segments.as_slice() {
        [] => return Ok(respond::json_value(StatusCode::OK, &open_api_index(&table))),
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::NoSuchPath),
    };
    let hash = document_hash(&table, group, version).ok_or(ApiError::NoSuchPath)?;
    let tag = HeaderValue::from_str(&format!("\"{hash}\""))
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut response = if parts.headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::json_bytes(StatusCode::OK, document(&table, group, version))
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, no-cache"),
    );
    Ok(response)
}

fn open_api_index(table: &Table) -> serde_json::Value {
    let versions: BTreeSet<(&str, &str)> = table
        .kinds()
        .iter()
        .map(|kind| (&*kind.group, &*kind.version))
        .collect();
    openapi::index(versions.into_iter().filter_map(|(group, version)| {
        Some((group, version, document_hash(table, group, version)?))
    }))
}

/// A text that changes when the document does; `None` when there is no such document.
fn document_hash(table: &Table, group: &str, version: &str) -> Option<String> {
    let mut kinds = table.of(group, version).peekable();
    let first = kinds.peek()?;
    if first.custom.is_none() {
        return Some(openapi::builtin_hash());
    }
    let revisions = kinds.filter_map(|kind| Some(kind.custom.as_ref()?.revision()));
    Some(
        revisions
            .map(|revision| format!("{revision:X}"))
            .collect::<Vec<_>>()
            .join("-"),
    )
}

fn document(table: &Table, group: &str, version: &str) -> bytes::Bytes {
    if let Some(document) = openapi::builtin(group, version) {
        return document;
    }
    let kinds = table.of(group, version).map(|kind| CustomKind {
        kind: &kind.kind,
        plural: &kind.plural,
        namespaced: kind.namespaced,
        schema: kind
            .custom
            .as_ref()
            .map(|custom| custom.schema())
            .unwrap_or_default(),
        subresources: kind
            .subresources
            .iter()
            .map(|one| one.name.as_str())
            .collect(),
    });
    openapi::custom(group, version, kinds)
}

/// The Kubernetes version whose API this is, which clients compare with their own.
fn version() -> serde_json::Value {
    json!({
        "major": "1",
        "minor": "33",
        "gitVersion": concat!("v1.33.0+astrago.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}
