//! How an error looks to a client.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// A stable word for programs, such as `invalid_request` or `not_found`.
    #[schema(example = "invalid_request")]
    pub code: String,
    /// One sentence for people.
    pub message: String,
    /// Every field that is wrong, all at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldError>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Finds the cause of an internal error in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One wrong field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Its path in the body, such as `volumes[1].mountPath`, or the name of a parameter.
    #[schema(example = "config.memory_per_node")]
    pub field: String,
    #[schema(example = "\"16GB\" is not a quantity; write \"16Gi\" or \"16G\"")]
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}
