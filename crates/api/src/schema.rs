//! The schemas of our kinds: derived from the types, and finished with what Kubernetes wants to know
//! and the derived schemas of embedded Kubernetes types do not say.
//!
//! - How lists merge under server-side apply ([`lists`]); without it every list is one value.
//! - Which texts are quantities, so that a bad one is refused at once.
//! - That nothing is nullable: a null means "not said", as everywhere in Kubernetes.
//! - That the metadata of a template is the short form of it.
//! - What JobSet's webhook would fill in ([`defaults`]).
//! - Rules on an object's name, and on what may not change in a patch ([`rules`]).
//!
//! `kube` can derive whole definitions, but rewrites a schema as large as a pod's once per level of
//! nesting, which takes seconds; here every node is visited once.

mod defaults;
mod lists;
pub(crate) mod rules;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// What Kubernetes takes for a quantity.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A definition with the schema of a kind that has a specification and a status.
pub(crate) fn with_status<Spec: JsonSchema, Status: JsonSchema>(
    definition: CustomResourceDefinition,
    description: &str,
) -> CustomResourceDefinition {
    let parts = [("spec", derived::<Spec>()), ("status", derived::<Status>())];
    with_schema(definition, description, parts.into())
}

/// A definition with the schema of a kind that only has a specification.
pub(crate) fn without_status<Spec: JsonSchema>(
    definition: CustomResourceDefinition,
    description: &str,
) -> CustomResourceDefinition {
    with_schema(
        definition,
        description,
        [("spec", derived::<Spec>())].into(),
    )
}

fn with_schema(
    mut definition: CustomResourceDefinition,
    description: &str,
    parts: Vec<(&str, Value)>,
) -> CustomResourceDefinition {
    let mut schema = json!({
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "The group and version of this kind of object.",
            },
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"type": "object"},
        },
    });
    for (name, part) in parts {
        schema["properties"][name] = part;
    }
    rules::add(&definition.spec.names.kind, &mut schema);
    defaults::add(&definition.spec.names.kind, &mut schema);
    let schema: JSONSchemaProps =
        serde_json::from_value(schema).expect("the schemas of our types have the form of a schema");
    for version in &mut definition.spec.versions {
        version.schema = Some(CustomResourceValidation {
            open_api_v3_schema: Some(schema.clone()),
        });
    }
    definition
}

/// The finished schema of a type.
fn derived<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Value::Object(root) = &mut schema {
        root.remove("title");
    }
    finish_node(&mut schema);
    schema
}

fn finish_node(node: &mut Value) {
    let Value::Object(node) = node else { return };
    forget_null(node);
    list_values(node);
    // An object that is absent is not the same as an empty one that is filled with defaults.
    if node.get("default").is_some_and(Value::is_object) {
        node.remove("default");
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            finish_node(property);
            finish_property(name, property);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = node.get_mut(inner) {
            finish_node(inner);
        }
    }
}

/// An optional value is derived as one that may be null.
fn forget_null(node: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = node.get("type") {
        let kept = types.iter().find(|kind| **kind != "null").cloned();
        node.insert("type".into(), kept.unwrap_or_default());
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = node.remove("anyOf") {
        for choice in choices {
            if let Value::Object(choice) = choice
                && choice.get("type") != Some(&json!("null"))
            {
                // What the field says of itself wins over what its type says.
                for (key, value) in choice {
                    node.entry(key).or_insert(value);
                }
            }
        }
    }
}

/// An enumeration whose values are documented is derived as a choice of constants.
fn list_values(node: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = node.remove("oneOf") else {
        return;
    };
    let mut values = Vec::new();
    for choice in &choices {
        values.extend(choice.get("const").cloned());
        values.extend(
            choice
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        );
    }
    node.insert("type".into(), json!("string"));
    node.insert("enum".into(), Value::Array(values));
}

fn finish_property(name: &str, property: &mut Value) {
    let Value::Object(property) = property else {
        return;
    };
    if name == "metadata" {
        short_metadata(property);
    }
    if property.get("type") == Some(&json!("array")) {
        lists::describe(name, property);
    }
    if lists::ATOMIC_MAPS.contains(&name) && property.get("type") == Some(&json!("object")) {
        property.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    if name == "conditions" {
        describe_conditions(property);
    }
    describe_quantity(name, property);
    if let Some(Value::Object(values)) = property.get_mut("additionalProperties") {
        describe_quantity(name, values);
    }
}

/// What Kubernetes' own kinds demand of a condition that says when it changed.
fn describe_conditions(property: &mut Map<String, Value>) {
    let timed = |items: &Value| {
        let required = items["required"].as_array().into_iter().flatten();
        required
            .into_iter()
            .any(|field| field == "lastTransitionTime")
    };
    let Some(items) = property.get_mut("items").filter(|items| timed(items)) else {
        return;
    };
    let limits = [
        ("message", "maxLength", json!(32768)),
        ("observedGeneration", "minimum", json!(0)),
        ("reason", "maxLength", json!(1024)),
        ("reason", "minLength", json!(1)),
        (
            "reason",
            "pattern",
            json!("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        ),
        ("status", "enum", json!(["True", "False", "Unknown"])),
        ("type", "maxLength", json!(316)),
    ];
    for (field, limit, value) in limits {
        items["properties"][field][limit] = value;
    }
}

/// Values that are numbers or texts are quantities, except for ports and those that have a pattern of
/// their own.
fn describe_quantity(name: &str, property: &mut Map<String, Value>) {
    let number_or_text = property.get("x-kubernetes-int-or-string") == Some(&json!(true));
    if number_or_text && !name.to_lowercase().ends_with("port") && !property.contains_key("pattern")
    {
        property.insert("pattern".into(), json!(QUANTITY));
    }
}

/// A template may carry labels and annotations; name, namespace and finalizers are let through, as
/// upstream does, because tools write them.
fn short_metadata(property: &mut Map<String, Value>) {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    property.insert(
        "properties".into(),
        json!({
            "annotations": texts,
            "finalizers": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
            },
            "labels": texts,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        }),
    );
    property.remove("required");
}

#[cfg(test)]
mod tests;
