//! Containers: what all have in common, and what only some may have.

use std::collections::HashSet;

use serde_json::Value;

use super::super::one_of;
use super::{environment, handler, id, list, port_number, problem, resources, text, volume};
use crate::kinds::builtin::names;
use crate::kinds::schema::{FieldError, Reason};

/// The containers of a pod, which begin in this order.
pub(super) fn all(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let volumes = list(spec, "volumes").iter();
    let volumes: HashSet<&str> = volumes.map(|volume| text(volume, "name")).collect();
    let grace = &spec["terminationGracePeriodSeconds"];
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(format!("{at}.containers"), ""));
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for field in ["initContainers", "containers"] {
        let mut on_host = HashSet::new();
        for (index, one) in list(spec, field).iter().enumerate() {
            let at = format!("{at}.{field}[{index}]");
            container(one, &volumes, &at, errors);
            let name = text(one, "name");
            if !name.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(format!("{at}.name"), &one["name"]));
            }
            // Init containers run one after the other, and may use the same ports.
            if field == "initContainers" {
                on_host.clear();
            }
            host_ports(one, spec, &mut on_host, &at, errors);
            restarts(one, field, grace, &at, errors);
        }
    }
}

/// An init container may be restarted, as one that runs beside the others. The others follow the pod.
fn restarts(one: &Value, field: &str, grace: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let policy = &one["restartPolicy"];
    let is_init = field == "initContainers";
    if !policy.is_null() {
        let at = format!("{at}.restartPolicy");
        if is_init {
            one_of(policy, &at, &["Always"], errors);
        } else {
            let detail = "may not be set for non-init containers";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    if is_init && policy != "Always" {
        handler::none(one, at, errors);
    } else {
        handler::all(one, grace, at, errors);
    }
}

fn container(container: &Value, volumes: &HashSet<&str>, at: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{at}.{name}");
    volume::name(&container["name"], &field("name"), errors);
    let image = text(container, "image");
    if image.trim().is_empty() {
        errors.push(FieldError::required(field("image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(
            field("image"),
            &container["image"],
            detail,
        ));
    }
    for (name, choices) in [
        ("imagePullPolicy", &["Always", "IfNotPresent", "Never"][..]),
        (
            "terminationMessagePolicy",
            &["FallbackToLogsOnError", "File"],
        ),
    ] {
        one_of(&container[name], &field(name), choices, errors);
    }
    ports(container, at, errors);
    environment::all(container, at, errors);
    mounts(container, volumes, at, errors);
    resources::resources(&container["resources"], &field("resources"), errors);
    security(
        &container["securityContext"],
        &field("securityContext"),
        errors,
    );
}

fn ports(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = format!("{at}.ports[{index}]");
        let name = text(port, "name");
        if let Some(detail) = names::port_problem(name).filter(|_| !name.is_empty()) {
            let at = format!("{at}.name");
            errors.push(FieldError::invalid(at, &port["name"], detail));
        } else if !name.is_empty() && !seen.insert(name) {
            let at = format!("{at}.name");
            errors.push(FieldError::duplicate(at, &port["name"]));
        }
        let number = &port["containerPort"];
        port_number(number, &format!("{at}.containerPort"), errors);
        if port["hostPort"].as_i64().is_some_and(|port| port != 0) {
            port_number(&port["hostPort"], &format!("{at}.hostPort"), errors);
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        let at = format!("{at}.protocol");
        one_of(&port["protocol"], &at, &protocols, errors);
    }
}

/// A port of the machine is one container's.
fn host_ports<'a>(
    container: &'a Value,
    spec: &Value,
    taken: &mut HashSet<(&'a str, &'a str, i64)>,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = format!("{at}.ports[{index}].hostPort");
        let number = port["hostPort"].as_i64().unwrap_or_default();
        if number == 0 {
            continue;
        }
        let key = (text(port, "protocol"), text(port, "hostIP"), number);
        if !taken.insert(key) {
            let shown = format!("{}/{}/{}", key.0, key.1, key.2);
            errors.push(FieldError::duplicate(&*at, &shown.into()));
        }
        if spec["hostNetwork"] == true && port["hostPort"] != port["containerPort"] {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(at, &port["hostPort"], detail));
        }
    }
}

fn mounts(container: &Value, volumes: &HashSet<&str>, at: &str, errors: &mut Vec<FieldError>) {
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
            let at = format!("{at}.mountPath");
            errors.push(FieldError::invalid(at, path, "must be unique"));
        }
        for name in ["subPath", "subPathExpr"] {
            let found = volume::path_problem(text(mount, name));
            problem(found, &mount[name], &format!("{at}.{name}"), errors);
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            let at = format!("{at}.subPathExpr");
            errors.push(FieldError::invalid(at, &mount["subPathExpr"], detail));
        }
        propagation(mount, container, &at, errors);
    }
}

fn propagation(mount: &Value, container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (wanted, at) = (&mount["mountPropagation"], format!("{at}.mountPropagation"));
    if wanted.is_null() {
        return;
    }
    let known = ["Bidirectional", "HostToContainer", "None"];
    one_of(wanted, &at, &known, errors);
    if wanted == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(at, detail));
    }
}

fn security(security: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for name in ["runAsUser", "runAsGroup"] {
        id(&security[name], &format!("{at}.{name}"), errors);
    }
    if security["allowPrivilegeEscalation"] == false && security["privileged"] == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid(at, security, detail));
    }
}
