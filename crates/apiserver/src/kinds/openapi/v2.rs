//! The OpenAPI v2 document, for kubectl 1.28 and older.
//!
//! Those read nothing else, and only in protobuf: before `apply`, `create`, `edit` and `diff` they look for the
//! parameter `fieldValidation`, and they compute strategic merge patches by the merge keys that
//! stand beside the fields. It is one document for all kinds. The part of the built-in kinds is made once, when
//! somebody first asks; in protobuf a message may follow another, so the parts are simply put together.

mod encode;

use std::sync::OnceLock;

use astrago_patch::Keys;
use astrago_patch::keys::Strategy;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{CustomKind, Draft, component, gvk, whole};
use crate::kinds::builtin;

/// The names by which clients ask for the document in protobuf.
pub(crate) const ACCEPTED: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    PROTOBUF,
];
/// The name by which it is answered: the old one is not a valid media type.
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

const BODIES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Some kinds' share of the document, as it looks in JSON.
#[derive(Debug, Default)]
pub(crate) struct Part {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
}

impl Part {
    pub(crate) fn custom(group: &str, version: &str, kind: CustomKind<'_>) -> Self {
        let mut draft = Draft::new(group, version);
        draft.operations(kind.kind, kind.plural, kind.namespaced, true, "");
        for subresource in &kind.subresources {
            draft.operations(kind.kind, kind.plural, kind.namespaced, true, subresource);
        }
        let name = component(group, version, kind.kind);
        let gvk = gvk(group, version, kind.kind);
        // As soon as some fields stand here, old clients refuse all others.
        let schema = if kind.schema["x-kubernetes-preserve-unknown-fields"] == true {
            json!({ "type": "object", "x-kubernetes-group-version-kind": [gvk] })
        } else {
            narrowed(&whole(kind.schema, &gvk))
        };
        Self {
            paths: paths(draft, &[BODIES[0], BODIES[1], BODIES[3]]),
            definitions: Map::from_iter([(name, schema)]),
        }
    }

    fn builtin() -> Self {
        let mut part = Self::default();
        for info in builtin::kinds() {
            let (schema, definitions) = builtin::raw_schema(info);
            for (name, definition) in definitions {
                part.definitions
                    .entry(name)
                    .or_insert_with(|| narrowed(&definition));
            }
            let root = schema["$ref"].as_str().and_then(last).unwrap_or_default();
            if let Some(definition) = part.definitions.get_mut(root) {
                definition["x-kubernetes-group-version-kind"] =
                    json!([gvk(info.group, info.version, info.kind)]);
            }
            let keys = Keys::builtin(info.group, info.kind);
            mark(&mut part.definitions, root, keys, 0);
            let mut draft = Draft::new(info.group, info.version);
            let is_stored = info.verbs.contains(&"patch");
            draft.operations(info.kind, info.plural, info.namespaced, is_stored, "");
            part.paths.extend(paths(draft, &BODIES));
        }
        part
    }
}

/// The whole document in protobuf.
pub(crate) fn protobuf(custom: impl IntoIterator<Item = Part>) -> Bytes {
    static BUILTIN: OnceLock<Bytes> = OnceLock::new();
    let first = BUILTIN.get_or_init(|| {
        let mut document = Vec::new();
        encode::head(&mut document, &info());
        encode::part(&mut document, &Part::builtin());
        document.into()
    });
    let mut document = first.to_vec();
    for part in custom {
        encode::part(&mut document, &part);
    }
    document.into()
}

/// The whole document in JSON.
pub(crate) fn json(custom: impl IntoIterator<Item = Part>) -> Bytes {
    let mut all = Part::builtin();
    for part in custom {
        all.paths.extend(part.paths);
        all.definitions.extend(part.definitions);
    }
    let document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": all.paths,
        "definitions": all.definitions,
    });
    document.to_string().into()
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": concat!("v", env!("CARGO_PKG_VERSION"))})
}

/// The operations of a v3 document as v2 writes them: types stand in the parameter, bodies are `consumes`.
fn paths(draft: Draft, bodies: &[&str]) -> Map<String, Value> {
    let mut paths = draft.paths;
    for operations in paths.values_mut() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            let parameters = operation["parameters"].as_array_mut();
            for parameter in parameters.into_iter().flatten() {
                if let Some(parameter) = parameter.as_object_mut() {
                    parameter.remove("schema");
                    parameter.insert("type".to_owned(), "string".into());
                    parameter.insert("uniqueItems".to_owned(), true.into());
                }
            }
            operation["produces"] = json!(["application/json"]);
            if method == "patch" {
                operation["consumes"] = json!(bodies);
            }
        }
    }
    paths
}

