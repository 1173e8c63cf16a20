//! What happens to an object between the request and the store: unknown fields, defaults, validation.

use astrago_patch::bounds::{self, Exceeded, MAX_DEPTH, MAX_SIZE};
use serde_json::Value;

use crate::builtin;
use crate::limit_range;
use crate::metadata;
use crate::parameters::FieldValidation;
use crate::registry::{DEFINITIONS, Kind, crd};
use crate::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::store::{Name, Query, Store};

/// Prunes, defaults and validates `new`. Returns warnings for the caller.
pub(crate) fn admit(
    kind: &Kind,
    new: &mut Value,
    old: Option<&Value>,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let mut errors = metadata::validate(new, names_are_labels(kind));
    let mut unknown = Vec::new();
    if let Some(info) = kind.builtin {
        match builtin::admit(info, new, old) {
            Ok(dropped) => unknown = dropped,
            Err(found) => errors.extend(found),
        }
    }
    // Only what has the right types can be defaulted.
    if &*kind.resource == DEFINITIONS && errors.is_empty() {
        crd::default(new);
        errors.extend(crd::validate(new, old));
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

/// The limit ranges of the namespace of an object that they may be about.
pub(crate) fn limit_ranges(store: &Store, kind: &Kind, namespace: &str) -> Vec<Value> {
    if !matches!(&*kind.resource, "pods" | "persistentvolumeclaims") {
        return Vec::new();
    }
    let query = Query {
        namespace,
        ..Query::default()
    };
    let ranges = store.list("limitranges", &query).map(|page| page.objects);
    let ranges = ranges.unwrap_or_default().into_iter();
    ranges.map(|range| range.value()).collect()
}

/// Refuses an admitted object that asks for more or less than the limit ranges allow.
pub(crate) fn check_limits(kind: &Kind, ranges: &[Value], object: &Value) -> Result<()> {
    let problem = match &*kind.resource {
        "pods" => limit_range::check_pod(ranges, object),
        "persistentvolumeclaims" => limit_range::check_claim(ranges, object),
        _ => None,
    };
    problem.map_or(Ok(()), |reason| {
        Err(ApiError::Forbidden {
            subject: kind.subject(metadata::text(object, "name")),
            reason,
        })
    })
}

/// Completes a new object by others that it names: a pod's priority is that of its class.
pub(crate) fn resolve(store: &Store, kind: &Kind, new: &mut Value) -> Result<()> {
    const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
    if &*kind.resource != "pods" {
        return Ok(());
    }
    let named = new["spec"]["priorityClassName"]
        .as_str()
        .filter(|name| !name.is_empty());
    let class = if let Some(name) = named {
        let class = store.get(CLASSES, &Name::new("", name));
        let class = class.ok_or_else(|| ApiError::Forbidden {
            subject: kind.subject(metadata::text(new, "name")),
            reason: format!("no PriorityClass with name {name} was found"),
        })?;
        Some(class.value())
    } else {
        let classes = store
            .list(CLASSES, &Query::default())
            .map(|page| page.objects);
        let mut values = classes
            .unwrap_or_default()
            .into_iter()
            .map(|class| class.value());
        values.find(|class| class["globalDefault"] == true)
    };
    let Some(spec) = new["spec"].as_object_mut() else {
        return Ok(());
    };
    let value = class
        .as_ref()
        .and_then(|class| class["value"].as_i64())
        .unwrap_or(0);
    spec.insert("priority".to_owned(), value.into());
    let policy = class
        .as_ref()
        .and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    if let (None, Some(class)) = (spec.get("priorityClassName"), &class) {
        spec.insert(
            "priorityClassName".to_owned(),
            class["metadata"]["name"].clone(),
        );
    }
    Ok(())
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
