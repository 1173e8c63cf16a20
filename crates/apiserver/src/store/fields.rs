//! The fields of built-in kinds that field selectors may name, besides `metadata.name` and
//! `metadata.namespace`. Custom resources declare theirs in the CRD.

use serde_json::Value;

const POD: &[&str] = &[
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
];
const EVENT: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The selectable fields of a resource.
pub(crate) fn paths(resource: &str) -> &'static [&'static str] {
    match resource {
        "pods" => POD,
        "events" => EVENT,
        "secrets" => &["type"],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "services" => &["spec.clusterIP", "spec.type"],
        "jobs.batch" => &["status.successful"],
        _ => &[],
    }
}

/// What a field that is absent selects as: the zero value of its type.
pub(crate) fn absent(path: &str) -> &'static str {
    match path {
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        "status.successful" => "0",
        _ => "",
    }
}

/// Their values in `value`; those that select as an absent field are left out.
pub(super) fn of(resource: &str, value: &Value) -> Box<[(&'static str, Box<str>)]> {
    paths(resource)
        .iter()
        .filter_map(|path| Some((*path, labelled(value, path)?)))
        .filter(|(path, text)| **text != *absent(path))
        .collect()
}

/// Some selectors have names that are no paths.
fn labelled(value: &Value, label: &str) -> Option<Box<str>> {
    match label {
        "source" => at(value, "source.component").or_else(|| at(value, "reportingComponent")),
        "status.successful" => at(value, "status.succeeded"),
        path => at(value, path),
    }
}

/// The text of the field at a dotted path.
pub(crate) fn at(value: &Value, path: &str) -> Option<Box<str>> {
    let field = path
        .split('.')
        .try_fold(value, |value, step| value.get(step))?;
    match field {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(_) | Value::Number(_) => Some(field.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
