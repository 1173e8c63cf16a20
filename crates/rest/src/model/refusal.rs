//! Why a field is refused.

use serde::Serialize;

/// What is wrong with a field: for programs a code with its parameters, for people a sentence.
///
/// Codes are stable; pages translate by them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "code", content = "parameters", rename_all = "snake_case")]
pub(crate) enum Refusal {
    #[error("is required")]
    Required,
    #[error("must not be empty")]
    Empty,
    #[error("must be between {low} and {high}, not {value}")]
    Between { low: i64, high: i64, value: i64 },
    #[error("must be at least {low}, not {value:?}")]
    AtLeast { low: String, value: String },
    #[error("must not be above its limit: {value:?} is more than {limit:?}")]
    AboveLimit { value: String, limit: String },
    #[error("{value:?} is not a quantity; write for example \"4\", \"500m\" or \"16Gi\"")]
    Quantity { value: String },
    #[error(
        "{value:?} is not a quantity; write {binary:?} (powers of 1024) or {decimal:?} (powers of 1000)"
    )]
    QuantityUnit {
        value: String,
        binary: String,
        decimal: String,
    },
    #[error("must have at most {limit} characters{}", .has.map(|has| format!(", not {has}")).unwrap_or_default())]
    TooLong {
        limit: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        has: Option<usize>,
    },
    #[error("must have at most {limit} entries")]
    TooMany { limit: usize },
    #[error("may have lower-case letters, digits and dashes only, not {value:?}")]
    Letters { value: char },
    #[error("must begin and end with a letter or digit")]
    Ends,
    #[error("must begin with a letter")]
    Begins,
    #[error("must begin with a letter or _ and contain letters, digits and _ only")]
    VariableName,
    #[error("is too long: {value:?} has {has} characters and its pods' names have room for {room}")]
    PodNames {
        value: String,
        has: usize,
        room: usize,
    },
    #[error("{value} is given twice")]
    Twice { value: String },
    #[error("must be an absolute path; write {right:?}")]
    Absolute { right: String },
    #[error("must be a URL such as {right}")]
    Url { right: &'static str },
    #[error(
        "is this server itself or in a private network; the server's configuration must allow that first"
    )]
    Private,
    #[error("must be an image reference such as pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime")]
    Image,
    #[error("{value} is set by the runtime and cannot be changed")]
    Reserved { value: String },
    #[error("no runtime here is for the framework {value:?}{}", others(.known))]
    Framework { value: String, known: Vec<String> },
    #[error("there is no runtime {value:?}{}", others(.known))]
    Runtime { value: String, known: Vec<String> },
    #[error("needs a runtime that fetches it, and the framework has none")]
    GitRuntime,
    #[error("must be {want}, not {got}")]
    Kind {
        want: &'static str,
        got: &'static str,
    },
    /// What happens too seldom for a code of its own.
    #[error("{text}")]
    Other { text: String },
}

fn others(known: &[String]) -> String {
    if known.is_empty() {
        return ", nor any other; an administrator must install it".to_owned();
    }
    format!("; there are {}", known.join(", "))
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self::Other { text }
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Refusal {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}
