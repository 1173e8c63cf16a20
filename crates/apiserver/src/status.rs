//! What goes wrong, and how it is said: the one place that knows HTTP status codes.
//!
//! Clients decide by `reason` and `code` and print `message`, so all three keep to Kubernetes'
//! words. `docs/status-codes.md` has the table.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::http::respond;
use crate::kinds::schema::{FieldError, summary};
use crate::store::{Expired, WriteError};

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// The object, or the collection, that an error is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    pub group: String,
    /// Plural for most errors, the kind for [`ApiError::Invalid`].
    pub resource: String,
    pub name: String,
}

impl Subject {
    /// With the name, where there is one.
    fn quoted(&self) -> String {
        if self.name.is_empty() {
            self.qualified()
        } else {
            format!("{} {:?}", self.qualified(), self.name)
        }
    }

    /// `trainjobs.trainer.kubeflow.org`, or `pods` in the core group.
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// Everything that the server may answer instead of what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{} {:?} not found", .0.qualified(), .0.name)]
    NotFound(Subject),
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    #[error("{} {:?} already exists", .0.qualified(), .0.name)]
    AlreadyExists(Subject),
    #[error("Operation cannot be fulfilled on {} {:?}: {message}", subject.qualified(), subject.name)]
    Conflict { subject: Subject, message: String },
    /// Server-side apply met fields of other managers: each path, and who owns it.
    #[error("{message}")]
    ApplyConflict {
        message: String,
        causes: Vec<(String, String)>,
    },
    #[error("{} {:?} is invalid: {}", subject.qualified(), subject.name, summary(errors))]
    Invalid {
        subject: Subject,
        errors: Vec<FieldError>,
    },
    #[error("{0}")]
    BadRequest(String),
    #[error("Unauthorized")]
    Unauthorized,
    #[error("{} is forbidden: {reason}", subject.quoted())]
    Forbidden { subject: Subject, reason: String },
    /// As [`Self::Forbidden`], for paths that are no resource and for impersonation.
    #[error("forbidden: {0}")]
    ForbiddenPath(String),
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    #[error("only the following media types are accepted: {0}")]
    NotAcceptable(&'static str),
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    UnsupportedMediaType(String),
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    #[error("{0}")]
    Expired(String),
    #[error("Too large resource version: {requested}, current: {current}")]
    FutureRevision { requested: u64, current: u64 },
    #[error("{0}")]
    TooManyRequests(String),
    /// A PodDisruptionBudget does not let a pod go now; the text says which.
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    DisruptionBudget(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Full(String),
    /// Our own fault: the text goes to the log, not to the caller.
    #[error("internal error: {0}")]
    Internal(String),
}

impl ApiError {
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// Somebody else changed the object first.
    pub(crate) fn modified(subject: Subject) -> Self {
        let message = MODIFIED.to_owned();
        Self::Conflict { subject, message }
    }

    /// How a refused write of `subject` is answered.
    pub fn from_write(error: WriteError, subject: Subject, namespace: &str) -> Self {
        match error {
            WriteError::AlreadyExists => Self::AlreadyExists(subject),
            WriteError::Conflict => Self::modified(subject),
            WriteError::NotFound => Self::NotFound(subject),
            WriteError::NamespaceMissing => Self::NotFound(Subject {
                resource: "namespaces".to_owned(),
                name: namespace.to_owned(),
                group: String::new(),
            }),
            WriteError::NamespaceTerminating => Self::Forbidden {
                subject,
                reason: format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                ),
            },
            error @ WriteError::Full => Self::Full(error.to_string()),
            error @ (WriteError::Storage(_) | WriteError::Closed) => {
                Self::Unavailable(error.to_string())
            }
        }
    }

    /// A refusal of a node, which it gives as a sentence, about `subject`.
    pub(crate) fn from_node(code: StatusCode, words: String, subject: Subject) -> Self {
        match code {
            StatusCode::NOT_FOUND => Self::NotFound(subject),
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable(words),
            code if code.is_client_error() => Self::BadRequest(words),
            _ => Self::Internal(words),
        }
    }

    /// The status code, and Kubernetes' word for it.
    fn class(&self) -> (StatusCode, &'static str) {
        use StatusCode as Code;
        match self {
            Self::NotFound(_) | Self::NoSuchPath => (Code::NOT_FOUND, "NotFound"),
            Self::AlreadyExists(_) => (Code::CONFLICT, "AlreadyExists"),
            Self::Conflict { .. } | Self::ApplyConflict { .. } => (Code::CONFLICT, "Conflict"),
            Self::Invalid { .. } => (Code::UNPROCESSABLE_ENTITY, "Invalid"),
            Self::BadRequest(_) => (Code::BAD_REQUEST, "BadRequest"),
            Self::Unauthorized => (Code::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden { .. } | Self::ForbiddenPath(_) => (Code::FORBIDDEN, "Forbidden"),
            Self::MethodNotAllowed => (Code::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::NotAcceptable(_) => (Code::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::UnsupportedMediaType(_) => (Code::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Self::TooLarge(_) => (Code::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::Expired(_) => (Code::GONE, "Expired"),
            Self::FutureRevision { .. } => (Code::GATEWAY_TIMEOUT, "Timeout"),
            Self::TooManyRequests(_) | Self::DisruptionBudget(_) => {
                (Code::TOO_MANY_REQUESTS, "TooManyRequests")
            }
            Self::Unavailable(_) => (Code::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Full(_) => (Code::INSUFFICIENT_STORAGE, "InsufficientStorage"),
            Self::Internal(_) => (Code::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(subject)
            | Self::AlreadyExists(subject)
            | Self::Conflict { subject, .. }
            | Self::Forbidden { subject, .. } => about(subject),
            Self::Invalid { subject, errors } => {
                let mut details = about(subject);
                details["causes"] = errors
                    .iter()
                    .map(|error| {
                        json!({
                            "reason": error.reason.as_str(),
                            "message": error.body,
                            "field": error.field,
                        })
                    })
                    .collect();
                details
            }
            Self::ApplyConflict { causes, .. } => json!({
                "causes": causes.iter().map(|(field, message)| json!({
                    "reason": "FieldManagerConflict", "message": message, "field": field,
                })).collect::<Value>(),
            }),
            Self::FutureRevision { .. } => json!({
                "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
                "retryAfterSeconds": 1,
            }),
            Self::TooManyRequests(_) => json!({ "retryAfterSeconds": 1 }),
            Self::DisruptionBudget(detail) => json!({
                "causes": [{ "reason": "DisruptionBudget", "message": detail }],
            }),
            Self::NoSuchPath
            | Self::BadRequest(_)
            | Self::Unauthorized
            | Self::ForbiddenPath(_)
            | Self::MethodNotAllowed
            | Self::NotAcceptable(_)
            | Self::UnsupportedMediaType(_)
            | Self::TooLarge(_)
            | Self::Expired(_)
            | Self::Unavailable(_)
            | Self::Full(_)
            | Self::Internal(_) => json!({}),
        }
    }

    pub fn to_status(&self) -> Value {
        let message = match self {
            Self::Internal(_) => {
                "an internal error occurred; the server's log has the details".to_owned()
            }
            other => other.to_string(),
        };
        let (code, reason) = self.class();
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": self.details(),
            "code": code.as_u16(),
        })
    }
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The answer to a request that has made something.
pub(crate) fn created(mut response: Response) -> Response {
    *response.status_mut() = StatusCode::CREATED;
    response
}

/// The answer of a subresource that does something to its object.
pub(crate) fn done() -> Response {
    created(respond::json_value(&json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    })))
}

/// The answer to a client that has the document already.
pub(crate) fn not_modified() -> Response {
    StatusCode::NOT_MODIFIED.into_response()
}

/// The answer to the question whether everything works, when something does not.
pub(crate) fn unready(failed: String) -> Response {
    let mut response = respond::text(failed);
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Whether the other side has accepted an upgrade of the connection.
pub(crate) fn is_upgrade<B>(answer: &http::Response<B>) -> bool {
    answer.status() == StatusCode::SWITCHING_PROTOCOLS
}

/// The answer to a delete that left nothing behind.
pub(crate) fn deleted(subject: &Subject, uid: &str) -> Value {
    let mut details = about(subject);
    details["uid"] = uid.into();
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}

impl From<Expired> for ApiError {
    fn from(expired: Expired) -> Self {
        Self::Expired(format!(
            "too old resource version: the history begins at {}",
            expired.oldest
        ))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Internal(detail) = &self {
            tracing::error!(detail, "a request failed through our own fault");
        }
        let retry = matches!(self, Self::TooManyRequests(_) | Self::FutureRevision { .. });
        let mut response = respond::json_value(&self.to_status());
        *response.status_mut() = self.class().0;
        if retry {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn about(subject: &Subject) -> Value {
    let fields = [
        ("name", &subject.name),
        ("group", &subject.group),
        ("kind", &subject.resource),
    ];
    let present = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(
        present
            .map(|(key, value)| (key.to_owned(), value.as_str().into()))
            .collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_reads_as_in_kubernetes() {
        let subject = Subject {
            group: "trainer.kubeflow.org".to_owned(),
            resource: "trainjobs".to_owned(),
            name: "x".to_owned(),
        };
        let status = ApiError::NotFound(subject).to_status();
        assert_eq!(
            status["message"],
            "trainjobs.trainer.kubeflow.org \"x\" not found"
        );
        assert_eq!(status["code"], 404);
        assert_eq!(status["details"]["kind"], "trainjobs");
    }

    #[test]
    fn an_internal_error_keeps_its_detail_to_itself() {
        let status = ApiError::Internal("/secret/path".to_owned()).to_status();
        assert!(!status.to_string().contains("/secret"));
    }
}
