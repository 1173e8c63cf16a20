//! Rules that cannot stand beside a field: those on the object's name, and those that hold for a type
//! in one place and not in another.

use serde_json::{Value, json};

/// Where the pod fields of a patch are in the schema of a TrainJob.
const PATCHED_POD: &str = "/properties/spec/properties/runtimePatches/items/properties\
    /trainingRuntimeSpec/properties/template/properties/spec/properties/replicatedJobs/items/properties\
    /template/properties/spec/properties/template/properties/spec/properties";

/// The pod fields of a patch that cannot be changed once they are there. (Overrides stand in a list
/// that is one value, where the old value of an entry is not known.)
const IMMUTABLE: [&str; 7] = [
    "containers",
    "imagePullSecrets",
    "initContainers",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "volumes",
];

/// Adds the rules of a kind.
pub(super) fn add(kind: &str, schema: &mut Value) {
    if kind != "TrainJob" {
        return;
    }
    schema["x-kubernetes-validations"] = json!([
        {
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name must match RFC 1035 DNS label format",
        },
        {
            "rule": "size(self.metadata.name) <= 63",
            "message": "metadata.name must be no more than 63 characters",
        },
    ]);
    for field in IMMUTABLE {
        if let Some(field) = schema.pointer_mut(&format!("{PATCHED_POD}/{field}")) {
            field["x-kubernetes-validations"] =
                json!([{"rule": "self == oldSelf", "message": "field is immutable"}]);
        }
    }
}