/// A schema with what v2 can say of it. Values that may be of several types have none.
fn narrowed(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else {
        return json!({});
    };
    let mut out = Map::new();
    let reference = schema.get("$ref").or_else(|| {
        let all = schema.get("allOf")?.as_array()?;
        match all.as_slice() {
            [one] => one.get("$ref"),
            _ => None,
        }
    });
    for field in ["description", "default"] {
        if let Some(value) = schema.get(field) {
            out.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(name) = reference.and_then(Value::as_str).and_then(last) {
        out.insert("$ref".to_owned(), format!("#/definitions/{name}").into());
        return Value::Object(out);
    }
    let extensions = schema.iter().filter(|(name, _)| {
        name.starts_with("x-kubernetes-") && *name != "x-kubernetes-validations"
    });
    out.extend(extensions.map(|(name, value)| (name.clone(), value.clone())));
    let is = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if is("x-kubernetes-int-or-string") {
        out.insert("format".to_owned(), "int-or-string".into());
        return Value::Object(out);
    }
    if is("x-kubernetes-preserve-unknown-fields") {
        return Value::Object(out);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find(|kind| *kind != "null"),
        kind => kind,
    };
    if let Some(kind) = kind {
        out.insert("type".to_owned(), kind.clone());
    }
    for field in ["format", "required", "enum", "pattern"] {
        if let Some(value) = schema.get(field) {
            out.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties = properties
            .iter()
            .map(|(name, property)| (name.clone(), narrowed(property)));
        out.insert("properties".to_owned(), properties.collect());
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(field).filter(|inner| inner.is_object()) {
            out.insert(field.to_owned(), narrowed(inner));
        }
    }
    if out.get("type") == Some(&json!("array")) && !out.contains_key("items") {
        out.insert("items".to_owned(), json!({}));
    }
    Value::Object(out)
}

/// Writes the rules of strategic merge patch beside the fields of a definition and of those that it
/// refers to.
fn mark(definitions: &mut Map<String, Value>, name: &str, keys: &Keys, depth: usize) {
    // Deeper than any rule lies; definitions may refer to themselves.
    if depth > 12 || keys.is_default() {
        return;
    }
    let Some(properties) = definitions
        .get_mut(name)
        .and_then(|definition| definition["properties"].as_object_mut())
    else {
        return;
    };
    let mut inner = Vec::new();
    for (field, property) in properties {
        let rules = keys.field(field);
        let (strategy, key) = match rules.strategy() {
            Strategy::Default => (None, None),
            Strategy::Replace => (Some("replace"), None),
            Strategy::MergeScalars => (Some("merge"), None),
            Strategy::MergeBy(key) => (Some("merge"), Some(key)),
        };
        if let Some(strategy) = strategy {
            property["x-kubernetes-patch-strategy"] = strategy.into();
        }
        if let Some(key) = key {
            property["x-kubernetes-patch-merge-key"] = key.as_ref().into();
        }
        let targets = [
            (&property["$ref"], rules),
            (&property["items"]["$ref"], rules.items()),
        ];
        for (reference, rules) in targets {
            if let Some(name) = reference.as_str().and_then(last) {
                inner.push((name.to_owned(), rules.clone()));
            }
        }
    }
    for (name, rules) in inner {
        mark(definitions, &name, &rules, depth + 1);
    }
}

fn last(reference: &str) -> Option<&str> {
    reference.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let kind = CustomKind {
            kind: "Gadget",
            plural: "gadgets",
            namespaced: true,
            schema: json!({"type": "object", "properties": {"spec": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}}}),
            subresources: vec!["status"],
        };
        serde_json::from_slice(&json([Part::custom("example.org", "v1", kind)])).unwrap()
    }

    #[test]
    fn every_kind_says_that_the_server_validates() {
        let document = document();
        for path in [
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "/apis/batch/v1/namespaces/{namespace}/jobs/{name}",
            "/apis/example.org/v1/namespaces/{namespace}/gadgets/{name}",
        ] {
            let patch = &document["paths"][path]["patch"];
            let parameters = patch["parameters"].as_array().unwrap();
            assert!(
                parameters.iter().any(|one| one["name"] == "fieldValidation"
                    && one["in"] == "query"
                    && one["type"] == "string"),
                "{path}"
            );
        }
    }

    #[test]
    fn a_kind_that_takes_any_field_names_none() {
        let kind = CustomKind {
            kind: "Gadget",
            plural: "gadgets",
            namespaced: true,
            schema: json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"a": {"type": "string"}}}),
            subresources: vec![],
        };
        let part = Part::custom("example.org", "v1", kind);
        let want = json!({"type": "object", "x-kubernetes-group-version-kind":
            [{"group": "example.org", "version": "v1", "kind": "Gadget"}]});
        assert_eq!(part.definitions["org.example.v1.Gadget"], want);
    }

    #[test]
    fn lists_say_how_they_merge() {
        let document = document();
        let spec = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(spec["containers"]["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(spec["containers"]["x-kubernetes-patch-strategy"], "merge");
        let container = &document["definitions"]["io.k8s.api.core.v1.Container"]["properties"];
        assert_eq!(
            container["volumeMounts"]["x-kubernetes-patch-merge-key"],
            "mountPath"
        );
    }

    #[test]
    fn references_lead_somewhere_and_have_no_type() {
        fn visit(value: &Value, definitions: &Value) {
            if let Some(reference) = value["$ref"].as_str() {
                let name = reference.strip_prefix("#/definitions/").unwrap();
                assert!(definitions.get(name).is_some(), "{name}");
                assert!(value.get("type").is_none(), "{value}");
            }
            for inner in value["properties"].as_object().into_iter().flatten() {
                visit(inner.1, definitions);
            }
            for inner in ["items", "additionalProperties"] {
                if let Some(inner) = value.get(inner) {
                    visit(inner, definitions);
                }
            }
        }
        let document = document();
        for definition in document["definitions"].as_object().unwrap().values() {
            visit(definition, &document["definitions"]);
        }
    }

    #[test]
    fn what_takes_any_field_is_of_no_type() {
        let gadget = &document()["definitions"]["org.example.v1.Gadget"];
        assert!(gadget["properties"]["spec"].get("properties").is_none());
        assert_eq!(
            gadget["properties"]["metadata"]["$ref"],
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
    }
}
