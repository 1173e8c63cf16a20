//! How an error looks to a client.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::Cause;
use super::refusal::Refusal;
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[skip_serializing_none]
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
    pub hint: Option<String>,
    /// Finds the cause of an internal error in the server's log.
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
    /// What the message says, for programs; `other` where there is only the message.
    #[serde(flatten)]
    pub cause: Cause,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, refusal: impl Into<Refusal>) -> Self {
        let refusal = refusal.into();
        let cause = match &refusal {
            Refusal::Other { .. } => Cause::new("other"),
            known => Cause::of(known),
        };
        Self {
            field: field.into(),
            message: refusal.to_string(),
            cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_a_sentence_and_a_code_with_its_numbers() {
        let (low, high, value) = (1, 8, 0);
        let known = FieldError::new("num_nodes", Refusal::Between { low, high, value });
        let want = json!({ "field": "num_nodes", "message": "must be between 1 and 8, not 0",
            "code": "between", "parameters": { "low": 1, "high": 8, "value": 0 } });
        assert_eq!(json!(known), want);
        let rare = FieldError::new("entry", "needs snapshot");
        let want = json!({ "field": "entry", "message": "needs snapshot", "code": "other" });
        assert_eq!(json!(rare), want);
    }
}
