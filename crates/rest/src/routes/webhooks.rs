//! Webhooks.

use std::sync::Arc;

use axum::Json as Answer;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use crate::app::webhooks;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Call, Json, Name, Parameters};
use crate::model::{ErrorBody, TestedWebhook, Webhook, WebhookRequest};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(list, create; remove; test)
}

/// Where a namespace has its jobs' ends, failures and restarts sent.
#[utoipa::path(get, path = "/api/webhooks", tag = "webhooks", operation_id = "list_webhooks",
    params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = Vec<Webhook>), (status = "4XX", body = ErrorBody)))]
async fn list(Call(context, caller): Call, parameters: Parameters) -> Result<Answer<Vec<Webhook>>> {
    let namespace = parameters.namespace(&caller)?;
    Ok(Answer(webhooks::list(&context, &caller, &namespace).await?))
}

/// Have a namespace's jobs told to an address. Each request carries `X-Astrago-Signature`, the
/// HMAC-SHA256 of `X-Astrago-Timestamp`, a dot and the body, with the webhook's secret.
#[utoipa::path(post, path = "/api/webhooks", tag = "webhooks", operation_id = "create_webhook",
    request_body = WebhookRequest, params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = Webhook), (status = "4XX", body = ErrorBody)))]
async fn create(
    Call(context, caller): Call,
    parameters: Parameters,
    Json(request): Json<WebhookRequest>,
) -> Result<Answer<Webhook>> {
    let namespace = parameters.namespace(&caller)?;
    webhooks::create(&context, &caller, &namespace, request)
        .await
        .map(Answer)
}

/// Delete a webhook, with what it was still to be told.
#[utoipa::path(delete, path = "/api/webhooks/{id}", tag = "webhooks", operation_id = "delete_webhook",
    params(("id" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody)))]
async fn remove(Call(context, caller): Call, Name(id): Name) -> Result<Answer<Value>> {
    webhooks::remove(&context, &caller, &id).await?;
    Ok(Answer(json!({ "status": "success", "id": id })))
}

/// Send a test to a webhook and tell how it went.
#[utoipa::path(post, path = "/api/webhooks/{id}/test", tag = "webhooks", operation_id = "test_webhook",
    params(("id" = String, Path)),
    responses((status = 200, body = TestedWebhook), (status = "4XX", body = ErrorBody)))]
async fn test(Call(context, caller): Call, Name(id): Name) -> Result<Answer<TestedWebhook>> {
    Ok(Answer(webhooks::test(&context, &caller, &id).await?))
}
