//! Request bodies: JSON, YAML and Kubernetes' protobuf.

mod repeats;

use astrago_patch::bounds::MAX_BODY;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::http::protobuf;
use crate::status::{ApiError, Result};

/// Reads a whole body, up to the limit.
pub(crate) async fn read(body: Body) -> Result<Bytes> {
    use http_body_util::{BodyExt as _, LengthLimitError, Limited};
    let collected = Limited::new(body, MAX_BODY).collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::TooLarge(format!("limit is {MAX_BODY}"))
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

pub(crate) fn object(headers: &HeaderMap, body: &[u8]) -> Result<Value> {
    Ok(object_with_repeats(headers, body)?.0)
}

/// An object from a body, and its fields that come twice, of which the last counts.
pub(crate) fn object_with_repeats(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Value, Vec<String>)> {
    let (value, repeats) = match media_type(headers) {
        "application/vnd.kubernetes.protobuf" => (self::protobuf(body)?, Vec::new()),
        "application/yaml" | "application/x-yaml" | "text/yaml" => (yaml(body)?, Vec::new()),
        "" | "application/json" | "*/*" => json_with_repeats(body)?,
        _ => {
            return Err(ApiError::UnsupportedMediaType(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
                    .to_owned(),
            ));
        }
    };
    if value.is_object() {
        Ok((value, repeats))
    } else {
        Err(ApiError::bad_request(
            "the body of the request is not an object",
        ))
    }
}

pub(crate) fn json(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| not_json(&error))
}

/// JSON whose fields the caller may want to be told of when they come twice, and those fields.
pub(crate) fn json_with_repeats(body: &[u8]) -> Result<(Value, Vec<String>)> {
    repeats::parse(body).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::bad_request(format!(
        "the body of the request is not valid JSON: {error}"
    ))
}

/// YAML, of which JSON is a part: `kubectl apply --server-side` sends JSON under this type.
pub(crate) fn yaml(body: &[u8]) -> Result<Value> {
    if let Ok((value, repeats)) = repeats::parse(body)
        && repeats.is_empty()
    {
        return Ok(value);
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| ApiError::bad_request("the body of the request is not valid UTF-8"))?;
    serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| {
        let message = match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey {
                key: Some(key),
                location,
            } => format!("line {}: key {key:?} already set in map", location.line()),
            _ => error.to_string(),
        };
        ApiError::bad_request(format!(
            "the body of the request is not valid YAML: {message}"
        ))
    })
}

/// Each level costs this parser far more of the stack than JSON's, so that it stays at its own limit of 64. What aliases
/// stand for is bounded, too, as it is not by the body's size.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_total_scalar_bytes: MAX_BODY,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
    }
}

fn protobuf(body: &[u8]) -> Result<Value> {
    protobuf::decode(body).map_err(|error| match error {
        protobuf::Error::UnknownKind { .. } => {
            ApiError::UnsupportedMediaType("application/json, application/yaml".to_owned())
        }
        error => ApiError::bad_request(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::flow("[".repeat(20_000) + &"]".repeat(20_000))]
    #[case::blocks("- ".repeat(16_383))]
    #[case::keys("? ".repeat(16_383))]
    #[case::aliases({
        let level = |index: usize| {
            let before = format!("*a{}, ", index - 1).repeat(9);
            format!("a{index}: &a{index} [{before}*a{}]\n", index - 1)
        };
        "a0: &a0 x\n".to_owned() + &(1..12).map(level).collect::<String>()
    })]
    fn yaml_that_makes_much_of_little_is_refused(#[case] text: String) {
        assert!(matches!(
            yaml(text.as_bytes()),
            Err(ApiError::BadRequest(_))
        ));
    }
}
