//! What the API server refuses of a v1 job at once, written into its definition.
//!
//! The Training Operator has a webhook for it. Rules in the definition need none, and hold on every API server; their
//! words are the webhook's where it has some. What stands here is also checked by the controller
//! (`astrago_plan::legacy`), for clusters whose definitions are the operator's own.

use serde_json::{Value, json};

use super::framework::Framework;
use crate::MOST_PODS;
use crate::schema::rules::{LONGEST_NAME, bound_containers};

/// So that the API server can tell beforehand what checking a rule costs at most.
const MOST_TYPES: usize = 16;

/// Adds the rules of a kind to the schema of its objects.
pub(super) fn add(framework: &Framework, schema: &mut Value) {
    let key = framework.spec_key;
    schema["x-kubernetes-validations"] = names(key);
    let Some(spec) = schema.pointer_mut("/properties/spec") else {
        return;
    };
    extend(spec, of_spec(framework));
    if let Some(name) = spec.pointer_mut("/properties/mainContainer") {
        name["maxLength"] = json!(LONGEST_NAME);
    }
    if let Some(policy) = spec.pointer_mut("/properties/runPolicy/properties") {
        for field in [
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "activeDeadlineSeconds",
        ] {
            policy[field]["minimum"] = json!(0);
        }
    }
    let Some(replicas) = spec.pointer_mut(&format!("/properties/{key}")) else {
        return;
    };
    replicas["maxProperties"] = json!(MOST_TYPES);
    extend(replicas, of_replicas(framework));
    let Some(replica) = replicas.get_mut("additionalProperties") else {
        return;
    };
    replica["properties"]["replicas"]["minimum"] = json!(0);
    replica["properties"]["replicas"]["maximum"] = json!(MOST_PODS);
    extend(replica, of_replica(framework));
    let containers = "/properties/template/properties/spec/properties/containers";
    if let Some(containers) = replica.pointer_mut(containers) {
        bound_containers(containers);
        if let Some(container) = containers.get_mut("items") {
            extend(
                container,
                vec![rule(
                    "has(self.image) && size(self.image) > 0",
                    "must be required",
                    "FieldValueRequired",
                    Some(".image"),
                )],
            );
        }
    }
}

/// The name becomes part of the names of pods and Services.
fn names(key: &str) -> Value {
    let count = format!("(has(self.spec.{key}[t].replicas) ? self.spec.{key}[t].replicas : 1)");
    // The last index; none counts as one.
    let longest = format!(
        "self.spec.{key}.all(t, size(self.metadata.name) + size(t) + size(string({count} > 1 ? {count} - 1 : 0)) + 2 <= 63)"
    );
    json!([
        {
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name should match: a DNS-1035 label must consist of lower case alphanumeric characters \
                        or '-', start with an alphabetic character, and end with an alphanumeric character",
        },
        {
            "rule": longest,
            "message": "metadata.name must be short enough for the names of its pods, <name>-<type>-<index>, to fit into 63 \
                        characters",
        },
    ])
}

fn of_replicas(framework: &Framework) -> Vec<Value> {
    let quoted: Vec<String> = framework
        .types
        .iter()
        .map(|name| format!("'{}'", name.to_lowercase()))
        .collect();
    let supported = framework.types.join(", ");
    let given = |name: &str| {
        format!(
            "self.exists(t, t.lowerAscii() == '{}')",
            name.to_lowercase()
        )
    };
    let mut rules = vec![
        rule(
            "size(self) > 0",
            "must be specified",
            "FieldValueRequired",
            None,
        ),
        rule(
            &format!("self.all(t, t.lowerAscii() in [{}])", quoted.join(", ")),
            &format!("has a replica type that is not supported; supported values: {supported}"),
            "FieldValueInvalid",
            None,
        ),
        rule(
            "self.all(t, self.exists_one(u, u.lowerAscii() == t.lowerAscii()))",
            "must not have a replica type twice",
            "FieldValueInvalid",
            None,
        ),
        rule(
            "size(self) == 0 || self.exists(t, !has(self[t].replicas) || self[t].replicas > 0)",
            "must have at least one replica",
            "FieldValueInvalid",
            None,
        ),
    ];
    if let Some(required) = framework.required {
        rules.push(rule(
            &given(required),
            &format!("must have {required}"),
            "FieldValueRequired",
            None,
        ));
    }
    for name in framework
        .types
        .iter()
        .filter(|name| framework.is_single(name))
    {
        let lower = name.to_lowercase();
        rules.push(rule(
            &format!(
                "self.all(t, t.lowerAscii() != '{lower}' || !has(self[t].replicas) || self[t].replicas == 1)"
            ),
            "must be 1",
            "FieldValueForbidden",
            Some(&format!(".{name}.replicas")),
        ));
    }
    if framework.kind == "TFJob" {
        rules.push(rule(
            &format!("!({} && {})", given("Chief"), given("Master")),
            "must not have more than 1 Chief or Master role",
            "FieldValueForbidden",
            None,
        ));
    }
    rules
}

