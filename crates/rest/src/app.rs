//! What the product does, without a word about HTTP.
//!
//! Every function takes the [`Context`](crate::context::Context), and on whose behalf it acts as
//! a [`Caller`](crate::identity::Caller). Reads come from the caches in
//! [`world`](crate::world) after asking the API server whether the caller may read there; writes
//! go through a client that impersonates the caller, so that RBAC has the last word.

pub(crate) mod apply;
mod belongings;
pub(crate) mod claims;
pub(crate) mod clone;
pub(crate) mod connect;
pub(crate) mod create;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod fit;
pub(crate) mod glance;
pub(crate) mod job_runtime;
pub(crate) mod jobs;
pub(crate) mod lease;
pub(crate) mod lifetimes;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod namespaces;
pub(crate) mod nodes;
pub(crate) mod notes;
pub(crate) mod preview;
pub(crate) mod queue;
pub(crate) mod quotas;
pub(crate) mod record;
pub(crate) mod reports;
pub(crate) mod runtimes;
pub(crate) mod sampling;
pub(crate) mod secrets;
pub(crate) mod snapshots;
pub(crate) mod stacks;
pub(crate) mod stalls;
pub(crate) mod tokens;
pub(crate) mod upkeep;
pub(crate) mod users;
pub(crate) mod verdict;
pub(crate) mod webhooks;

use crate::model::{FieldError, Refusal};
use crate::oidc;

