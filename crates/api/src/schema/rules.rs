//! Rules that cannot stand beside a field: those on the object's name, and those that hold for a type
//! in one place and not in another.

mod job_set;

use serde_json::{Value, json};

use crate::MOST_PODS;
use crate::labels::TRAIN_JOB_ANCESTOR_STEP;
use crate::labels::ancestor::{DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER};

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

/// Bounds a list of containers, so that an API server can tell beforehand what comparing their names costs at
/// most. Kubernetes takes no longer name.
pub(crate) fn bound_containers(containers: &mut Value) {
    containers["maxItems"] = json!(64);
    containers["items"]["properties"]["name"]["maxLength"] = json!(LONGEST_NAME);
}

/// Of a container, as Kubernetes has it.
pub(crate) const LONGEST_NAME: usize = 63;

/// Adds the rules of a kind, and takes away those that it shares a type with but not the sense of.
pub(super) fn add(kind: &str, schema: &mut Value) {
    match kind {
        "TrainJob" => add_to_train_job(schema),
        "JobSet" => {
            job_set::add(schema);
            bound_pods(schema, "/properties/spec/properties");
        }
        "TrainingRuntime" | "ClusterTrainingRuntime" => {
            free_blueprint(schema);
            add_to_runtime(schema);
            bound_pods(schema, SET_OF_RUNTIME);
        }
        _ => {}
    }
}

/// A Job of a set has no more pods than a job may have.
fn bound_pods(schema: &mut Value, set: &str) {
    for field in ["parallelism", "completions"] {
        let place = format!(
            "{set}/replicatedJobs/items/properties/template/properties/spec/properties/{field}"
        );
        if let Some(count) = schema.pointer_mut(&place) {
            count["minimum"] = json!(0);
            count["maximum"] = json!(MOST_PODS);
        }
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

/// A job of the runtime that has a role is made once, and has the container of that role; upstream's webhook says so.
fn add_to_runtime(schema: &mut Value) {
    let jobs = format!("{SET_OF_RUNTIME}/replicatedJobs");
    let Some(jobs) = schema.pointer_mut(&jobs) else {
        return;
    };
    jobs["maxItems"] = json!(64);
    let containers = "/items/properties/template/properties/spec/properties/template/properties/spec\
        /properties/containers";
    if let Some(containers) = jobs.pointer_mut(containers) {
        bound_containers(containers);
    }
    let step = format!("self.template.metadata.labels['{TRAIN_JOB_ANCESTOR_STEP}']");
    let labelled = format!(
        "has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) \
         && '{TRAIN_JOB_ANCESTOR_STEP}' in self.template.metadata.labels \
         && {step} in ['{TRAINER}', '{DATASET_INITIALIZER}', '{MODEL_INITIALIZER}']"
    );
    jobs["items"]["x-kubernetes-validations"] = json!([
        {
            "rule": format!("!({labelled}) || !has(self.replicas) || self.replicas == 1"),
            "message": "always must be 1",
            "fieldPath": ".replicas",
        },
        {
            "rule": format!(
                "!({labelled}) || (has(self.template.spec) && has(self.template.spec.template) \
                 && has(self.template.spec.template.spec) \
                 && self.template.spec.template.spec.containers.exists(c, \
                 c.name == ({step} == '{TRAINER}' ? 'node' : {step})))"
            ),
            "message": "must contain the required container for the ancestor",
            "messageExpression": format!("'must contain the required container for the ancestor: ' + {step}"),
            "fieldPath": ".template.spec.template.spec.containers",
        },
    ]);
}

/// Changes to the runtime are part of the objects that run; they take effect when a job that is held is let go.
fn changed_only_while_held(field: &str) -> Value {
    let held = |of: &str| format!("(has({of}.suspend) && {of}.suspend)");
    let there = |of: &str| format!("has({of}.{field})");
    let same = format!(
        "{} == {} && (!{} || self.{field} == oldSelf.{field})",
        there("self"),
        there("oldSelf"),
        there("self"),
    );
    json!({
        "rule": format!("{} || {} || ({same})", held("self"), held("oldSelf")),
        "message": format!("{field} can only be modified when the TrainJob is suspended before or after the update: \
                            suspend the job, change them, and resume it"),
        "reason": "FieldValueForbidden",
        "fieldPath": format!(".{field}"),
    })
}

fn add_to_train_job(schema: &mut Value) {
    let spec = schema.pointer_mut("/properties/spec/x-kubernetes-validations");
    if let Some(rules) = spec.and_then(Value::as_array_mut) {
        rules.push(changed_only_while_held("podTemplateOverrides"));
        rules.push(changed_only_while_held("runtimePatches"));
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
    // The environment of these containers is the trainer's and the initializers' own.
    for list in ["containers", "initContainers"] {
        if let Some(container) = schema.pointer_mut(&format!("{PATCHED_POD}/{list}/items")) {
            container["x-kubernetes-validations"] = json!([{
                "rule": format!(
                    "!(self.name in ['{DATASET_INITIALIZER}', '{MODEL_INITIALIZER}', 'node']) \
                     || !has(self.env) || size(self.env) == 0"
                ),
                "message": format!(
                    "must not have envs for the {DATASET_INITIALIZER}, {MODEL_INITIALIZER}, node containers"
                ),
                "fieldPath": ".env",
            }]);
        }
    }
    let manager = "/properties/spec/properties/runtimePatches/items/properties/manager";
    if let Some(rules) = schema
        .pointer_mut(manager)
        .and_then(|manager| manager["x-kubernetes-validations"].as_array_mut())
    {
        rules.push(json!({
            "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[^ ]+$')",
            "message": "must be a domain-prefixed path (such as \"acme.io/foo\")",
        }));
    }
    for field in IMMUTABLE {
        if let Some(field) = schema.pointer_mut(&format!("{PATCHED_POD}/{field}")) {
            field["x-kubernetes-validations"] =
                json!([{"rule": "self == oldSelf", "message": "field is immutable"}]);
        }
    }
}
