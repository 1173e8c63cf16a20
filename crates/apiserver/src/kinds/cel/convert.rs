//! JSON to CEL, by the schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use cel::Value as Cel;
use cel::objects::{Key, Map};
use chrono::{DateTime, TimeDelta};
use serde_json::Value;

use crate::kinds::schema::Node;
use crate::kinds::schema::format::Format;
use crate::kinds::schema::node::Kind;

/// Words that CEL reserves, so that a field of that name is written `__name__`.
#[rustfmt::skip]
const RESERVED: [&str; 21] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
];

/// `value` as a rule sees it, with the fields that it wants to see. At the root only name and generateName of
/// the metadata show.
pub(super) fn value(value: &Value, node: &Node, is_root: bool, wanted: Option<&[String]>) -> Cel {
    let Value::Object(map) = value else {
        return any(value, Some(node));
    };
    if !is_root && wanted.is_none() {
        return any(value, Some(node));
    }
    let mut fields = HashMap::with_capacity(wanted.map_or(map.len(), <[_]>::len));
    for (name, value) in map {
        let property = node.properties.get(name.as_str());
        let is_wanted = |key: &Key| match (wanted, key) {
            (Some(wanted), Key::String(name)) => wanted.contains(name),
            _ => true,
        };
        let mut keys: Vec<_> = keys(name, is_root || property.is_some()).collect();
        keys.retain(is_wanted);
        if keys.is_empty() {
            continue;
        }
        let child = property.or_else(|| node.items.as_ref().filter(|_| !is_root));
        let shown = match name.as_str() {
            "metadata" if is_root => metadata(value),
            "apiVersion" | "kind" if is_root => any(value, None),
            _ => any(value, child.map(|child| &**child)),
        };
        fields.extend(keys.into_iter().map(|key| (key, shown.clone())));
    }
    Cel::Map(Map {
        map: Arc::new(fields),
    })
}

/// Whether two objects are the same to a rule at the root that wants to see these fields.
pub(super) fn shows_the_same(value: &Value, old: &Value, wanted: &[String]) -> bool {
    let (Value::Object(new), Value::Object(old)) = (value, old) else {
        return value == old;
    };
    let mut names = new.keys().chain(old.keys());
    names.all(|name| {
        let is_wanted = |key: Key| matches!(&key, Key::String(name) if wanted.contains(name));
        // By whichever of its names the rule may call it.
        if ![true, false]
            .into_iter()
            .any(|escaped| keys(name, escaped).any(is_wanted))
        {
            return true;
        }
        let (new, old) = (new.get(name), old.get(name));
        if name == "metadata" {
            let shown =
                |value: Option<&Value>, name: &str| value.and_then(|it| it.get(name)).cloned();
            return METADATA
                .iter()
                .all(|name| shown(new, name) == shown(old, name));
        }
        new == old
    })
}

/// What a rule sees of the metadata of an object.
const METADATA: [&str; 2] = ["name", "generateName"];

fn metadata(value: &Value) -> Cel {
    let mut fields = HashMap::new();
    for name in METADATA {
        if let Some(value) = value.get(name) {
            fields.extend(keys(name, false).map(|key| (key, any(value, None))));
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
        Value::String(text) => {
            let checks = node.and_then(|node| node.checks.as_ref());
            let format = checks.and_then(|checks| checks.format);
            let typed = format.and_then(|format| typed(text, format));
            typed.unwrap_or_else(|| Cel::String(Arc::new(text.clone())))
        }
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
                let keys = keys(name, property.is_some());
                fields.extend(keys.map(|key| (key, shown.clone())));
            }
            Cel::Map(Map {
                map: Arc::new(fields),
            })
        }
    }
}

/// Texts of some formats have a type of their own in CEL.
fn typed(text: &str, format: Format) -> Option<Cel> {
    Some(match format {
        Format::DateTime => Cel::Timestamp(DateTime::parse_from_rfc3339(text).ok()?),
        Format::Date => {
            let midnight = format!("{text}T00:00:00Z");
            Cel::Timestamp(DateTime::parse_from_rfc3339(&midnight).ok()?)
        }
        Format::Duration => Cel::Duration(duration(text)?),
        Format::Byte => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Cel::Bytes(Arc::new(bytes.ok()?))
        }
        _ => return None,
    })
}

/// Go's `1h30m0.5s`.
fn duration(text: &str) -> Option<TimeDelta> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.trim_start_matches('+')),
    };
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(end);
        let end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let (unit, next) = unit.split_at(end);
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        nanos += number.parse::<f64>().ok()? * scale;
        rest = next;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
    let nanos = (sign * nanos) as i64;
    Some(TimeDelta::nanoseconds(nanos))
}

/// The names by which a rule refers to a field, or to an entry of a map. A field that is called as a word of the
/// language can be asked for as it is, too: `self.namespace`.
fn keys(name: &str, is_field: bool) -> impl Iterator<Item = Key> {
    let plain = (!is_field || RESERVED.contains(&name)).then(|| name.to_owned());
    let escaped = is_field.then(|| escaped(name));
    let names = plain.into_iter().chain(escaped);
    names.map(|name| Key::String(Arc::new(name)))
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
