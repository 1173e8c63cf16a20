//! What happens to an object between the request and the store: unknown fields, defaults, validation.

pub(crate) mod cluster_ip;
pub(crate) mod limit_range;
pub(crate) mod pod;
pub(crate) mod quota;
pub(crate) mod room;

use astrago_patch::bounds::{self, Exceeded, MAX_DEPTH, MAX_SIZE};
use serde_json::Value;

use crate::http::parameters::FieldValidation;
use crate::kinds::builtin;
use crate::kinds::metadata;
use crate::kinds::registry::Kind;
use crate::kinds::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::verbs::call::Call;

/// Completes and checks an object that a request wants. Returns warnings for the caller.
pub(crate) fn admit(call: &Call, new: &mut Value, old: Option<&Value>) -> Result<Vec<String>> {
    let strategy = call.kind.strategy;
    (strategy.prepare)(call, new, old)?;
    let warnings = validate(&call.kind, new, old, call.parameters.field_validation)?;
    (strategy.check)(call, new, old)?;
    (strategy.finish)(call, new, old);
    Ok(warnings)
}

fn validate(
    kind: &Kind,
    new: &mut Value,
    old: Option<&Value>,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let mut errors = metadata::validate(new, old, kind.strategy.names);
    let mut unknown = Vec::new();
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
        errors.extend(match old.filter(|old| custom.has_passed(old)) {
            Some(old) => structural.validate_change(new, old),
            None => structural.validate(new, old),
        });
    }
    if !errors.is_empty() {
        return Err(invalid(kind, new, errors));
    }
    unknown_fields(kind, &unknown, validation)
}

/// Refuses an object that must not be stored, whatever made it so: the request, a patch, defaults or the books of
/// managed fields.
pub(crate) fn check_bounds(object: &Value) -> Result<()> {
    bounds::check(object).map_err(|exceeded| match exceeded {
        Exceeded::Size => ApiError::TooLarge(format!(
            "the object would be larger than {MAX_SIZE} bytes; keep large data in a volume"
        )),
        Exceeded::Depth => ApiError::bad_request(format!(
            "the object would be nested deeper than {MAX_DEPTH} levels; make it flatter"
        )),
    })
}

/// Refuses what is not even built like an object of its kind, before anybody reaches into it.
pub(crate) fn check_shape(kind: &Kind, object: &Value) -> Result<()> {
    let mut errors = metadata::check_types(&object["metadata"]);
    if kind.builtin.is_some() {
        for field in ["spec", "status"] {
            if !matches!(object[field], Value::Object(_) | Value::Null) {
                let detail = "must be of type object";
                errors.push(FieldError::type_invalid(field, &object[field], detail));
            }
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(invalid(kind, object, errors))
    }
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
    let lines = unknown.iter();
    let lines = lines.map(|field| format!("unknown field {field:?}"));
    doubtful_fields(kind, lines.collect(), validation)
}

/// The same for fields that came twice.
pub(crate) fn repeated_fields(call: &Call, repeated: &[String]) -> Result<Vec<String>> {
    let lines = repeated.iter();
    let lines = lines.map(|field| format!("duplicate field {field:?}"));
    doubtful_fields(
        &call.kind,
        lines.collect(),
        call.parameters.field_validation,
    )
}

fn doubtful_fields(
    kind: &Kind,
    lines: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    match validation {
        FieldValidation::Strict if !lines.is_empty() => {
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
        FieldValidation::Warn => Ok(lines),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}
