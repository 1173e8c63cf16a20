//! The rules of Kubernetes' own kinds that a schema cannot say.

mod job;
mod pod;

use base64::Engine as _;
use serde_json::Value;

pub(super) use job::job;

use super::names;
use crate::kinds::schema::{FieldError, Reason};

const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];

/// What was stored before there was a rule may stay, or nobody could change anything else of it, nor delete it.
pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if old.is_none_or(|old| old["spec"] != new["spec"]) {
        pod::spec(&new["spec"], "spec", errors);
    }
    if let Some(old) = old {
        pod::update(new, old, errors);
    }
}

pub(super) fn pod_template(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if old.is_none_or(|old| old["template"]["spec"] != new["template"]["spec"]) {
        pod::spec(&new["template"]["spec"], "template.spec", errors);
    }
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
    let wanted: &[&str] = match text(new, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        _ => &[],
    };
    let missing = wanted.iter().filter(|key| new["data"][**key].is_null());
    for key in missing.filter(|_| old.is_none()) {
        errors.push(FieldError::required(format!("data[{key}]"), ""));
    }
}

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["Never", "PreemptLowerPriority"];
    const HIGHEST: i64 = 1_000_000_000;
    let policy = &new["preemptionPolicy"];
    one_of(policy, "preemptionPolicy", &POLICIES, errors);
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    if old.is_none() && name.starts_with("system-") {
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        errors.push(FieldError::forbidden("metadata.name", detail));
    }
    if old.is_none() && new["value"].as_i64().is_some_and(|value| value > HIGHEST) {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden("value", detail));
    }
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
    if spec["type"] == "ExternalName" && text(spec, "externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let affinities = ["ClientIP", "None"];
    let affinity = &spec["sessionAffinity"];
    one_of(affinity, "spec.sessionAffinity", &affinities, errors);
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        if !text(port, "name").is_empty() {
            let found = names::label_problem(text(port, "name"));
            problem(found, &port["name"], &format!("{at}.name"), errors);
        }
        port_number(&port["port"], &format!("{at}.port"), errors);
        let (target, at_target) = (&port["targetPort"], format!("{at}.targetPort"));
        match target.as_str() {
            Some(name) => problem(names::port_problem(name), target, &at_target, errors),
            None => port_number(target, &at_target, errors),
        }
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

/// How many pods must stay, or may go.
pub(super) fn budget(new: &Value, _: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
    let spec = &new["spec"];
    for field in ["minAvailable", "maxUnavailable"] {
        let (count, at) = (&spec[field], format!("spec.{field}"));
        let percent = count.as_str().map(|text| text.strip_suffix('%'));
        let percent = percent.map(|digits| digits.and_then(|digits| digits.parse::<u8>().ok()));
        let detail = match (count.as_i64(), percent) {
            (Some(..=-1), _) => "must be greater than or equal to 0",
            (_, Some(None)) => {
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            }
            (_, Some(Some(101..))) => "must not be greater than 100%",
            _ => continue,
        };
        errors.push(FieldError::invalid(at, count, detail));
    }
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", spec, detail));
    }
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !policy.is_null() {
        one_of(policy, "spec.unhealthyPodEvictionPolicy", &POLICIES, errors);
    }
    pod::selector(&spec["selector"], "spec.selector", errors);
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

/// What is wrong with a value, if anything.
fn problem(problem: Option<&str>, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(detail) = problem {
        errors.push(FieldError::invalid(at, value, detail));
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
