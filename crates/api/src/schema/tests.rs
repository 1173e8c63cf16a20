use std::collections::BTreeSet;

use serde_json::Value;

use crate::{crds, legacy::legacy_crds};

fn schemas() -> Vec<(String, Value)> {
    crds()
        .iter()
        .chain(&legacy_crds())
        .map(|definition| {
            let value = serde_json::to_value(definition).unwrap();
            let schema = value["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            (definition.spec.names.kind.clone(), schema)
        })
        .collect()
}

fn schema(kind: &str) -> Value {
    schemas()
        .into_iter()
        .find(|(name, _)| name == kind)
        .unwrap()
        .1
}

fn walk(path: &str, node: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, node);
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    if node["items"].is_object() {
        walk(&format!("{path}[]"), &node["items"], visit);
    }
    if node["additionalProperties"].is_object() {
        walk(&format!("{path}{{}}"), &node["additionalProperties"], visit);
    }
}

#[test]
fn the_schemas_are_structural() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            let typed = node["type"].is_string() || node["x-kubernetes-int-or-string"] == true;
            assert!(typed, "{path} has no type: {node}");
            for forbidden in ["nullable", "$ref", "oneOf", "anyOf", "allOf", "definitions"] {
                assert!(
                    node.get(forbidden).is_none(),
                    "{path} has {forbidden}: {node}"
                );
            }
        });
    }
}

#[test]
fn every_list_says_how_it_merges_and_its_keys_are_always_there() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            if node["type"] != "array" {
                return;
            }
            assert!(node["x-kubernetes-list-type"].is_string(), "{path}");
            let required: BTreeSet<&str> = node["items"]["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            for key in node["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let key = key.as_str().unwrap();
                let field = &node["items"]["properties"][key];
                assert!(
                    required.contains(key) || field.get("default").is_some(),
                    "{path} merges by {key}, which may be absent"
                );
            }
        });
    }
}

#[test]
fn a_rule_that_compares_with_the_old_value_stands_where_the_old_value_is_known() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            if node["x-kubernetes-list-type"] == "atomic" {
                walk(path, &node["items"], &mut |path, inner| {
                    let rules = inner["x-kubernetes-validations"].to_string();
                    assert!(!rules.contains("oldSelf"), "{path} is in an atomic list");
                });
            }
        });
    }
}

#[test]
fn every_field_of_our_own_types_is_described() {
    let schema = schema("TrainJob");
    let overrides = &schema["properties"]["spec"]["properties"]["podTemplateOverrides"]["items"];
    let pod = overrides["properties"]["spec"]["properties"]
        .as_object()
        .unwrap();
    assert!(pod.contains_key("volumes") && pod.contains_key("nodeSelector"));
    for (name, field) in pod {
        assert!(field["description"].is_string(), "{name}");
    }
}

#[test]
fn both_runtime_kinds_have_the_same_specification() {
    let specification = |kind: &str| {
        let mut spec = schema(kind)["properties"]["spec"].clone();
        spec.as_object_mut().unwrap().remove("description");
        spec
    };
    assert_eq!(
        specification("TrainingRuntime"),
        specification("ClusterTrainingRuntime")
    );
}

#[test]
fn the_columns_that_kubectl_prints_are_there() {
    let definitions = crds();
    let columns = |kind: &str| {
        let definition = definitions
            .iter()
            .find(|crd| crd.spec.names.kind == kind)
            .unwrap();
        let columns = definition.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten();
        columns
            .map(|column| column.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(columns("TrainJob"), ["State", "Age"]);
    assert_eq!(
        columns("JobSet"),
        ["TerminalState", "Restarts", "Completed", "Suspended", "Age"]
    );
    assert_eq!(columns("ClusterTrainingRuntime"), ["Age"]);
}
