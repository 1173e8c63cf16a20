//! Defaults that JobSet's own webhook writes and its definition does not have. With them in the schema,
//! JobSet's controller, which relies on them, also works where there are no webhooks.

use serde_json::{Value, json};

/// Where in the schema of a JobSet which default stands.
fn defaults() -> [(&'static str, Value); 8] {
    const TEMPLATE: &str = "/properties/spec/properties/replicatedJobs/items/properties/template/properties/spec/properties/completionMode";
    const POD: &str = "/properties/spec/properties/replicatedJobs/items/properties/template/properties/spec/properties/template/properties/spec/properties/restartPolicy";
    [
        (
            "/properties/spec/properties/successPolicy",
            json!({ "operator": "All" }),
        ),
        (
            "/properties/spec/properties/startupPolicy",
            json!({ "startupPolicyOrder": "AnyOrder" }),
        ),
        (
            "/properties/spec/properties/network",
            json!({ "enableDNSHostnames": true, "publishNotReadyAddresses": true }),
        ),
        (
            "/properties/spec/properties/network/properties/enableDNSHostnames",
            json!(true),
        ),
        (
            "/properties/spec/properties/network/properties/publishNotReadyAddresses",
            json!(true),
        ),
        (
            "/properties/spec/properties/volumeClaimPolicies/items/properties/retentionPolicy",
            json!({ "whenDeleted": "Delete" }),
        ),
        (TEMPLATE, json!("Indexed")),
        (POD, json!("OnFailure")),
    ]
}

/// Adds them to the schema of a kind.
pub(super) fn add(kind: &str, schema: &mut Value) {
    if kind != "JobSet" {
        return;
    }
    for (place, value) in defaults() {
        if let Some(field) = schema.pointer_mut(place) {
            field["default"] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_its_field() {
        let definitions = crate::crds();
        let sets = definitions
            .iter()
            .find(|definition| definition.spec.names.kind == "JobSet")
            .unwrap();
        let schema = serde_json::to_value(&sets.spec.versions[0].schema).unwrap();
        let schema = &schema["openAPIV3Schema"];
        for (place, want) in defaults() {
            let found = schema.pointer(place).map(|field| &field["default"]);
            assert_eq!(found, Some(&want), "{place}");
        }
    }
}
