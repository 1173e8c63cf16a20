//! What is wrong with an object, field by field.

use std::fmt;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct FieldError {
    /// The path of the field, such as `spec.trainer.numNodes`.
    pub field: String,
    pub kind: FieldErrorKind,
    /// What is wrong, in upstream's words where it has them.
    pub message: String,
}

/// In which way a field is wrong; Kubernetes tells clients so in the causes of a failure.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FieldErrorKind {
    Invalid,
    Forbidden,
    NotFound,
}

impl FieldErrorKind {
    /// The name of the kind in the causes of a Kubernetes `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

impl FieldError {
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::Invalid,
            message: message.into(),
        }
    }

    pub fn forbidden(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::Forbidden,
            message: message.into(),
        }
    }

    pub fn not_found(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::NotFound,
            message: message.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FieldErrorKind::Forbidden => {
                write!(formatter, "{}: Forbidden: {}", self.field, self.message)
            }
            FieldErrorKind::Invalid | FieldErrorKind::NotFound => {
                write!(formatter, "{}: {}", self.field, self.message)
            }
        }
    }
}

/// Everything that is wrong with an object, in a fixed order, without duplicates; never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// `Ok` when nothing is wrong.
    pub(crate) fn check(mut errors: Vec<FieldError>) -> Result<(), Self> {
        errors.sort();
        errors.dedup();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self(errors))
        }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.iter()
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => only.fmt(formatter),
            all => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(formatter, "[{}]", all.join(", "))
            }
        }
    }
}

impl std::error::Error for FieldErrors {}
