//! The way of a browser to the provider and back. Not part of the API's document: no program calls it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::get;
use jiff::Timestamp;

use crate::app::Error;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Parameters, cookie};
use crate::oidc::Oidc;

/// The cookie that binds a sign-in to the browser that began it.
const LOGIN_COOKIE: &str = "astrago_login";

/// How long a session lasts at most; it ends with the provider's token.
const SESSION_SECONDS: i64 = 12 * 3600;

/// What an administrator has to hear whose API server is not set up for the provider.
const NOT_TRUSTED: &str = "the provider knows you, but the API server of the cluster does not take its tokens: it has to be set up for the same issuer and client (--oidc-issuer-url, --oidc-client-id)";

pub(crate) fn routes() -> Router<Arc<Context>> {
    Router::new()
        .route("/api/oidc/login", get(login))
        .route("/api/oidc/callback", get(callback))
}

async fn login(State(context): State<Arc<Context>>, parameters: Parameters) -> Result<Response> {
    let oidc = provider(&context)?;
    let return_to = parameters.text("return_to").unwrap_or("/");
    let (url, state) = oidc
        .begin(return_to, context.now())
        .await
        .map_err(Error::oidc)?;
    // Lax, because the browser comes back from another site.
    let secure = if oidc.is_secure() { "; Secure" } else { "" };
    let cookie = format!(
        "{LOGIN_COOKIE}={state}; Path=/api/oidc; HttpOnly; SameSite=Lax; Max-Age=600{secure}"
    );
    let headers = AppendHeaders([(SET_COOKIE, cookie)]);
    Ok((headers, Redirect::to(url.as_str())).into_response())
}

async fn callback(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response> {
    let oidc = provider(&context)?;
    let state = parameters.text("state").unwrap_or_default();
    // Otherwise somebody could sign a victim's browser in as themselves.
    if state.is_empty() || cookie(&headers, LOGIN_COOKIE).as_deref() != Some(state) {
        return Err(Error::oidc(crate::oidc::Error::UnknownLogin));
    }
    let Some(code) = parameters.text("code") else {
        let reason = parameters.text("error").unwrap_or("no code came back");
        return Err(Error::SignIn(format!("the provider says {reason:?}")));
    };
    let finished = oidc
        .finish(state, code, context.now())
        .await
        .map_err(Error::oidc)?;
    // The API server decides who that is.
    context
        .gate
        .caller(&finished.id_token)
        .await
        .map_err(|error| match error {
            Error::Unauthenticated => Error::SignIn(NOT_TRUSTED.to_owned()),
            other => other,
        })?;
    let now = context.now().as_second();
    let seconds = (finished.expires_at - now).clamp(0, SESSION_SECONDS);
    let ends = Timestamp::from_second(now + seconds).unwrap_or_else(|_| context.now());
    let token = context
        .history
        .begin_session(&finished.id_token, ends)
        .map_err(Error::disk)?;
    let headers = [
        (
            SET_COOKIE,
            super::people::cookie(&context, &headers, &token, seconds),
        ),
        (
            SET_COOKIE,
            format!("{LOGIN_COOKIE}=; Path=/api/oidc; HttpOnly; SameSite=Lax; Max-Age=0"),
        ),
    ];
    Ok((AppendHeaders(headers), Redirect::to(&finished.return_to)).into_response())
}

fn provider(context: &Context) -> Result<&Oidc> {
    context.oidc.as_ref().ok_or(Error::NoSuchPath)
}