fn of_replica(framework: &Framework) -> Vec<Value> {
    let containers = Some(".template.spec.containers");
    let given =
        "has(self.template) && has(self.template.spec) && size(self.template.spec.containers) > 0";
    let mut rules = vec![rule(
        given,
        "must be specified",
        "FieldValueRequired",
        containers,
    )];
    // In an MPIJob the first container counts, whatever its name.
    if framework.kind != "MPIJob" {
        let name = framework.container;
        rules.push(rule(
            &format!("!({given}) || self.template.spec.containers.exists(c, c.name == '{name}')"),
            &format!("must have at least one container with name {name}"),
            "FieldValueRequired",
            containers,
        ));
    }
    rules
}

fn of_spec(framework: &Framework) -> Vec<Value> {
    let invalid = "FieldValueInvalid";
    match framework.kind {
        "PyTorchJob" => {
            let worker = "self.pytorchReplicaSpecs.exists(t, t.lowerAscii() == 'worker')";
            vec![
                rule(
                    "!has(self.nprocPerNode) || self.nprocPerNode.matches('^(auto|cpu|gpu|[1-9][0-9]{0,4})$')",
                    "must be auto, cpu, gpu or a positive number",
                    invalid,
                    Some(".nprocPerNode"),
                ),
                rule(
                    &format!("!has(self.elasticPolicy) || {worker}"),
                    "must configure Worker when an elasticPolicy is used",
                    "FieldValueRequired",
                    Some(".pytorchReplicaSpecs"),
                ),
                rule(
                    "!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) || !has(self.nprocPerNode)",
                    "must not be used with spec.nprocPerNode",
                    "FieldValueForbidden",
                    Some(".elasticPolicy.nProcPerNode"),
                ),
                rule(
                    "!has(self.elasticPolicy) || !has(self.elasticPolicy.minReplicas) || self.elasticPolicy.minReplicas >= 1",
                    "must be at least 1",
                    invalid,
                    Some(".elasticPolicy.minReplicas"),
                ),
                rule(
                    "!has(self.elasticPolicy) || !has(self.elasticPolicy.maxReplicas) || self.elasticPolicy.maxReplicas >= 1",
                    "must be at least 1",
                    invalid,
                    Some(".elasticPolicy.maxReplicas"),
                ),
                rule(
                    "!has(self.elasticPolicy) || !has(self.elasticPolicy.minReplicas) || !has(self.elasticPolicy.maxReplicas) \
                     || self.elasticPolicy.minReplicas <= self.elasticPolicy.maxReplicas",
                    "must not be greater than maxReplicas",
                    invalid,
                    Some(".elasticPolicy.minReplicas"),
                ),
            ]
        }
        "TFJob" => vec![rule(
            "!has(self.successPolicy) || self.successPolicy in ['', 'AllWorkers']",
            "must be empty or AllWorkers",
            invalid,
            Some(".successPolicy"),
        )],
        "MPIJob" => vec![
            rule(
                "!has(self.slotsPerWorker) || self.slotsPerWorker >= 1",
                "must be at least 1",
                invalid,
                Some(".slotsPerWorker"),
            ),
            rule(
                "!has(self.mainContainer) || self.mpiReplicaSpecs.all(t, !has(self.mpiReplicaSpecs[t].template) \
                 || !has(self.mpiReplicaSpecs[t].template.spec) \
                 || self.mpiReplicaSpecs[t].template.spec.containers.exists(c, c.name == self.mainContainer))",
                "must be the name of a container of every replica type",
                invalid,
                Some(".mainContainer"),
            ),
        ],
        "MXJob" => vec![rule(
            "!has(self.jobMode) || self.jobMode in ['MXTrain', 'MXTune']",
            "must be MXTrain or MXTune",
            invalid,
            Some(".jobMode"),
        )],
        _ => Vec::new(),
    }
}

fn rule(rule: &str, message: &str, reason: &str, field: Option<&str>) -> Value {
    let mut value = json!({ "rule": rule, "message": message, "reason": reason });
    if let Some(field) = field {
        value["fieldPath"] = json!(field);
    }
    value
}

fn extend(node: &mut Value, more: Vec<Value>) {
    let rules = &mut node["x-kubernetes-validations"];
    match rules {
        Value::Array(rules) => rules.extend(more),
        other if !more.is_empty() => *other = Value::Array(more),
        // Indexing made an entry that says nothing.
        _ => {
            if let Some(node) = node.as_object_mut() {
                node.remove("x-kubernetes-validations");
            }
        }
    }
}
