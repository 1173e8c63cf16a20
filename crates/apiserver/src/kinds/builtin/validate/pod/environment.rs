//! The variables of containers, and the fields of the pod that they and files may show.

use serde_json::Value;

use super::{list, problem, text};
use crate::kinds::builtin::names;
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;

const SOURCES: [&str; 4] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
];

/// What a variable may show of its pod.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What a variable or a file may show of a container's resources, besides huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn all(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = format!("{at}.env[{index}]");
        if text(variable, "name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else {
            let found = names::variable_problem(text(variable, "name"));
            problem(found, &variable["name"], &format!("{at}.name"), errors);
        }
        if variable["valueFrom"].is_object() {
            source(variable, &format!("{at}.valueFrom"), errors);
        }
    }
    for (index, all) in list(container, "envFrom").iter().enumerate() {
        let at = format!("{at}.envFrom[{index}]");
        let prefix = Some(text(all, "prefix")).filter(|prefix| !prefix.is_empty());
        let found = prefix.and_then(names::variable_problem);
        problem(found, &all["prefix"], &format!("{at}.prefix"), errors);
        let given = ["configMapRef", "secretRef"];
        let given: Vec<_> = given
            .into_iter()
            .filter(|one| all[*one].is_object())
            .collect();
        match given.as_slice() {
            [] => errors.push(invalid(
                &at,
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            [one] => object_name(&all[*one], &format!("{at}.{one}"), errors),
            _ => errors.push(invalid(
                &at,
                "may not have more than one field specified at a time",
            )),
        }
    }
}

/// Where a variable that is not written out comes from.
fn source(variable: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let from = &variable["valueFrom"];
    let given = SOURCES.iter().filter(|one| from[**one].is_object());
    let given: Vec<_> = given.collect();
    for one in &given {
        let (reference, at) = (&from[**one], format!("{at}.{one}"));
        match **one {
            "fieldRef" => field(reference, &FIELDS, &at, errors),
            "resourceFieldRef" => resource(reference, false, &at, errors),
            _ => {
                object_name(reference, &at, errors);
                key(reference, &at, errors);
            }
        }
    }
    let detail = match given.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => {
            "may not be specified when `value` is not empty"
        }
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(invalid(at, detail));
}

fn invalid(at: &str, detail: &str) -> FieldError {
    FieldError::invalid(at, &Value::from(""), detail)
}

fn object_name(reference: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let at = format!("{at}.name");
    match text(reference, "name") {
        "" => errors.push(FieldError::required(at, "")),
        name => problem(
            names::subdomain_problem(name),
            &reference["name"],
            &at,
            errors,
        ),
    }
}

fn key(reference: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (key, at) = (text(reference, "key"), format!("{at}.key"));
    if key.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !names::is_key(key) {
        errors.push(FieldError::invalid(at, &reference["key"], names::KEY));
    }
}

/// A field of the pod: one of those that are `known`, or a single label or annotation.
pub(super) fn field(reference: &Value, known: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let (path, shown) = (text(reference, "fieldPath"), &reference["fieldPath"]);
    let at_path = format!("{at}.fieldPath");
    let subscript = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"));
    if let Some((path, key)) = subscript {
        let found = match path {
            "metadata.annotations" => metadata::key_problem(&key.to_ascii_lowercase()),
            "metadata.labels" => metadata::key_problem(key),
            _ => Some("does not support subscript"),
        };
        problem(found, shown, at, errors);
    } else if path.is_empty() {
        errors.push(FieldError::required(at_path, ""));
    } else if !known.contains(&path) {
        let known = known.iter().copied();
        errors.push(FieldError::not_supported(at_path, shown, known));
    }
}

/// What a container has or may have; a file must say which container.
pub(super) fn resource(reference: &Value, is_file: bool, at: &str, errors: &mut Vec<FieldError>) {
    let wanted = text(reference, "resource");
    let is_huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| wanted.starts_with(prefix));
    if is_file && text(reference, "containerName").is_empty() {
        errors.push(FieldError::required(format!("{at}.containerName"), ""));
    } else if wanted.is_empty() {
        errors.push(FieldError::required(format!("{at}.resource"), ""));
    } else if !RESOURCES.contains(&wanted) && !is_huge {
        let at = format!("{at}.resource");
        errors.push(FieldError::not_supported(
            at,
            &reference["resource"],
            RESOURCES,
        ));
    }
}
