//! The web page, inside the binary.

use std::io::Read as _;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use rust_embed::RustEmbed;

use crate::app::Error;
use crate::error::not_found;

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
    let zipped = accepts_gzip(request.headers());
    let file = (!name.is_empty())
        .then(|| file_response(name, zipped))
        .flatten();
    if let Some(response) = file.or_else(|| file_response("index.html", zipped)) {
        return response;
    }
    let text = "The web page is not part of this binary; build it with `make ui`.\n\
                The API is described at /api/openapi.json.\n";
    if path == "/" {
        return text.into_response();
    }
    not_found(text)
}

/// A file of the page. Most are kept compressed, and unpacked for those who do not understand that.
fn file_response(name: &str, zipped: bool) -> Option<Response> {
    let packed = Page::get(&format!("{name}.gz"));
    let is_packed = packed.is_some();
    let file = packed.or_else(|| Page::get(name))?;
    // Files below assets/ have a digest in their names and never change.
    let cache = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (CONTENT_TYPE, kind_of(name)),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    let mut response = (headers, ()).into_response();
    let headers = response.headers_mut();
    let body = if is_packed {
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if zipped {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            Body::from(file.data)
        } else {
            Body::from(unpacked(&file.data)?)
        }
    } else {
        Body::from(file.data)
    };
    *response.body_mut() = body;
    Some(response)
}

fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut plain).ok()?;
    Some(plain)
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Whether the other side takes gzip; a weight of 0 says that it does not.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).into_iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && weight != Ok(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_those_who_ask_for_it() {
        for (value, want) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), want, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
