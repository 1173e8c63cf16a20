//! What happens to an object between the request and the store: unknown fields, defaults, validation.

use serde_json::Value;

use crate::builtin;
use crate::metadata;
use crate::parameters::FieldValidation;
use crate::registry::{DEFINITIONS, Kind, crd};
use crate::schema::FieldError;
use crate::status::{ApiError, Result};

/// Prunes, defaults and validates `new`. Returns warnings for the caller.
pub(crate) fn admit(
    kind: &Kind,
    new: &mut Value,
    old: Option<&Value>,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let mut errors = metadata::validate(new, names_are_labels(kind));
    let mut unknown = Vec::new();
    if &*kind.resource == DEFINITIONS {
        crd::default(new);
        errors.extend(crd::validate(new, old));
    }
    if let Some(info) = kind.builtin {
        match builtin::admit(info, new, old) {
            Ok(dropped) => unknown = dropped,
            Err(found) => errors.extend(found),
        }
    }
    if let Some(custom) = &kind.custom {
        let structural = custom.structural();
        unknown = structural.prune(new);
        structural.default(new);
        errors.extend(structural.validate(new, old));
    }
    if !errors.is_empty() {
        return Err(invalid(kind, new, errors));
    }
    unknown_fields(kind, &unknown, validation)
}

/// Drops the fields that the kind does not have, and names them.
pub(crate) fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    match (&kind.custom, kind.builtin) {
        (Some(custom), _) => custom.structural().prune(object),
        (None, Some(info)) => builtin::prune(info, object),
        (None, None) => Vec::new(),
    }
}

pub(crate) fn invalid(kind: &Kind, object: &Value, errors: Vec<FieldError>) -> ApiError {
    ApiError::Invalid {
        subject: kind.kind_subject(metadata::text(object, "name")),
        errors,
    }
}

/// What the caller asked to happen to fields that the kind does not have.
pub(crate) fn unknown_fields(
    kind: &Kind,
    unknown: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let lines = unknown
        .iter()
        .map(|field| format!("unknown field {field:?}"));
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let lines: Vec<_> = lines.collect();
            let subject = match kind.builtin {
                Some(info) => format!(
                    "{0} in version {1:?} cannot be handled as a {0}: ",
                    info.kind, info.version
                ),
                None => String::new(),
            };
            Err(ApiError::bad_request(format!(
                "{subject}strict decoding error: {}",
                lines.join(", ")
            )))
        }
        FieldValidation::Warn => Ok(lines.collect()),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

fn names_are_labels(kind: &Kind) -> bool {
    matches!(&*kind.resource, "namespaces" | "services")
}
