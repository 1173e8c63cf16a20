//! Everything that is neither a resource nor discovery: health, version, metrics, and the way to OpenAPI.

use axum::response::Response;
use http::request::Parts;
use serde_json::json;

use super::{documents, respond};
use crate::server::Core;
use crate::status::{ApiError, Result, unready};
use crate::tasks::supervise;

pub(crate) fn answer(core: &Core, path: &str, parts: &Parts) -> Result<Response> {
    if let Some(rest) = path.strip_prefix("/openapi/v3") {
        return documents::v3(core, rest, parts);
    }
    if path == "/openapi/v2" {
        return documents::v2(core, parts);
    }
    match path {
        "/livez" | "/healthz" => Ok(respond::text("ok")),
        "/readyz" => Ok(ready(core)),
        "/version" => Ok(respond::json_value(&version())),
        "/metrics" => {
            let media = "text/plain; version=0.0.4; charset=utf-8";
            Ok(respond::typed(core.metrics.render(&core.store), media))
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
            Ok(respond::json_value(&json!({ "paths": paths })))
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
        lost.map(|task| format!("[-]{task} failed: see the log, and restart the server\n")),
    );
    if failed.is_empty() {
        return respond::text("ok");
    }
    unready(failed.concat() + "readyz check failed\n")
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
