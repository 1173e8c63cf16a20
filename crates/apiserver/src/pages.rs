//! Health, version, metrics and OpenAPI.

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::core::Core;
use crate::openapi::{self, CustomKind};
use crate::registry::Kind;
use crate::respond;
use crate::status::{ApiError, Result};

pub(crate) fn answer(core: &Core, path: &str, _parts: &Parts) -> Result<Response> {
    match path {
        "/livez" | "/healthz" => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" if core.store.is_writable() => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" => {
            let text = "[-]store failed: it cannot be written; reads go on\nreadyz check failed\n";
            Ok(respond::text(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
        "/openapi/v3" => Ok(respond::json_value(StatusCode::OK, &documents(core))),
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
        _ => match path.strip_prefix("/openapi/v3/") {
            Some(path) => document(core, path),
            None => Err(ApiError::NoSuchPath),
        },
    }
}

/// Where the OpenAPI documents are. Those of custom kinds change with the definitions.
fn documents(core: &Core) -> serde_json::Value {
    let table = core.registry.table();
    let mut versions: Vec<_> = table
        .kinds()
        .iter()
        .map(|kind| (&*kind.group, &*kind.version))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let documents = versions.into_iter().map(|(group, version)| {
        let kinds = custom_kinds(table.kinds(), group, version);
        let hash = if kinds.is_empty() {
            openapi::builtin_hash()
        } else {
            openapi::custom_hash(&kinds)
        };
        (group, version, hash)
    });
    openapi::index(documents)
}

/// `api/v1`, `apis/batch/v1`.
fn document(core: &Core, path: &str) -> Result<Response> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::NoSuchPath),
    };
    let table = core.registry.table();
    let kinds = custom_kinds(table.kinds(), group, version);
    let body = if kinds.is_empty() {
        openapi::builtin(group, version).ok_or(ApiError::NoSuchPath)?
    } else {
        openapi::custom(group, version, &kinds)
    };
    Ok(respond::json_bytes(StatusCode::OK, body))
}

fn custom_kinds<'a>(kinds: &'a [Arc<Kind>], group: &str, version: &str) -> Vec<CustomKind<'a>> {
    let of_version = |kind: &&Arc<Kind>| &*kind.group == group && &*kind.version == version;
    let made = |kind: &'a Arc<Kind>| {
        let subresources = kind.subresources.iter();
        Some(CustomKind {
            kind: &kind.kind,
            plural: &kind.plural,
            namespaced: kind.namespaced,
            schema: &kind.custom.as_ref()?.schema,
            subresources: subresources.map(|one| one.name.as_str()).collect(),
        })
    };
    kinds.iter().filter(of_version).filter_map(made).collect()
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
