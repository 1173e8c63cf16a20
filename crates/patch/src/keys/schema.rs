//! Merge rules from an OpenAPI v3 schema with Kubernetes' extensions.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Child, Keys, List, Strategy, table};

impl Keys {
    /// The rules that a custom kind's `openAPIV3Schema` gives through `x-kubernetes-list-type`,
    /// `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`; its `metadata` is every object's.
    pub fn from_schema(schema: &Value) -> Self {
        let mut keys = node(schema);
        let fields = keys.fields.to_mut();
        fields.retain(|(name, _)| name != "metadata");
        fields.push((
            Cow::Borrowed("metadata"),
            Child::Static(&table::OBJECT_META),
        ));
        keys
    }
}

fn node(schema: &Value) -> Keys {
    let mut fields = Vec::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            let child = node(property);
            if !child.is_default() {
                fields.push((Cow::Owned(name.clone()), Child::Shared(Arc::new(child))));
            }
        }
    }
    let items = schema
        .get("items")
        .or_else(|| schema.get("additionalProperties"))
        .filter(|items| items.is_object())
        .map(node)
        .filter(|items| !items.is_default())
        .map(|items| Child::Shared(Arc::new(items)));
    if schema
        .get("x-kubernetes-embedded-resource")
        .and_then(Value::as_bool)
        == Some(true)
    {
        fields.retain(|(name, _)| name != "metadata");
        fields.push((
            Cow::Borrowed("metadata"),
            Child::Static(&table::OBJECT_META),
        ));
    }
    Keys {
        fields: Cow::Owned(fields),
        items,
        list: list(schema),
        strategy: Strategy::Default,
        atomic: text(schema, "x-kubernetes-map-type") == Some("atomic"),
    }
}

fn list(schema: &Value) -> List {
    match text(schema, "x-kubernetes-list-type") {
        Some("set") => List::Set,
        Some("map") => List::Map(
            schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|key| Cow::Owned(key.to_owned()))
                .collect(),
        ),
        _ => List::Atomic,
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

impl Keys {
    /// Whether nothing here differs from the default.
    pub fn is_default(&self) -> bool {
        self.fields.is_empty()
            && self.items.is_none()
            && self.list == List::Atomic
            && self.strategy == Strategy::Default
            && !self.atomic
    }
}
