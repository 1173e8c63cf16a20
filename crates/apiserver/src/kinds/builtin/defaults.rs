//! The defaults of Kubernetes' own kinds, as far as clients and controllers rely on them.

mod pod;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::kinds::metadata::section;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A status given on create is not believed.
pub(super) fn pod(object: &mut Value, old: Option<&Value>) {
    pod::spec(section(object, "spec"));
    if old.is_none() {
        let class = pod::quality_of_service(&object["spec"]);
        object["status"] = json!({"phase": "Pending", "qosClass": class});
    }
}

pub(super) fn pod_template(object: &mut Value, _: Option<&Value>) {
    pod::template(section(object, "template"));
}

pub(super) fn claim(object: &mut Value, old: Option<&Value>) {
    set(section(object, "spec"), "volumeMode", "Filesystem");
    if old.is_none() {
        object["status"] = json!({"phase": "Pending"});
    }
}

pub(super) fn volume(object: &mut Value, old: Option<&Value>) {
    set(
        section(object, "spec"),
        "persistentVolumeReclaimPolicy",
        "Retain",
    );
    claim(object, old);
}

pub(super) fn storage_class(object: &mut Value, _: Option<&Value>) {
    set_top(object, "reclaimPolicy", "Delete");
    set_top(object, "volumeBindingMode", "Immediate");
}

fn set(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    map.entry(name).or_insert_with(|| value.into());
}

pub(super) fn set_top(object: &mut Value, name: &str, value: &str) {
    if let Value::Object(map) = object {
        set(map, name, value);
    }
}

fn each<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

pub(super) fn job(object: &mut Value, old: Option<&Value>) {
    let is_new = old.is_none();
    let text = |name: &str| {
        object["metadata"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (uid, name) = (text("uid"), text("name"));
    let spec = section(object, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let has_index_limit = spec.contains_key("backoffLimitPerIndex");
    set(
        spec,
        "backoffLimit",
        if has_index_limit { i32::MAX } else { 6 },
    );
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set(spec, "podReplacementPolicy", replacement);
    if !spec.get("template").is_some_and(Value::is_object) {
        return;
    }
    let is_manual = spec.get("manualSelector").and_then(Value::as_bool) == Some(true);
    if is_new && !is_manual && !uid.is_empty() {
        // The job owns the pods that carry its uid. Another selector is refused below.
        set(
            spec,
            "selector",
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
        );
        let template = &mut spec["template"];
        let labels = section(&mut template["metadata"], "labels");
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            labels.insert(label.to_owned(), json!(value));
        }
    }
    if let Some(Value::Object(template)) = spec.get_mut("template") {
        pod::template(template);
    }
    if is_new {
        object["status"] = json!({});
    }
}

pub(super) fn service(object: &mut Value, _: Option<&Value>) {
    let spec = section(object, "spec");
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    let kind = spec["type"].clone();
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            set(port, "targetPort", number);
        }
    }
    if kind == "ExternalName" {
        return;
    }
    set(spec, "internalTrafficPolicy", "Cluster");
    set(spec, "ipFamilyPolicy", "SingleStack");
    set(spec, "ipFamilies", json!(["IPv4"]));
    if let Some(address) = spec.get("clusterIP").cloned() {
        set(spec, "clusterIPs", json!([address]));
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
}

pub(super) fn secret(object: &mut Value, _: Option<&Value>) {
    set_top(object, "type", "Opaque");
    let Some(Value::Object(plain)) = object
        .as_object_mut()
        .and_then(|map| map.remove("stringData"))
    else {
        return;
    };
    let data = section(object, "data");
    for (key, value) in plain {
        let text = value.as_str().unwrap_or_default();
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        data.insert(key, Value::String(encoded));
    }
}

pub(super) fn namespace(object: &mut Value, old: Option<&Value>) {
    let name = object["metadata"]["name"].clone();
    if name.is_string() {
        section(&mut object["metadata"], "labels")
            .insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    if old.is_none() {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"] = json!({"phase": "Active"});
    }
}

pub(super) fn limit_range(object: &mut Value, _: Option<&Value>) {
    for limit in each(section(object, "spec"), "limits") {
        if limit.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        // Each falls back on the next: default on max, request on default, then on min.
        for (name, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let Some(Value::Object(source)) = limit.get(from).cloned() else {
                continue;
            };
            let target = limit.entry(name).or_insert_with(|| json!({}));
            if let Value::Object(target) = target {
                for (resource, amount) in source {
                    set(target, &resource, amount);
                }
            }
        }
    }
}

pub(super) fn endpoints(object: &mut Value, _: Option<&Value>) {
    if let Value::Object(object) = object {
        for subset in each(object, "subsets") {
            for port in each(subset, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
}

pub(super) fn role_binding(object: &mut Value, _: Option<&Value>) {
    let Value::Object(object) = object else {
        return;
    };
    if let Some(Value::Object(role)) = object.get_mut("roleRef")
        && role.get("apiGroup").is_none_or(|group| group == "")
    {
        role.insert("apiGroup".to_owned(), RBAC.into());
    }
    for subject in each(object, "subjects") {
        if matches!(
            subject.get("kind").and_then(Value::as_str),
            Some("User" | "Group")
        ) {
            set(subject, "apiGroup", RBAC);
        }
    }
}
