//! `spec.initializer`: what is fetched before the training starts.

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The jobs that fetch the data set and the model before the training starts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initializer {
    /// Where the data set comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetInitializer>,

    /// Where the pre-trained model comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInitializer>,
}

/// Where the data set comes from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatasetInitializer {
    /// The address of the data set, such as hf://owner/name or s3://bucket/path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [{
            "rule": "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
            "message": "storageUri may be empty, or it must be a valid URI (scheme://...)"
        }])
    )]
    pub storage_uri: Option<String>,

    /// Environment variables of the container that fetches the data set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvVar>,

    /// A secret whose keys become environment variables of that container, for access tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// Where the pre-trained model comes from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInitializer {
    /// The address of the model, such as hf://owner/name or s3://bucket/path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [{
            "rule": "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
            "message": "storageUri may be empty, or it must be a valid URI (scheme://...)"
        }])
    )]
    pub storage_uri: Option<String>,

    /// Environment variables of the container that fetches the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvVar>,

    /// A secret whose keys become environment variables of that container, for access tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}
