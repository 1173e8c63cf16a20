//! The document in protobuf: the messages of `openapi.v2`, written field by field.
//!
//! Only the fields that clients read are written; a reader skips nothing and misses nothing.

use serde_json::Value;

use super::Part;

/// Numbers of the fields, by message.
mod field {
    pub(super) mod document {
        pub(crate) const SWAGGER: u32 = 1;
        pub(crate) const INFO: u32 = 2;
        pub(crate) const PATHS: u32 = 8;
        pub(crate) const DEFINITIONS: u32 = 9;
    }
    pub(super) mod operation {
        pub(crate) const PRODUCES: u32 = 6;
        pub(crate) const CONSUMES: u32 = 7;
        pub(crate) const PARAMETERS: u32 = 8;
        pub(crate) const RESPONSES: u32 = 9;
        pub(crate) const EXTENSION: u32 = 13;
    }
    pub(super) mod schema {
        pub(crate) const REFERENCE: u32 = 1;
        pub(crate) const FORMAT: u32 = 2;
        pub(crate) const DESCRIPTION: u32 = 4;
        pub(crate) const DEFAULT: u32 = 5;
        pub(crate) const PATTERN: u32 = 13;
        pub(crate) const REQUIRED: u32 = 19;
        pub(crate) const ENUM: u32 = 20;
        pub(crate) const ADDITIONAL_PROPERTIES: u32 = 21;
        pub(crate) const TYPE: u32 = 22;
        pub(crate) const ITEMS: u32 = 23;
        pub(crate) const PROPERTIES: u32 = 25;
        pub(crate) const EXTENSION: u32 = 31;
    }
}

/// What stands before the parts.
pub(super) fn head(out: &mut Vec<u8>, info: &Value) {
    text(out, field::document::SWAGGER, "2.0");
    message(out, field::document::INFO, |out| {
        text(out, 1, info["title"].as_str().unwrap_or_default());
        text(out, 2, info["version"].as_str().unwrap_or_default());
    });
}

/// Some kinds' paths and definitions.
pub(super) fn part(out: &mut Vec<u8>, part: &Part) {
    message(out, field::document::PATHS, |out| {
        for (path, operations) in &part.paths {
            named(out, 2, path, |out| path_item(out, operations));
        }
    });
    message(out, field::document::DEFINITIONS, |out| {
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
    use field::operation as number;
    for (name, number) in [
        ("produces", number::PRODUCES),
        ("consumes", number::CONSUMES),
    ] {
        for media in strings(&operation[name]) {
            text(out, number, media);
        }
    }
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // A parameter, that is not the body, of the query.
        message(out, number::PARAMETERS, |out| {
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
    message(out, number::RESPONSES, |out| {
        named(out, 1, "200", |out| {
            message(out, 1, |out| text(out, 1, "OK"));
        });
    });
    extensions(out, number::EXTENSION, operation);
}

fn schema(out: &mut Vec<u8>, schema: &Value) {
    use field::schema as number;
    for (name, number) in [
        ("$ref", number::REFERENCE),
        ("format", number::FORMAT),
        ("description", number::DESCRIPTION),
        ("pattern", number::PATTERN),
    ] {
        if let Some(value) = schema[name].as_str() {
            text(out, number, value);
        }
    }
    if let Some(default) = schema.get("default") {
        message(out, number::DEFAULT, |out| any(out, default));
    }
    for name in strings(&schema["required"]) {
        text(out, number::REQUIRED, name);
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        message(out, number::ENUM, |out| any(out, value));
    }
    if let Some(inner) = schema.get("additionalProperties") {
        message(out, number::ADDITIONAL_PROPERTIES, |out| {
            message(out, 1, |out| self::schema(out, inner));
        });
    }
    if let Some(kind) = schema["type"].as_str() {
        message(out, number::TYPE, |out| text(out, 1, kind));
    }
    if let Some(inner) = schema.get("items") {
        message(out, number::ITEMS, |out| {
            message(out, 1, |out| self::schema(out, inner));
        });
    }
    if let Some(properties) = schema["properties"].as_object() {
        message(out, number::PROPERTIES, |out| {
            for (name, property) in properties {
                named(out, 1, name, |out| self::schema(out, property));
            }
        });
    }
    extensions(out, number::EXTENSION, schema);
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
