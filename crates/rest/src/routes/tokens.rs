//! Tokens.

use std::sync::Arc;

use axum::Json as Answer;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use crate::app::tokens;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Call, Json, Name, Parameters};
use crate::model::{CreatedToken, ErrorBody, NewToken, Token};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(list, create; revoke)
}

/// The caller's tokens; for administrators those of any user.
#[utoipa::path(get, path = "/api/tokens", tag = "users", operation_id = "list_tokens",
    params(("user" = Option<String>, Query)),
    responses((status = 200, body = Vec<Token>), (status = "4XX", body = ErrorBody)))]
async fn list(Call(context, caller): Call, parameters: Parameters) -> Result<Answer<Vec<Token>>> {
    let user = parameters.text("user");
    Ok(Answer(tokens::list(&context, &caller, user).await?))
}

/// Make a token. It is shown this once, and ends no later than the token that the request came with.
#[utoipa::path(post, path = "/api/tokens", tag = "users", operation_id = "create_token", request_body = NewToken,
    responses((status = 200, body = CreatedToken), (status = "4XX", body = ErrorBody)))]
async fn create(
    Call(context, caller): Call,
    Json(wanted): Json<NewToken>,
) -> Result<Answer<CreatedToken>> {
    Ok(Answer(tokens::create(&context, &caller, &wanted).await?))
}

/// Take a token back; it ends at once.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "users", operation_id = "revoke_token",
    params(("id" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody)))]
async fn revoke(Call(context, caller): Call, Name(id): Name) -> Result<Answer<Value>> {
    tokens::revoke(&context, &caller, &id).await?;
    Ok(Answer(json!({ "status": "success", "id": id })))
}
