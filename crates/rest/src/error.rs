//! The one place where errors become HTTP answers, and the only one with status codes.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

pub(crate) use astrago_net::chain;
use serde_json::json;

use crate::app::{Error, reports};
use crate::model::{ErrorBody, ErrorDetail, FieldError};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = classify(&self);
        let retry_after = match &self {
            Self::TooManyRequests(seconds) => Some(*seconds),
            Self::Unavailable { .. } => Some(1),
            _ => None,
        };
        let mut detail = ErrorDetail {
            code: code.to_owned(),
            message: self.to_string(),
            fields: fields(&self),
            hint: self.hint(),
            request_id: None,
        };
        if status.is_server_error() {
            let id = crate::random_text(12);
            tracing::error!(request_id = id, error = %chain(&self), "request failed");
            if status == StatusCode::INTERNAL_SERVER_ERROR {
                "internal error".clone_into(&mut detail.message);
            }
            detail.request_id = Some(id);
        }
        let mut response = (status, Json(ErrorBody { error: detail })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"astrago\""),
            );
        }
        if let Some(seconds) = retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What is not there, said in plain words to a browser.
pub(crate) fn not_found(text: &'static str) -> Response {
    (StatusCode::NOT_FOUND, text).into_response()
}

/// Whether a request was refused before anything was looked at, however often somebody asks, or asked for something that
/// is not there.
pub(crate) fn did_nothing(response: &Response) -> bool {
    matches!(
        response.status(),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::TOO_MANY_REQUESTS
    )
}

/// To training code that reports its progress, in Kubernetes' form.
impl IntoResponse for reports::Error {
    fn into_response(self) -> Response {
        let mut message = self.to_string();
        let mut retry_after = None;
        let (code, reason) = match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden".to_owned()),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound".to_owned()),
            Self::TooLarge(_) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge".to_owned(),
            ),
            Self::Malformed(_) => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid".to_owned()),
            Self::TooMany(seconds) => {
                retry_after = Some((header::RETRY_AFTER, HeaderValue::from(seconds)));
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests".to_owned())
            }
            Self::Cluster(kube::Error::Api(refusal)) if refusal.code < 500 => {
                let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::BAD_GATEWAY);
                message = refusal.message;
                (code, refusal.reason)
            }
            Self::Cluster(source) => {
                tracing::error!(error = %chain(&source), "failed to take a report of progress");
                "internal error".clone_into(&mut message);
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalError".to_owned(),
                )
            }
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        let mut response = (code, Json(body)).into_response();
        response.headers_mut().extend(retry_after);
        response
    }
}

fn classify(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
        Error::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_request"),
        Error::UnsupportedMediaType => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
        }
        Error::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Error::Unauthenticated | Error::SignIn(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
        Error::Forbidden(_) | Error::ForbiddenField { .. } => (StatusCode::FORBIDDEN, "forbidden"),
        Error::ForeignOrigin(_) => (StatusCode::FORBIDDEN, "foreign_origin"),
        Error::NotFound { .. } | Error::NoWorker { .. } | Error::NoSuchPath => {
            (StatusCode::NOT_FOUND, "not_found")
        }
        Error::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
        Error::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
        Error::TooManyRequests(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        Error::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        Error::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        Error::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

fn fields(error: &Error) -> Vec<FieldError> {
    match error {
        Error::Invalid(fields) => fields.clone(),
        Error::ForbiddenField { field, message } => vec![FieldError::new(*field, message.clone())],
        Error::Malformed(_)
        | Error::UnsupportedMediaType
        | Error::TooLarge(_)
        | Error::Unauthenticated
        | Error::SignIn(_)
        | Error::Forbidden(_)
        | Error::ForeignOrigin(_)
        | Error::NotFound { .. }
        | Error::NoWorker { .. }
        | Error::NoSuchPath
        | Error::MethodNotAllowed
        | Error::Conflict(_)
        | Error::TooManyRequests(_)
        | Error::Full(_)
        | Error::Unavailable { .. }
        | Error::Internal { .. } => Vec::new(),
    }
}
