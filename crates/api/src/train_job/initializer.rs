//! `spec.initializer`: what is fetched before the training starts.

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The jobs that fetch the data set and the model before the training starts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initializer {
    /// Where the data set comes from.
    pub dataset: Option<InitializerSource>,

    /// Where the pre-trained model comes from.
    pub model: Option<InitializerSource>,
}

/// Where a data set or a pre-trained model comes from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializerSource {
    /// The address, such as hf://owner/name or s3://bucket/path.
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [{
            "rule": "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
            "message": "storageUri may be empty, or it must be a valid URI (scheme://...)"
        }])
    )]
    pub storage_uri: Option<String>,

    /// Environment variables of the container that fetches it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,

    /// A secret whose keys become environment variables of that container, for access tokens.
    pub secret_ref: Option<LocalObjectReference>,
}
