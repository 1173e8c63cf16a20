//! Reasons for programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a sentence says, for programs: a page writes it in its reader's language.
///
/// Codes are stable; a client that does not know one shows the sentence beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// Such as `shortage`, `too_big` or `missing_module`.
    #[schema(example = "shortage")]
    pub code: String,
    /// The words and numbers of the sentence, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({ "resource": "nvidia.com/gpu", "needed": "4", "free": "1" }))]
    pub parameters: BTreeMap<String, Value>,
}

impl Cause {
    pub(crate) fn new(code: &str) -> Self {
        Self {
            code: code.to_owned(),
            parameters: BTreeMap::new(),
        }
    }

    /// Of something that is serialized as a code with parameters.
    pub(crate) fn of(reason: &impl Serialize) -> Self {
        let value = serde_json::to_value(reason);
        value.and_then(serde_json::from_value).unwrap_or_default()
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }
}
