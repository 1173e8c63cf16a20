//! The rules of pods and pod templates.

use std::collections::HashSet;

use serde_json::Value;

use super::{one_of, port_number};
use crate::kinds::builtin::{names, quantity};
use crate::kinds::schema::{FieldError, Reason};

const UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn spec(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
    let containers = list(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{at}.containers"), ""));
    }
    one_of(
        &spec["restartPolicy"],
        &format!("{at}.restartPolicy"),
        &POLICIES,
        errors,
    );
    let volumes = list(spec, "volumes");
    let mut named = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        self::volume(volume, &format!("{at}.volumes[{index}]"), errors);
        let name = text(volume, "name");
        if !name.is_empty() && !named.insert(name) {
            let at = format!("{at}.volumes[{index}].name");
            errors.push(FieldError::duplicate(at, &volume["name"]));
        }
    }
    let sources: HashSet<&str> = volumes.iter().map(|volume| text(volume, "name")).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            let at = format!("{at}.{field}[{index}]");
            self::container(container, &sources, &at, errors);
            let name = text(container, "name");
            if !name.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(
                    format!("{at}.name"),
                    &container["name"],
                ));
            }
        }
    }
    let at_sysctls = format!("{at}.securityContext.sysctls");
    sysctls(
        list(&spec["securityContext"], "sysctls"),
        &at_sysctls,
        errors,
    );
    if spec["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds < 1)
    {
        errors.push(FieldError::invalid(
            format!("{at}.activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
}

fn sysctls(sysctls: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "must have at most 253 characters: words of lower-case letters, digits, '-' and '_' between \
        letters or digits, separated by '.' or '/'";
    let mut seen = HashSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = format!("{at}[{index}].name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !is_sysctl(name) {
            errors.push(FieldError::invalid(at, &sysctl["name"], DETAIL));
        } else if !seen.insert(name.replace('/', ".")) {
            errors.push(FieldError::duplicate(at, &sysctl["name"]));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|word| {
            let ends = word.bytes().next().zip(word.bytes().next_back());
            ends.is_some_and(|(first, last)| is_plain(first) && is_plain(last))
                && word
                    .bytes()
                    .all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_'))
        })
}

/// What of a pod may change: images, and what is loosened rather than turned around.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut allowed = old["spec"].clone();
    let wanted = &new["spec"];
    for field in ["containers", "initContainers"] {
        let images = list(wanted, field);
        let mine = allowed.get_mut(field).and_then(Value::as_array_mut);
        let mine = mine.map(Vec::as_mut_slice).unwrap_or_default();
        for (mine, theirs) in mine.iter_mut().zip(images) {
            put(mine, theirs, "image");
        }
    }
    put(&mut allowed, wanted, "activeDeadlineSeconds");
    deadline(&wanted["activeDeadlineSeconds"], &old["spec"], errors);
    let kept = list(&allowed, "tolerations")
        .iter()
        .all(|one| list(wanted, "tolerations").contains(one));
    if kept {
        put(&mut allowed, wanted, "tolerations");
    }
    let (before, after) = (
        &old["spec"]["terminationGracePeriodSeconds"],
        &wanted["terminationGracePeriodSeconds"],
    );
    if before.as_i64().is_some_and(|seconds| seconds < 0) && *after == 1 {
        put(&mut allowed, wanted, "terminationGracePeriodSeconds");
    }
    // A gate may be opened, and while one is shut the pod may still be steered.
    let gates = list(&old["spec"], "schedulingGates");
    if list(wanted, "schedulingGates")
        .iter()
        .all(|gate| gates.contains(gate))
    {
        put(&mut allowed, wanted, "schedulingGates");
    }
    if !gates.is_empty() {
        put(&mut allowed, wanted, "nodeSelector");
        put(&mut allowed, wanted, "affinity");
    }
    // Binding sets the node once.
    if old["spec"]["nodeName"].is_null() {
        put(&mut allowed, wanted, "nodeName");
    }
    put(&mut allowed, wanted, "ephemeralContainers");
    if allowed != *wanted {
        errors.push(FieldError::forbidden("spec", UPDATE));
    }
}

/// A deadline may be set, and lowered.
fn deadline(wanted: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let Some(before) = old["activeDeadlineSeconds"].as_i64() else {
        return;
    };
    let detail = match wanted.as_i64() {
        Some(seconds) if seconds <= before => return,
        Some(_) => "must be less than or equal to previous value",
        None => "must not update from a positive integer to nil value",
    };
    errors.push(FieldError::invalid(
        "spec.activeDeadlineSeconds",
        wanted,
        detail,
    ));
}

fn put(into: &mut Value, from: &Value, field: &str) {
    if let Some(map) = into.as_object_mut() {
        match from.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
}

fn container(container: &Value, volumes: &HashSet<&str>, at: &str, errors: &mut Vec<FieldError>) {
    name(&container["name"], &format!("{at}.name"), errors);
    if text(container, "image").trim().is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    one_of(
        &container["imagePullPolicy"],
        &format!("{at}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = format!("{at}.ports[{index}]");
        port_number(
            &port["containerPort"],
            &format!("{at}.containerPort"),
            errors,
        );
        one_of(
            &port["protocol"],
            &format!("{at}.protocol"),
            &["SCTP", "TCP", "UDP"],
            errors,
        );
    }
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = format!("{at}.env[{index}]");
        if text(variable, "name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if text(variable, "name").contains('=') {
            let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(
                format!("{at}.name"),
                &variable["name"],
                detail,
            ));
        }
        if !text(variable, "value").is_empty() && variable["valueFrom"].is_object() {
            let detail = "may not be specified when `value` is not empty";
            let shown = Value::from("");
            errors.push(FieldError::invalid(
                format!("{at}.valueFrom"),
                &shown,
                detail,
            ));
        }
    }
    let mut paths = HashSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = format!("{at}.volumeMounts[{index}]");
        let wanted = text(mount, "name");
        if wanted.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if !volumes.contains(wanted) {
            let body = format!("Not found: {wanted:?}");
            errors.push(FieldError::new(
                format!("{at}.name"),
                Reason::NotFound,
                body,
            ));
        }
        let path = &mount["mountPath"];
        if text(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(text(mount, "mountPath")) {
            errors.push(FieldError::invalid(
                format!("{at}.mountPath"),
                path,
                "must be unique",
            ));
        }
    }
    resources(&container["resources"], &format!("{at}.resources"), errors);
}

fn resources(resources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["limits", "requests"] {
        for (resource, amount) in resources[field].as_object().into_iter().flatten() {
            let nanos = amount.as_str().and_then(quantity::nanos);
            if nanos.is_some_and(|nanos| nanos < 0) {
                let detail = "must be greater than or equal to 0";
                let at = format!("{at}.{field}[{resource}]");
                errors.push(FieldError::invalid(at, amount, detail));
            }
        }
    }
    for (resource, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][resource];
        let nanos = |amount: &Value| amount.as_str().and_then(quantity::nanos);
        if let (Some(wanted), Some(allowed)) = (nanos(request), nanos(limit))
            && wanted > allowed
        {
            let limit = limit.as_str().unwrap_or_default();
            let detail = format!("must be less than or equal to {resource} limit of {limit}");
            errors.push(FieldError::invalid(
                format!("{at}.requests"),
                request,
                &detail,
            ));
        }
    }
}

fn volume(volume: &Value, at: &str, errors: &mut Vec<FieldError>) {
    name(&volume["name"], &format!("{at}.name"), errors);
    let mut sources = volume
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .filter(|key| *key != "name");
    sources.next();
    for source in sources {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("{at}.{source}"), detail));
    }
}

fn name(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let text = value.as_str().unwrap_or_default();
    if text.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if let Some(problem) = names::label_problem(text) {
        errors.push(FieldError::invalid(at, value, problem));
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
