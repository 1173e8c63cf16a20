//! Any schema compiles or is refused, and then any object can be pruned, defaulted and validated.

use arbitrary::Unstructured;
use astrago_apiserver::Structural;

use super::json;

const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "type",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "default",
    "enum",
    "nullable",
    "format",
    "date-time",
    "duration",
    "byte",
    "int64",
    "pattern",
    "^a*$",
    "(",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "x-kubernetes-list-type",
    "map",
    "set",
    "atomic",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-validations",
    "rule",
    "message",
    "messageExpression",
    "reason",
    "fieldPath",
    "optionalOldSelf",
    "self == oldSelf",
    "self.a > 1",
    "true",
    "self.all(x, x == x)",
    "has(self.a)",
    "metadata",
    "name",
    "apiVersion",
    "kind",
    "spec",
    "2026-01-01T00:00:00Z",
    "1h",
];

pub fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let (Ok(mut schema), Ok(mut object), Ok(old)) = (
        json::value(&mut bytes, WORDS),
        json::value(&mut bytes, WORDS),
        json::value(&mut bytes, WORDS),
    ) else {
        return;
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    let Ok(structural) = Structural::compile(&schema) else {
        return;
    };
    structural.prune(&mut object);
    structural.default(&mut object);
    let _ = structural.validate(&object, None);
    let _ = structural.validate(&object, Some(&old));
}
