//! Filling in defaults.

use serde_json::Value;

use super::Node;

/// Sets the defaults of absent fields, and of null ones that may not be null.
pub(super) fn fill(node: &Node, value: &mut Value) {
    if !node.has_defaults {
        return;
    }
    match value {
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for item in list {
                    fill(items, item);
                }
            }
        }
        Value::Object(map) => {
            for (name, property) in &node.properties {
                if !property.has_defaults {
                    continue;
                }
                if let Some(default) = &property.default {
                    match map.get_mut(&**name) {
                        None => {
                            map.insert(name.to_string(), (**default).clone());
                        }
                        Some(value) if value.is_null() && !property.nullable => {
                            *value = (**default).clone();
                        }
                        Some(_) => {}
                    }
                }
                if let Some(value) = map.get_mut(&**name) {
                    fill(property, value);
                }
            }
            if let Some(values) = &node.items {
                for (name, value) in map {
                    if !node.properties.contains_key(name.as_str()) {
                        if value.is_null()
                            && !values.nullable
                            && let Some(default) = &values.default
                        {
                            *value = (**default).clone();
                        }
                        fill(values, value);
                    }
                }
            }
        }
        _ => {}
    }
}
