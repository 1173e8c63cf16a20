//! Dropping the fields that a schema does not know.

use serde_json::Value;

use super::{Node, Path};

/// What every object has besides its schema.
const TYPE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The fields of `ObjectMeta`; metadata is the same in every kind, whatever a schema says.
#[rustfmt::skip]
const META_FIELDS: [&str; 15] = [
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp",
    "finalizers", "generateName", "generation", "labels", "managedFields", "name", "namespace",
    "ownerReferences", "resourceVersion", "selfLink", "uid",
];

const OWNER_FIELDS: [&str; 6] = [
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];

pub(super) fn object(root: &Node, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    embedded(root, object, Path::ROOT, &mut unknown);
    unknown
}

/// An object with its own type and metadata: the root, or an embedded resource.
fn embedded(node: &Node, value: &mut Value, path: Path<'_>, unknown: &mut Vec<String>) {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        let path = path.field("metadata");
        metadata.retain(|name, _| {
            let is_known = META_FIELDS.contains(&name.as_str());
            if !is_known {
                unknown.push(path.field(name).to_string());
            }
            is_known
        });
        let owners = metadata.get_mut("ownerReferences");
        for (index, owner) in owners
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let path = path.field("ownerReferences");
            let path = path.index(index);
            if let Value::Object(owner) = owner {
                owner.retain(|name, _| {
                    let is_known = OWNER_FIELDS.contains(&name.as_str());
                    if !is_known {
                        unknown.push(path.field(name).to_string());
                    }
                    is_known
                });
            }
        }
    }
    fields(node, value, path, unknown, &TYPE_FIELDS);
}

fn visit(node: &Node, value: &mut Value, path: Path<'_>, unknown: &mut Vec<String>) {
    if node.embedded {
        embedded(node, value, path, unknown);
    } else {
        fields(node, value, path, unknown, &[]);
    }
}

fn fields(
    node: &Node,
    value: &mut Value,
    path: Path<'_>,
    unknown: &mut Vec<String>,
    implied: &[&str],
) {
    match value {
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, item) in list.iter_mut().enumerate() {
                    visit(items, item, path.index(index), unknown);
                }
            }
        }
        Value::Object(map) => {
            let mut strays = false;
            for (name, value) in map.iter_mut() {
                if implied.contains(&name.as_str()) {
                } else if let Some(property) = node.properties.get(name.as_str()) {
                    visit(property, value, path.field(name), unknown);
                } else if let Some(values) = &node.items {
                    visit(values, value, path.field(name), unknown);
                } else if !node.preserve && !node.open {
                    strays = true;
                }
            }
            if strays {
                map.retain(|name, _| {
                    let is_known = implied.contains(&name.as_str())
                        || node.properties.contains_key(name.as_str());
                    if !is_known {
                        unknown.push(path.field(name).to_string());
                    }
                    is_known
                });
            }
        }
        _ => {}
    }
}
