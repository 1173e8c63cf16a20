//! What is wrong with one field, in the words of `k8s.io/apimachinery`'s `field.Error`.
//!
//! Clients print these texts, and tests of theirs compare them, so they are kept to the letter:
//! `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.

use std::fmt;

use serde_json::Value;

/// One refused field. `Display` gives the line that stands in a Status message; `body` is the same
/// without the path, which is what a Status cause carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub field: String,
    pub reason: Reason,
    pub body: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, reason: Reason, body: impl Into<String>) -> Self {
        let field = match field.into() {
            // What Kubernetes calls the object as a whole.
            field if field.is_empty() => "<nil>".to_owned(),
            field => field,
        };
        Self {
            field,
            reason,
            body: body.into(),
        }
    }

    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(
            field,
            Reason::Required,
            with_detail("Required value", detail),
        )
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = with_detail(&format!("Invalid value: {}", shown(value)), detail);
        Self::new(field, Reason::Invalid, body)
    }

    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = with_detail(&format!("Invalid value: {}", shown(value)), detail);
        Self::new(field, Reason::TypeInvalid, body)
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            field,
            Reason::Duplicate,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    pub fn not_supported<'a>(
        field: impl Into<String>,
        value: &Value,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let supported: Vec<_> = supported
            .into_iter()
            .map(|one| format!("{one:?}"))
            .collect();
        let body = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        Self::new(field, Reason::NotSupported, body)
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, Reason::Forbidden, with_detail("Forbidden", detail))
    }

    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let body = format!("Too long: may not be more than {limit} bytes");
        Self::new(field, Reason::TooLong, body)
    }

    pub fn too_many(field: impl Into<String>, actual: usize, limit: usize) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        let body = format!("Too many: {actual}: must have at most {limit} {items}");
        Self::new(field, Reason::TooMany, body)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// The `reason` of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Required,
    Duplicate,
    Invalid,
    TypeInvalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    Internal,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }
}

/// The text behind `… is invalid: `: one error as it is, several in brackets, repeats once.
pub(crate) fn summary(errors: &[FieldError]) -> String {
    let mut lines: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let line = error.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", lines.join(", ")),
    }
}

/// A value as Go's `%#v`-like printing of `field.Error` shows it: strings quoted, numbers and
/// booleans bare, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {detail}")
    }
}
