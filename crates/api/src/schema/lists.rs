//! How lists merge under server-side apply, by the name of their field. Names are unambiguous in the
//! types that our kinds embed.

use serde_json::{Map, Value, json};

/// Lists of objects that are told apart by these fields, in our own types and in those that they embed; all other lists
/// are one value.
const KEYS: [(&str, &[&str]); 20] = [
    ("claims", &["name"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("dependsOn", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("jobsStatus", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("replicatedJobs", &["name"]),
    ("replicatedJobsStatus", &["name"]),
    ("resourceClaims", &["name"]),
    ("runtimePatches", &["manager"]),
    ("schedulingGates", &["name"]),
    ("targets", &["jobName"]),
    (
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
];

/// Maps that are one value: references to objects and selectors.
#[rustfmt::skip]
pub(super) const ATOMIC_MAPS: [&str; 15] = [
    "configMap", "configMapKeyRef", "configMapRef", "dataSource", "fieldRef", "fileKeyRef",
    "labelSelector", "namespaceSelector", "nodePublishSecretRef", "preference",
    "requiredDuringSchedulingIgnoredDuringExecution", "resourceFieldRef", "secretKeyRef",
    "secretRef", "selector",
];

/// Says how the list merges, unless the type itself already does.
pub(super) fn describe(name: &str, property: &mut Map<String, Value>) {
    if !property.contains_key("x-kubernetes-list-type") {
        let keys = KEYS
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, keys)| *keys);
        let keys = keys.or((name == "volumes").then_some(&["name"][..]));
        match keys {
            Some(keys) => {
                property.insert("x-kubernetes-list-type".into(), json!("map"));
                property.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            None => {
                property.insert("x-kubernetes-list-type".into(), json!("atomic"));
            }
        }
    }
    require_keys(property);
}

/// A key has to be there to tell items apart: where it is not required it needs a default.
fn require_keys(property: &mut Map<String, Value>) {
    let keys = property
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .cloned();
    let Some(Value::Object(items)) = property.get_mut("items") else {
        return;
    };
    let required = items
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for key in keys
        .into_iter()
        .flatten()
        .filter(|key| !required.contains(key))
    {
        let key = key.as_str().unwrap_or_default();
        let default = if key == "protocol" { "TCP" } else { "" };
        if let Some(Value::Object(field)) = items
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(key))
        {
            field.entry("default").or_insert_with(|| json!(default));
        }
    }
}
