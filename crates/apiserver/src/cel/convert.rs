//! JSON to CEL, by the schema.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value as Cel;
use cel::objects::{Key, Map};
use serde_json::Value;

use crate::schema::Node;
use crate::schema::node::Kind;

/// Words that CEL reserves, so that a field of that name is written `__name__`.
const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// `value` as a rule sees it. At the root only name and generateName of the metadata show.
pub(super) fn value(value: &Value, node: &Node, is_root: bool) -> Cel {
    let Value::Object(map) = value else {
        return any(value, Some(node));
    };
    if !is_root {
        return any(value, Some(node));
    }
    let mut fields = HashMap::with_capacity(map.len());
    for (name, value) in map {
        let shown = match name.as_str() {
            "metadata" => metadata(value),
            "apiVersion" | "kind" => any(value, None),
            _ => any(
                value,
                node.properties.get(name.as_str()).map(|child| &**child),
            ),
        };
        fields.insert(key(name, true), shown);
    }
    Cel::Map(Map {
        map: Arc::new(fields),
    })
}

fn metadata(value: &Value) -> Cel {
    let mut fields = HashMap::new();
    for name in ["name", "generateName"] {
        if let Some(value) = value.get(name) {
            fields.insert(key(name, false), any(value, None));
        }
    }
    Cel::Map(Map {
        map: Arc::new(fields),
    })
}

fn any(value: &Value, node: Option<&Node>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Number(number) => {
            let wants_float = node.is_some_and(|node| node.kind == Kind::Number);
            match number.as_i64() {
                Some(integer) if !wants_float => Cel::Int(integer),
                _ => {
                    let float = number.as_f64().unwrap_or(f64::NAN);
                    // `2.0` in a field of type integer is the integer.
                    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole")]
                    if node.is_some_and(|node| node.kind == Kind::Integer) && float.fract() == 0.0 {
                        Cel::Int(float as i64)
                    } else {
                        Cel::Float(float)
                    }
                }
            }
        }
        Value::Array(list) => {
            let items = node.and_then(|node| node.items.as_deref());
            Cel::List(Arc::new(list.iter().map(|item| any(item, items)).collect()))
        }
        Value::Object(map) => {
            let mut fields = HashMap::with_capacity(map.len());
            for (name, value) in map {
                let property = node.and_then(|node| node.properties.get(name.as_str()));
                let child = property.or_else(|| node.and_then(|node| node.items.as_ref()));
                let shown = any(value, child.map(|child| &**child));
                fields.insert(key(name, property.is_some()), shown);
            }
            Cel::Map(Map {
                map: Arc::new(fields),
            })
        }
    }
}

fn key(name: &str, is_field: bool) -> Key {
    Key::String(Arc::new(if is_field {
        escaped(name)
    } else {
        name.to_owned()
    }))
}

/// The identifier by which a rule refers to a field that is none itself.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
