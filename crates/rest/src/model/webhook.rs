//! Where a namespace wants to be told about its jobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What can be told.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WebhookEvent {
    Completed,
    Failed,
    Restarted,
    /// Sent on request only.
    Test,
}

impl WebhookEvent {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    #[schema(example = "https://hooks.example.com/training")]
    pub url: String,
    /// Signs the body; chosen by the server when absent. It is shown this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 16, max_length = 256)]
    pub secret: Option<String>,
    /// All of them when empty.
    #[serde(default)]
    pub events: Vec<WebhookEvent>,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    pub id: String,
    pub namespace: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    pub created_at: Timestamp,
    pub created_by: String,
    /// Deliveries that wait for their next attempt.
    pub pending: i64,
    pub last_delivered_at: Option<Timestamp>,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
    /// The key of the signature; only in the answer that creates the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// How a test went.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TestedWebhook {
    pub delivered: bool,
    /// The HTTP status that the receiver answered.
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// The body of a notification.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Notification {
    pub event: WebhookEvent,
    pub time: Timestamp,
    pub namespace: String,
    pub job: String,
    pub uid: String,
    pub user: Option<String>,
    pub state: String,
    pub message: String,
    pub restarts: i64,
}
