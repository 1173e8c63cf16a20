//! Health, version, metrics and OpenAPI.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use sha2::Digest as _;

use crate::core::Core;
use crate::openapi::{self, CustomKind};
use crate::registry::{Kind, Table};
use crate::respond;
use crate::status::{ApiError, Result};
use crate::supervise;

pub(crate) fn answer(core: &Core, path: &str, parts: &Parts) -> Result<Response> {
    if let Some(rest) = path.strip_prefix("/openapi/v3") {
        return open_api(core, rest, parts);
    }
    if path == "/openapi/v2" {
        return open_api_v2(core, parts);
    }
    match path {
        "/livez" | "/healthz" => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" => Ok(ready(core)),
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
                "/openapi/v2",
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

/// Whether everything works, or what does not.
fn ready(core: &Core) -> Response {
    let mut failed = Vec::new();
    if !core.store.is_writable() {
        failed.push("[-]store failed: it cannot be written; reads go on\n".to_owned());
    }
    let lost = supervise::lost(core).into_iter();
    failed.extend(
        lost.map(|task| format!("[-]{task} failed: see the log, and start the server anew\n")),
    );
    if failed.is_empty() {
        return respond::text(StatusCode::OK, "ok");
    }
    respond::text(
        StatusCode::INTERNAL_SERVER_ERROR,
        failed.concat() + "readyz check failed\n",
    )
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

/// The one document of all kinds that OpenAPI v2 knows. It is kept until a definition changes, in protobuf:
/// nobody but curious people asks for JSON.
fn open_api_v2(core: &Core, parts: &Parts) -> Result<Response> {
    let table = core.registry.table();
    let accept = parts.headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let as_protobuf = accept.is_some_and(|accept| {
        let mut forms = openapi::v2::ACCEPTED.iter();
        forms.any(|form| accept.contains(form))
    });
    let index = open_api_index(&table).to_string();
    let hash = crate::hex::encode(&sha2::Sha256::digest(index.as_bytes())[..12]);
    let form = if as_protobuf { "p" } else { "j" };
    let tag = HeaderValue::from_str(&format!("\"{form}{hash}\""))
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut response = if parts.headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else if as_protobuf {
        let document = core.documents.get(table.generation, || {
            openapi::v2::protobuf(custom_parts(&table))
        });
        let mut response = respond::json_bytes(StatusCode::OK, document);
        let media = HeaderValue::from_static(openapi::v2::PROTOBUF);
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response
    } else {
        respond::json_bytes(StatusCode::OK, openapi::v2::json(custom_parts(&table)))
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, no-cache"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// The custom kinds' parts, one at a time: with their schemas they are large.
fn custom_parts(table: &Table) -> impl Iterator<Item = openapi::v2::Part> {
    let kinds = table.kinds().iter().filter(|kind| kind.custom.is_some());
    kinds.map(|kind| openapi::v2::Part::custom(&kind.group, &kind.version, custom_kind(kind)))
}

/// A document that is kept as long as the kinds stay the same.
#[derive(Default)]
pub(crate) struct Documents(std::sync::Mutex<Option<(u64, bytes::Bytes)>>);

impl Documents {
    fn get(&self, generation: u64, make: impl FnOnce() -> bytes::Bytes) -> bytes::Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, document)) if *of == generation => document.clone(),
            _ => {
                let document = make();
                *kept = Some((generation, document.clone()));
                document
            }
        }
    }
}

fn document(table: &Table, group: &str, version: &str) -> bytes::Bytes {
    if let Some(document) = openapi::builtin(group, version) {
        return document;
    }
    let kinds = table.of(group, version).map(|kind| custom_kind(kind));
    openapi::custom(group, version, kinds)
}

fn custom_kind(kind: &Kind) -> CustomKind<'_> {
    CustomKind {
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
    }
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