/// Why something that a caller asked for was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", summary(.0))]
    Invalid(Vec<FieldError>),
    #[error("{0}")]
    Malformed(String),
    #[error("the body must be JSON, with content-type application/json")]
    UnsupportedMediaType,
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("this needs a valid token")]
    Unauthenticated,
    #[error("failed to sign in: {0}")]
    SignIn(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("{field}: {message}")]
    ForbiddenField {
        field: &'static str,
        message: String,
    },
    #[error("requests from {0:?} are refused while no token is needed")]
    ForeignOrigin(String),
    #[error("there is no {kind} {name:?}{}", within(.namespace))]
    NotFound {
        kind: &'static str,
        name: String,
        /// Empty for what is in none, or in one that is nobody's business.
        namespace: String,
    },
    #[error("job {job:?} has no worker {worker}; it has 0 to {last}")]
    NoWorker { job: String, worker: i64, last: i64 },
    #[error("there is nothing at this address")]
    NoSuchPath,
    #[error("this address does not take this method")]
    MethodNotAllowed,
    #[error("{0}")]
    Conflict(String),
    #[error("too many requests; come back in {0} s")]
    TooManyRequests(u64),
    /// The disk of the API server, or our own, is full; the text says what to do.
    #[error("{0}")]
    Full(String),
    #[error("failed to {operation}: {reason}")]
    Unavailable {
        operation: &'static str,
        /// What the API server says, where it says anything.
        reason: String,
        source: kube::Error,
    },
    #[error("failed to {operation}")]
    Internal {
        operation: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, refusal: impl Into<Refusal>) -> Self {
        Self::Invalid(vec![FieldError::new(field, refusal)])
    }

    /// Refuses every field for which there is a reason.
    fn refuse<const N: usize>(checks: [(&str, Option<Refusal>); N]) -> Result<()> {
        let wrong = checks
            .into_iter()
            .filter_map(|(field, refusal)| Some(FieldError::new(field, refusal?)));
        let wrong: Vec<FieldError> = wrong.collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Self::Invalid(wrong))
        }
    }

    /// The history or the logs on our own disk failed us.
    pub(crate) fn disk(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        if is_full(&error) {
            let text = "no space is left on the disk of the server; make room there";
            return Self::Full(text.to_owned());
        }
        Self::Internal {
            operation: "read the history",
            source: Box::new(error),
        }
    }

    /// Somebody could not sign in: by their own doing, or because the provider failed.
    pub(crate) fn oidc(error: oidc::Error) -> Self {
        match error {
            oidc::Error::Token(_) | oidc::Error::UnknownLogin | oidc::Error::CodeRefused => {
                Self::SignIn(error.to_string())
            }
            error => Self::Internal {
                operation: "sign in with the provider",
                source: Box::new(error),
            },
        }
    }

    /// Users are somebody else's to manage.
    pub(crate) fn users_are_the_clusters() -> Self {
        Self::Conflict("the users of this server are those of its cluster or provider".to_owned())
    }

    pub(crate) fn no_job(namespace: &str, name: &str) -> Self {
        Self::NotFound {
            kind: "TrainJob",
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// Whether the API server gave no answer, rather than this one.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TooManyRequests(_))
    }

    /// Turns an answer of the API server into ours. What it refuses is the caller's matter, and
    /// what it cannot do is ours.
    pub(crate) fn cluster(operation: &'static str, error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Unavailable {
                operation,
                reason: "the API server is not available".to_owned(),
                source: error,
            };
        };
        let message = status.message.clone();
        match status.code {
            400 => Self::Malformed(message),
            401 | 403 => Self::Forbidden(message),
            404 => Self::Conflict(format!("failed to {operation}: {message}")),
            409 => Self::Conflict(message),
            413 => Self::TooLarge(1024 * 1024),
            422 => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let fields: Vec<FieldError> = causes
                    .map(|cause| FieldError::new(&cause.field, &cause.message))
                    .collect();
                if fields.is_empty() {
                    Self::Malformed(message)
                } else {
                    Self::Invalid(fields)
                }
            }
            429 => {
                let asked = status
                    .details
                    .as_ref()
                    .map(|details| details.retry_after_seconds);
                Self::TooManyRequests(asked.map_or(1, |seconds| u64::from(seconds.max(1))))
            }
            507 => Self::Full(message),
            503 | 504 => Self::Unavailable {
                operation,
                reason: if message.is_empty() {
                    "the API server is not available".to_owned()
                } else {
                    message
                },
                source: error,
            },
            _ => Self::Internal {
                operation,
                source: Box::new(error),
            },
        }
    }

    /// What the caller can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unauthenticated => {
                "send it as \"Authorization: Bearer …\"; on this machine it is in admin.token of the data folder"
            }
            Self::Forbidden(_) => "ask an administrator, or use your own namespace",
            Self::ForeignOrigin(_) => {
                "use the address that `astrago up` printed, or start it without --no-auth"
            }
            Self::NotFound {
                kind: "TrainJob", ..
            } => "list the jobs with `astrago jobs` or GET /api/trainjobs",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Whether something could not be written because the disk is full.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = |error: &(dyn std::error::Error + 'static)| {
        let input = error.downcast_ref::<std::io::Error>();
        input.is_some_and(|error| error.kind() == std::io::ErrorKind::StorageFull)
            || error.to_string().contains("database or disk is full")
    };
    std::iter::successors(Some(error), |error| error.source()).any(full)
}

fn within(namespace: &str) -> String {
    if namespace.is_empty() {
        return String::new();
    }
    format!(" in namespace {namespace:?}")
}

fn summary(fields: &[FieldError]) -> String {
    match fields {
        [] => "the request is invalid".to_owned(),
        [one] => format!("{}: {}", one.field, one.message),
        [first, rest @ ..] => format!(
            "{}: {} (and {} more)",
            first.field,
            first.message,
            rest.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_api_server_says_is_passed_on() {
        let said = "the store cannot take writes: no space left on the device";
        let status = Status {
            code: 503,
            message: said.to_owned(),
            ..Status::default()
        };
        let error = Error::cluster("create the TrainJob", kube::Error::Api(Box::new(status)));
        assert_eq!(
            error.to_string(),
            format!("failed to create the TrainJob: {said}")
        );
        let missing = |namespace: &str| {
            let (kind, name, namespace) = ("thing", "it".to_owned(), namespace.to_owned());
            Error::NotFound {
                kind,
                name,
                namespace,
            }
            .to_string()
        };
        assert_eq!(
            missing("team"),
            r#"there is no thing "it" in namespace "team""#
        );
        assert_eq!(missing(""), r#"there is no thing "it""#);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(matches!(Error::disk(full), Error::Full(_)));
    }
}
