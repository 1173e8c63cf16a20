//! What every request must pass before it is looked at.
//!
//! A server without authentication listens on loopback only, but that does not keep out a web
//! page that the user happens to visit: it can send requests to this machine, or point its own
//! name at it (DNS rebinding). So the `Host` must be a name of this machine and the `Origin`, if
//! there is one, must be the server's own. With the page's cookie the same holds for requests
//! that change something; a request with a token in its header is beyond such tricks.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;

use crate::app::Error;
use crate::context::{Authentication, Context};
use crate::error::did_nothing;
use crate::extract::{Place, token};
use crate::identity::Caller;
use crate::model::AuditEntry;

pub(crate) async fn guard(
    State(context): State<Arc<Context>>,
    mut request: Request,
    next: Next,
) -> Response {
    let off = context.authentication == Authentication::Off;
    if let Some(foreign) = foreign(
        request.method(),
        request.headers(),
        request.uri().host(),
        off,
    ) {
        return Error::ForeignOrigin(foreign).into_response();
    }
    let note = Note::of(&context, &mut request).await;
    let place = Place::default();
    request.extensions_mut().insert(place.clone());
    let answer = caught(next.run(request)).await;
    let mut response = answer.map(|body| astrago_net::until_sent(body, place));
    if let Some(note) = note.filter(|_| !did_nothing(&response)) {
        note.write(&context, response.status().as_u16());
    }
    let headers = response.headers_mut();
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// A bug that one request meets is that request's alone.
async fn caught(answer: impl Future<Output = Response>) -> Response {
    let answered = AssertUnwindSafe(answer).catch_unwind().await;
    answered.unwrap_or_else(|panic| {
        let error = Error::Internal {
            operation: "answer without panicking",
            source: astrago_net::supervise::message(&*panic).into(),
        };
        error.into_response()
    })
}

/// What the audit trail will say about a request that changes something, or looks inside of processes.
struct Note {
    user: String,
    action: String,
    namespace: String,
    object: String,
}

impl Note {
    async fn of(context: &Arc<Context>, request: &mut Request) -> Option<Self> {
        let path = request.uri().path().to_owned();
        let connects = connects(request.headers());
        let changes = connects || looks_inside(&path) || !is_safe(request.method());
        if !changes || !path.starts_with("/api/") || path == "/api/session" {
            return None;
        }
        let caller = match context.authentication {
            Authentication::Off => Caller::admin(),
            Authentication::Token => context.caller(&token(request.headers())?).await.ok()?,
        };
        request.extensions_mut().insert(caller.clone());
        let query = request.uri().query().unwrap_or_default();
        let namespace = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("namespace="));
        Some(Self {
            user: caller.user,
            action: if connects {
                Method::CONNECT.to_string()
            } else {
                request.method().to_string()
            },
            namespace: namespace.unwrap_or_default().to_owned(),
            object: path,
        })
    }

    fn write(self, context: &Context, status: u16) {
        let entry = AuditEntry {
            time: context.now(),
            user: self.user,
            action: self.action,
            namespace: cut(self.namespace),
            object: cut(self.object),
            status,
        };
        if let Err(error) = context.history.audit(&entry) {
            tracing::error!(error = %crate::error::chain(&error), "failed to write the audit trail");
        }
    }
}

/// Longer than any name of an object, so that none is cut that there could be.
const LONGEST: usize = 1024;

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

/// Whether the connection is to become something else, over which its client can do whatever that allows.
fn connects(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE)
}

/// Whether a path is for reading what is in the memory of processes, which is as much as running a program there.
fn looks_inside(path: &str) -> bool {
    let job = path.strip_prefix("/api/trainjobs/");
    job.is_some_and(|rest| rest.ends_with("/stacks"))
}

pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// What about a request is foreign, if anything.
fn foreign(
    method: &Method,
    headers: &HeaderMap,
    authority: Option<&str>,
    off: bool,
) -> Option<String> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or(authority).unwrap_or_default();
    if off && !is_loopback(host) {
        return Some(host.to_owned());
    }
    // Browsers let any page open a WebSocket to any place, with the cookies of that place.
    let safe = is_safe(method) && !connects(headers);
    if !off && (safe || headers.contains_key(AUTHORIZATION)) {
        return None;
    }
    let origin = text(ORIGIN)?;
    let own = origin
        .split_once("://")
        .is_some_and(|(_, origin_host)| origin_host == host);
    (!own).then(|| origin.to_owned())
}

/// Whether a `Host` header names this machine itself, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::own("POST", "localhost:8000", None, None)]
    #[case::own_address("POST", "127.0.0.1:8000", Some("http://127.0.0.1:8000"), None)]
    #[case::ipv6("GET", "[::1]:8000", None, None)]
    #[case::rebinding("GET", "evil.example:8000", None, Some("evil.example:8000"))]
    #[case::cross_site(
        "POST",
        "localhost:8000",
        Some("http://evil.example"),
        Some("http://evil.example")
    )]
    #[case::cross_site_read(
        "GET",
        "localhost:8000",
        Some("http://evil.example"),
        Some("http://evil.example")
    )]
    #[case::sandboxed("POST", "localhost:8000", Some("null"), Some("null"))]
    #[case::looks_like("GET", "127.0.0.1.evil.example", None, Some("127.0.0.1.evil.example"))]
    fn without_authentication_only_this_machine_is_served(
        #[case] method: &str,
        #[case] host: &'static str,
        #[case] origin: Option<&'static str>,
        #[case] want: Option<&str>,
    ) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        let got = foreign(&method.parse().unwrap(), &headers, None, true);
        assert_eq!(got.as_deref(), want);
    }

    #[tokio::test]
    async fn a_request_that_panics_is_answered_with_500() {
        let answer = caught(async { unreachable!("a bug") }).await;
        assert_eq!(answer.status().as_u16(), 500);
    }

    #[test]
    fn a_cookie_cannot_be_used_from_another_site_and_a_token_can() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("train.example"));
        headers.insert(ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(foreign(&Method::DELETE, &headers, None, false).is_some());
        assert!(foreign(&Method::GET, &headers, None, false).is_none());
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        assert!(foreign(&Method::GET, &headers, None, false).is_some());
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert!(foreign(&Method::DELETE, &headers, None, false).is_none());
    }
}
