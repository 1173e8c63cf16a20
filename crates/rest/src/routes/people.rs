//! Users and sessions.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use crate::app::{Error, users};
use crate::context::{Authentication, Context};
use crate::error::Result;
use crate::extract::{COOKIE_NAME, Call, Json, Name, Parameters, token};
use crate::identity::{Access, Caller};
use crate::model::{Audit, CreatedUser, ErrorBody, NewUser, SignIn, SignInMethods, User, WhoAmI};
use crate::oidc::Oidc;

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(who_am_i; methods, sign_in, sign_out; list, add; remove; audit)
}

/// Who the caller is.
#[utoipa::path(get, path = "/api/whoami", tag = "users",
    responses((status = 200, body = WhoAmI), (status = "4XX", body = ErrorBody)))]
async fn who_am_i(Call(context, caller): Call) -> Answer<WhoAmI> {
    Answer(users::who_am_i(&context, &caller))
}

/// Sign the page in: the token goes into a cookie that scripts cannot read.
#[utoipa::path(post, path = "/api/session", tag = "users", request_body = SignIn,
    responses((status = 200, body = WhoAmI), (status = "4XX", body = ErrorBody)))]
async fn sign_in(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
    Json(body): Json<SignIn>,
) -> Result<([(HeaderName, String); 1], Answer<WhoAmI>)> {
    let caller = match context.authentication {
        Authentication::Off => Caller::admin(),
        Authentication::Token => context.caller(&body.token).await?,
    };
    // A token that is no cookie value is none of ours.
    if !body
        .token
        .chars()
        .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\'))
    {
        return Err(Error::Unauthenticated);
    }
    Ok((
        [(
            SET_COOKIE,
            cookie(&context, &headers, &body.token, 2_592_000),
        )],
        Answer(users::who_am_i(&context, &caller)),
    ))
}

/// The cookie of a session.
pub(super) fn cookie(context: &Context, headers: &HeaderMap, token: &str, seconds: i64) -> String {
    // Whoever forges what a proxy says only keeps their own cookie to TLS.
    let forwarded = headers.get("x-forwarded-proto");
    let forwarded = forwarded.and_then(|value| value.to_str().ok()?.split(',').next());
    let behind_tls = context.oidc.as_ref().is_some_and(Oidc::is_secure)
        || forwarded.is_some_and(|scheme| scheme.trim().eq_ignore_ascii_case("https"));
    let secure = if context.secure || behind_tls {
        "; Secure"
    } else {
        ""
    };
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

/// How one can sign in here.
#[utoipa::path(get, path = "/api/session", tag = "users", operation_id = "sign_in_methods",
    responses((status = 200, body = SignInMethods)))]
async fn methods(State(context): State<Arc<Context>>) -> Answer<SignInMethods> {
    Answer(SignInMethods {
        none: context.authentication == Authentication::Off,
        token: context.authentication == Authentication::Token,
        oidc: context.oidc.is_some(),
    })
}

/// Sign the page out.
#[utoipa::path(delete, path = "/api/session", tag = "users",
    responses((status = 200, body = Object)))]
async fn sign_out(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
) -> Result<([(HeaderName, String); 1], Answer<Value>)> {
    if let Some(token) = token(&headers) {
        context.history.end_session(&token).map_err(Error::disk)?;
    }
    let cookie = format!("{COOKIE_NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    Ok(([(SET_COOKIE, cookie)], Answer(json!({}))))
}

/// All users; for administrators.
#[utoipa::path(get, path = "/api/users", tag = "users", operation_id = "list_users",
    responses((status = 200, body = Vec<User>), (status = "4XX", body = ErrorBody)))]
async fn list(Call(context, caller): Call) -> Result<Answer<Vec<User>>> {
    Ok(Answer(users::list(&context, &caller).await?))
}

/// Add a user; for administrators. The answer has their token, which is shown this once.
#[utoipa::path(post, path = "/api/users", tag = "users", request_body = NewUser,
    responses((status = 200, body = CreatedUser), (status = "4XX", body = ErrorBody)))]
async fn add(
    Call(context, caller): Call,
    Json(wanted): Json<NewUser>,
) -> Result<Answer<CreatedUser>> {
    Ok(Answer(users::add(&context, &caller, &wanted).await?))
}

/// Take a user's token away; for administrators.
#[utoipa::path(delete, path = "/api/users/{name}", tag = "users", params(("name" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody)))]
async fn remove(Call(context, caller): Call, Name(name): Name) -> Result<Answer<Value>> {
    users::remove(&context, &caller, &name).await?;
    Ok(Answer(json!({ "status": "success", "name": name })))
}

/// Who did what, the newest first; for administrators.
#[utoipa::path(get, path = "/api/audit", tag = "users",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 10000)),
    responses((status = 200, body = Audit), (status = "4XX", body = ErrorBody)))]
async fn audit(Call(context, caller): Call, parameters: Parameters) -> Result<Answer<Audit>> {
    context
        .gate
        .demand(&caller, &Access::core("list", "secrets", ""))
        .await?;
    let limit = super::count(&parameters, "limit", 1..=10_000, 200)?;
    let items = context.history.audit_trail(limit);
    items
        .map_err(Error::disk)
        .map(|items| Answer(Audit { items }))
}
