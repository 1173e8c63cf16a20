//! Request bodies: JSON, YAML and Kubernetes' protobuf.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::protobuf;
use crate::status::{ApiError, Result};

/// As in Kubernetes: 3 MiB.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// Reads a whole body, up to the limit.
pub(crate) async fn read(body: Body) -> Result<Bytes> {
    use http_body_util::{BodyExt as _, LengthLimitError, Limited};
    let collected = Limited::new(body, MAX_BODY).collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::TooLarge(MAX_BODY)
            } else {
                ApiError::bad_request("the request's body ended early")
            }
        })
}

/// The media type without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

/// An object from a body.
pub(crate) fn object(headers: &HeaderMap, body: &[u8]) -> Result<Value> {
    let value = match media_type(headers) {
        "application/vnd.kubernetes.protobuf" => self::protobuf(body)?,
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(body)?,
        "" | "application/json" | "*/*" => json(body)?,
        _ => {
            return Err(ApiError::UnsupportedMediaType(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
                    .to_owned(),
            ));
        }
    };
    if value.is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request(
            "the body of the request is not an object",
        ))
    }
}

pub(crate) fn json(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!(
            "the body of the request is not valid JSON: {error}"
        ))
    })
}

/// YAML, of which JSON is a part: `kubectl apply --server-side` sends JSON under this type.
pub(crate) fn yaml(body: &[u8]) -> Result<Value> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| ApiError::bad_request("the body of the request is not valid UTF-8"))?;
    serde_saphyr::from_str(text).map_err(|error| {
        ApiError::bad_request(format!(
            "the body of the request is not valid YAML: {error}"
        ))
    })
}

fn protobuf(body: &[u8]) -> Result<Value> {
    protobuf::decode(body).map_err(|error| match error {
        protobuf::Error::UnknownKind { .. } => {
            ApiError::UnsupportedMediaType("application/json, application/yaml".to_owned())
        }
        error => ApiError::bad_request(error.to_string()),
    })
}
