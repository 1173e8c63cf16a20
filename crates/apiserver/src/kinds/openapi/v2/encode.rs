//! The document in protobuf: the messages of `openapi.v2`, written field by field.
//!
//! Only the fields that clients read are written; a reader skips nothing and misses nothing. The numbers are those of
//! the fields in their messages.

use serde_json::Value;

use super::Part;

/// What stands before the parts.
pub(super) fn head(out: &mut Vec<u8>, info: &Value) {
    text(out, 1, "2.0");
    message(out, 2, |out| {
        text(out, 1, info["title"].as_str().unwrap_or_default());
        text(out, 2, info["version"].as_str().unwrap_or_default());
    });
}

/// Some kinds' paths and definitions.
pub(super) fn part(out: &mut Vec<u8>, part: &Part) {
    message(out, 8, |out| {
        for (path, operations) in &part.paths {
            named(out, 2, path, |out| path_item(out, operations));
        }
    });
    message(out, 9, |out| {
        for (name, definition) in &part.definitions {
            named(out, 1, name, |out| schema(out, definition));
        }
    });
}

fn path_item(out: &mut Vec<u8>, operations: &Value) {
    for (method, number) in [
        ("get", 2),
        ("put", 3),
        ("post", 4),
        ("delete", 5),
        ("patch", 8),
    ] {
        if let Some(one) = operations.get(method) {
            message(out, number, |out| operation(out, one));
        }
    }
}

fn operation(out: &mut Vec<u8>, operation: &Value) {
    for (name, number) in [("produces", 6), ("consumes", 7)] {
        for media in strings(&operation[name]) {
            text(out, number, media);
        }
    }
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // A parameter, that is not the body, of the query.
        message(out, 8, |out| {
            message(out, 1, |out| {
                message(out, 2, |out| {
                    message(out, 3, |out| {
                        text(out, 2, "query");
                        text(out, 4, parameter["name"].as_str().unwrap_or_default());
                        text(out, 6, "string");
                    });
                });
            });
        });
    }
    // One response, of the code 200.
    message(out, 9, |out| {
        named(out, 1, "200", |out| {
            message(out, 1, |out| text(out, 1, "OK"));
        });
    });
    extensions(out, 13, operation);
}

fn schema(out: &mut Vec<u8>, schema: &Value) {
    for (name, number) in [
        ("$ref", 1),
        ("format", 2),
        ("description", 4),
        ("pattern", 13),
    ] {
        if let Some(value) = schema[name].as_str() {
            text(out, number, value);
        }
    }
    if let Some(default) = schema.get("default") {
        message(out, 5, |out| any(out, default));
    }
    for name in strings(&schema["required"]) {
        text(out, 19, name);
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        message(out, 20, |out| any(out, value));
    }
    if let Some(kind) = schema["type"].as_str() {
        message(out, 22, |out| text(out, 1, kind));
    }
    for (name, number) in [("additionalProperties", 21), ("items", 23)] {
        if let Some(inner) = schema.get(name) {
            message(out, number, |out| {
                message(out, 1, |out| self::schema(out, inner));
            });
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        message(out, 25, |out| {
            for (name, property) in properties {
                named(out, 1, name, |out| self::schema(out, property));
            }
        });
    }
    extensions(out, 31, schema);
}

fn extensions(out: &mut Vec<u8>, number: u32, value: &Value) {
    let fields = value.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
        named(out, number, name, |out| any(out, value));
    }
}

/// Any value is written as YAML, which JSON is.
fn any(out: &mut Vec<u8>, value: &Value) {
    text(out, 2, &value.to_string());
}

/// The pair of a name and a message.
fn named(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    message(out, number, |out| {
        text(out, 1, name);
        message(out, 2, value);
    });
}

fn message(out: &mut Vec<u8>, number: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    content(&mut inner);
    bytes(out, number, &inner);
}

fn text(out: &mut Vec<u8>, number: u32, text: &str) {
    bytes(out, number, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    out.push((value & 127) as u8);
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
