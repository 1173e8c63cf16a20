//! `patch`: JSON, merge, strategic and apply patches.

use axum::response::Response;
use http::StatusCode;
use serde_json::Value;

use super::modify;
use crate::call::Call;
use crate::decode;
use crate::respond;
use crate::status::{ApiError, Result};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) async fn patch(call: &Call, body: &[u8]) -> Result<Response> {
    if call.path.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    let (stored, warnings) = match decode::media_type(&call.headers) {
        JSON => {
            let patch = decode::json(body)?;
            modify::modify(call, |old| {
                let mut new = old.clone();
                astrago_patch::json::apply(&mut new, &patch)
                    .map_err(|error| refused(call, &error))?;
                object(new)
            })
            .await?
        }
        MERGE => {
            let patch = decode::json(body)?;
            modify::modify(call, |old| {
                let mut new = old.clone();
                astrago_patch::merge::apply(&mut new, &patch);
                object(new)
            })
            .await?
        }
        STRATEGIC if call.kind.custom.is_none() => {
            return Err(unsupported(call));
        }
        _ => return Err(unsupported(call)),
    };
    Ok(respond::object(call, &stored, StatusCode::OK, &warnings))
}

fn object(value: Value) -> Result<Value> {
    if value.is_object() && value["metadata"].is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("the patched object has no metadata"))
    }
}

fn refused(call: &Call, error: &dyn std::error::Error) -> ApiError {
    ApiError::Invalid {
        subject: call.kind.kind_subject(&call.path.name),
        errors: vec![crate::schema::FieldError::new(
            "patch",
            crate::schema::Reason::Invalid,
            format!("Invalid value: {error}"),
        )],
    }
}

fn unsupported(call: &Call) -> ApiError {
    let strategic = if call.kind.custom.is_none() {
        ", application/strategic-merge-patch+json"
    } else {
        ""
    };
    ApiError::UnsupportedMediaType(format!(
        "{JSON}, {MERGE}, application/apply-patch+yaml{strategic}"
    ))
}
