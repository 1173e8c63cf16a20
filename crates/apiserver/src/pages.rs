//! Health, version, metrics and OpenAPI.

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::core::Core;
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
