//! The rules of Kubernetes' own kinds that a schema cannot say.

mod job;
mod pod;

use base64::Engine as _;
use serde_json::Value;

pub(super) use job::job;

use super::names;
use crate::kinds::schema::{FieldError, Reason};

const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];

pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    pod::spec(&new["spec"], "spec", errors);
    if let Some(old) = old {
        pod::update(new, old, errors);
    }
}

pub(super) fn pod_template(new: &Value, _: Option<&Value>, errors: &mut Vec<FieldError>) {
    pod::spec(&new["template"]["spec"], "template.spec", errors);
}

pub(super) fn config_map(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    keys(new, "data", errors);
    keys(new, "binaryData", errors);
    frozen(new, old, &["data", "binaryData"], errors);
}

pub(super) fn secret(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    keys(new, "data", errors);
    encoded(new, errors);
    frozen(new, old, &["data"], errors);
    if old.is_some_and(|old| old["type"] != new["type"]) {
        let detail = "field is immutable";
        errors.push(FieldError::invalid("type", &new["type"], detail));
    }
}

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if old.is_some_and(|old| old["value"] != new["value"]) {
        let detail = "may not be changed in an update.";
        errors.push(FieldError::forbidden("value", detail));
    }
}

/// The keys of a ConfigMap's or Secret's data.
fn keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for key in object[field]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if !names::is_key(key) {
            let at = format!("{field}[{key}]");
            errors.push(FieldError::invalid(at, &key.as_str().into(), names::KEY));
        }
    }
}

fn encoded(secret: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if base64::engine::general_purpose::STANDARD
            .decode(text)
            .is_err()
        {
            // The value is not shown: it is a secret.
            let body = "Invalid value: \"<value omitted>\": must be base64 encoded".to_owned();
            errors.push(FieldError::new(
                format!("data[{key}]"),
                Reason::Invalid,
                body,
            ));
        }
    }
}

/// `immutable: true` cannot be taken back, and freezes the data.
fn frozen(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    if new["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", DETAIL));
    }
    for field in fields {
        if old[*field] != new[*field] {
            errors.push(FieldError::forbidden(*field, DETAIL));
        }
    }
}

pub(super) fn service(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    let (spec, old) = (&new["spec"], old.map(|old| &old["spec"]));
    one_of(&spec["type"], "spec.type", &TYPES, errors);
    let ports = spec["ports"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_headless = spec["clusterIP"] == "None";
    let had = old.filter(|old| old["type"] != "ExternalName" && spec["type"] != "ExternalName");
    let had = had.and_then(|old| old["clusterIP"].as_str());
    if had.is_some_and(|had| !had.is_empty() && spec["clusterIP"] != had) {
        let given = &spec["clusterIPs"];
        let detail = "may not change once set";
        errors.push(FieldError::invalid("spec.clusterIPs[0]", given, detail));
    }
    if ports.is_empty() && !is_headless && spec["type"] != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        port_number(&port["port"], &format!("{at}.port"), errors);
        one_of(
            &port["protocol"],
            &format!("{at}.protocol"),
            &["SCTP", "TCP", "UDP"],
            errors,
        );
        let is_same =
            |one: &Value| one["port"] == port["port"] && one["protocol"] == port["protocol"];
        if ports[..index].iter().any(is_same) {
            errors.push(FieldError::duplicate(at, port));
        }
    }
}

pub(super) fn claim(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        let detail = "at least 1 access mode is required";
        errors.push(FieldError::required("spec.accessModes", detail));
    }
    if spec["resources"]["requests"]["storage"].is_null() {
        errors.push(FieldError::required("spec.resources[storage]", ""));
    }
    if let Some(old) = old {
        // Binding fills in the volume and the class; growing the request is allowed.
        let fixed = |claim: &Value| {
            let mut spec = claim["spec"].clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.remove("resources");
                fields.remove("volumeAttributesClassName");
            }
            spec
        };
        let (before, after) = (fixed(old), fixed(new));
        let is_only_filled = before
            .as_object()
            .into_iter()
            .flatten()
            .all(|(name, value)| after.get(name) == Some(value))
            && after.as_object().into_iter().flatten().all(|(name, _)| {
                before.get(name).is_some()
                    || ["volumeName", "storageClassName"].contains(&name.as_str())
            });
        if !is_only_filled {
            errors.push(FieldError::forbidden(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            ));
        }
    }
}

pub(super) fn role_binding(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let role = &new["roleRef"];
    one_of(
        &role["kind"],
        "roleRef.kind",
        &["Role", "ClusterRole"],
        errors,
    );
    if role["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    if old.is_some_and(|old| old["roleRef"] != new["roleRef"]) {
        errors.push(FieldError::invalid(
            "roleRef",
            role,
            "cannot change roleRef",
        ));
    }
    for (index, subject) in new["subjects"].as_array().into_iter().flatten().enumerate() {
        let at = format!("subjects[{index}]");
        one_of(&subject["kind"], &format!("{at}.kind"), &SUBJECTS, errors);
        if subject["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        let is_account = subject["kind"] == "ServiceAccount";
        let namespace = subject["namespace"].as_str().unwrap_or_default();
        if is_account && namespace.is_empty() {
            errors.push(FieldError::required(format!("{at}.namespace"), ""));
        }
    }
}

/// A field that must have one of these values.
fn one_of(value: &Value, at: &str, choices: &[&str], errors: &mut Vec<FieldError>) {
    match value.as_str() {
        None | Some("") => errors.push(FieldError::required(at, "")),
        Some(text) if choices.contains(&text) => {}
        Some(_) => {
            errors.push(FieldError::not_supported(
                at,
                value,
                choices.iter().copied(),
            ));
        }
    }
}

fn port_number(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() {
        errors.push(FieldError::required(at, ""));
    } else if !value
        .as_i64()
        .is_some_and(|port| (1..=65535).contains(&port))
    {
        errors.push(FieldError::invalid(
            at,
            value,
            "must be between 1 and 65535, inclusive",
        ));
    }
}
