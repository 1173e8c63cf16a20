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

/// Where the fields of the set of Jobs are in the schema of a runtime.
const SET_OF_RUNTIME: &str = "/properties/spec/properties/template/properties/spec/properties";

/// Adds the rules of a kind, and takes away those that it shares a type with but not the sense of.
pub(super) fn add(kind: &str, schema: &mut Value) {
    match kind {
        "TrainJob" => add_to_train_job(schema),
        "TrainingRuntime" | "ClusterTrainingRuntime" => free_blueprint(schema),
        _ => {}
    }
}

/// A set of Jobs that runs cannot change its policies. A runtime only says what jobs begin with, and
/// its administrator raises `maxRestarts` as often as they like.
fn free_blueprint(schema: &mut Value) {
    let fields = schema
        .pointer_mut(SET_OF_RUNTIME)
        .and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(field) = field.as_object_mut() {
            field.remove("x-kubernetes-validations");
        }
    }
}

fn add_to_train_job(schema: &mut Value) {
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
