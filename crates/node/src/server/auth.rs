//! The bearer token, or a client certificate that TLS has verified.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::Server;

/// On requests over a connection whose client has shown a certificate of the administrator's authority.
#[derive(Clone, Copy)]
pub(super) struct Certified;

pub(super) async fn require_token(
    State(options): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    if request.extensions().get::<Certified>().is_some()
        || token.is_some_and(|token| is_same(token, &options.token))
    {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "Unauthorized").into_response()
}

/// Compares digests: how long that takes says nothing about the token. No token is never right.
fn is_same(given: &str, want: &str) -> bool {
    !want.is_empty() && Sha256::digest(given) == Sha256::digest(want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_right() {
        assert!(is_same("secret", "secret"));
        assert!(!is_same("secre", "secret"));
        assert!(!is_same("", ""));
    }
}
