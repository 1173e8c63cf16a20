//! The web page, inside the binary.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::app::Error;

/// What `make ui` built; empty in a binary that was built without it.
#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
#[allow_missing = true]
struct Page;

/// Everything that the page needs comes from this server, and nothing may frame it.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Answers what no route of the API answered: a file of the page, or the page itself, which has
/// its own routes.
pub(crate) async fn fallback(request: Request) -> Response {
    let path = request.uri().path();
    if path.starts_with("/api") || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Error::NoSuchPath.into_response();
    }
    let name = path.trim_start_matches('/');
    if let Some(file) = Page::get(name).filter(|_| !name.is_empty()) {
        // Files below assets/ have a digest in their names and never change.
        let cache = if name.starts_with("assets/") {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        return file_response(name, cache, file.data.into_owned());
    }
    if let Some(index) = Page::get("index.html") {
        return file_response("index.html", "no-cache", index.data.into_owned());
    }
    let text = "The web page is not part of this binary; build it with `make ui`.\n\
                The API is described at /api/openapi.json.\n";
    let status = if path == "/" {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    (status, text).into_response()
}

fn file_response(name: &str, cache: &'static str, bytes: Vec<u8>) -> Response {
    let kind = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, Body::from(bytes)).into_response()
}
