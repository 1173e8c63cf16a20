//! OpenAPI v3 documents of built-in and custom kinds.
//!
//! kubectl reads them on `apply`, `create`, `edit`, `explain` and `diff`: it looks for a PATCH
//! operation of the kind with a parameter `fieldValidation`, which tells it that the server
//! validates, and for the schema with its descriptions. Documents are made when they are asked
//! for, one per group and version, and those of built-in kinds are kept.
//!
//! The operations do not list strategic merge patch as a body on purpose: kubectl would then take
//! merge keys from these schemas, which lack them, instead of from its own types.

pub(crate) mod v2;

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::kinds::builtin::{self, KindInfo};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A served kind of a custom group and version.
#[derive(Debug)]
pub(crate) struct CustomKind<'a> {
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    /// Its `openAPIV3Schema` as written.
    pub schema: Value,
    /// `status` and so on.
    pub subresources: Vec<&'a str>,
}

/// The path of a group and version below `/openapi/v3/`: `api/v1`, `apis/batch/v1`.
pub(crate) fn path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The answer to `GET /openapi/v3`: where the documents are. A hash is any text that changes
/// when the document does.
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str, String)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(group, version, hash)| {
            let path = path(group, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The hash of all built-in documents, which change only with the program.
pub(crate) fn builtin_hash() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The document of a built-in group and version; `None` if there are no kinds in it.
pub(crate) fn builtin(group: &str, version: &str) -> Option<Bytes> {
    static MADE: LazyLock<RwLock<HashMap<String, Bytes>>> = LazyLock::new(RwLock::default);
    let path = path(group, version);
    if let Some(made) = MADE.read().ok()?.get(&path) {
        return Some(made.clone());
    }
    let of_group = |info: &&KindInfo| info.group == group && info.version == version;
    let kinds: Vec<_> = builtin::kinds().iter().filter(of_group).collect();
    if kinds.is_empty() {
        return None;
    }
    let mut document = Draft::new(group, version);
    for info in kinds {
        let (schema, definitions) = builtin::raw_schema(info);
        for (name, definition) in definitions {
            document.schemas.entry(name).or_insert(definition);
        }
        let reference = schema["$ref"]
            .as_str()
            .and_then(|text| text.rsplit('/').next());
        if let Some(Value::Object(schema)) =
            reference.and_then(|name| document.schemas.get_mut(name))
        {
            schema.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                json!([gvk(group, version, info.kind)]),
            );
        }
        document.operations(
            info.kind,
            info.plural,
            info.namespaced,
            info.verbs.contains(&"patch"),
            "",
        );
        for subresource in info.subresources {
            let is_own = subresource.kind == info.kind && subresource.verbs.contains(&"patch");
            if is_own {
                document.operations(
                    info.kind,
                    info.plural,
                    info.namespaced,
                    true,
                    subresource.name,
                );
            }
        }
    }
    let made = document.finish();
    MADE.write().ok()?.insert(path, made.clone());
    Some(made)
}

/// The document of a custom group and version. Schemas of custom kinds are large, a pod template
/// and more each, so each one is written out before the next is taken.
pub(crate) fn custom<'a>(
    group: &str,
    version: &str,
    kinds: impl IntoIterator<Item = CustomKind<'a>>,
) -> Bytes {
    let mut document = Draft::new(group, version);
    if let Some((_, definitions)) = builtin::find("", "ConfigMap").map(builtin::raw_schema) {
        document.schemas.extend(
            definitions
                .into_iter()
                .filter(|(name, _)| name.contains(".meta.v1.")),
        );
    }
    for custom in kinds {
        let name = component(group, version, custom.kind);
        document.write(
            &name,
            whole(custom.schema, &gvk(group, version, custom.kind)),
        );
        document.operations(custom.kind, custom.plural, custom.namespaced, true, "");
        for subresource in &custom.subresources {
            document.operations(
                custom.kind,
                custom.plural,
                custom.namespaced,
                true,
                subresource,
            );
        }
    }
    document.finish()
}

/// A custom schema with the parts that every object has.
fn whole(mut schema: Value, gvk: &Value) -> Value {
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = json!({
        "type": "string",
        "description": "The version of the schema in which this object is written.",
    });
    properties["kind"] = json!({
        "type": "string",
        "description": "What this object is.",
    });
    properties["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": format!("#/components/schemas/{META}")}],
    });
    schema
}

/// `org.kubeflow.trainer.v1alpha1.TrainJob`.
fn component(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<_> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// A document in the making.
struct Draft {
    group: String,
    version: String,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    /// Schemas that are written out already, as members of an object.
    written: String,
}

const WRITE: [&str; 4] = ["pretty", "dryRun", "fieldManager", "fieldValidation"];
const APPLY: [&str; 5] = [
    "pretty",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
];

impl Draft {
    fn new(group: &str, version: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            paths: Map::new(),
            schemas: Map::new(),
            written: String::new(),
        }
    }

    fn operations(
        &mut self,
        kind: &str,
        plural: &str,
        namespaced: bool,
        is_stored: bool,
        subresource: &str,
    ) {
        let gvk = gvk(&self.group, &self.version, kind);
        let operation = |action: &str, parameters: &[&str]| {
            let parameters: Vec<_> = parameters
                .iter()
                .map(|name| {
                    json!({"name": name, "in": "query",
                        "schema": {"type": "string", "uniqueItems": true}})
                })
                .collect();
            json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": gvk,
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
            })
        };
        let scope = if namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        let collection = format!("/{}/{scope}{plural}", path(&self.group, &self.version));
        if subresource.is_empty() {
            let mut operations = json!({"post": operation("post", &WRITE)});
            if is_stored {
                operations["get"] = operation("list", &["labelSelector", "fieldSelector", "limit"]);
            }
            self.paths.insert(collection.clone(), operations);
        }
        if is_stored {
            let path = match subresource {
                "" => format!("{collection}/{{name}}"),
                subresource => format!("{collection}/{{name}}/{subresource}"),
            };
            let mut operations = json!({
                "get": operation("get", &["pretty"]),
                "put": operation("put", &WRITE),
                "patch": operation("patch", &APPLY),
            });
            if subresource.is_empty() {
                operations["delete"] = operation("delete", &["dryRun", "propagationPolicy"]);
            }
            self.paths.insert(path, operations);
        }
    }

    fn write(&mut self, name: &str, mut schema: Value) {
        localise(&mut schema);
        if !self.written.is_empty() {
            self.written.push(',');
        }
        self.written.push_str(&Value::from(name).to_string());
        self.written.push(':');
        self.written.push_str(&schema.to_string());
    }

    fn finish(mut self) -> Bytes {
        for (name, schema) in std::mem::take(&mut self.schemas) {
            self.write(&name, schema);
        }
        let info =
            json!({"title": "Kubernetes", "version": concat!("v", env!("CARGO_PKG_VERSION"))});
        let document = format!(
            r#"{{"openapi":"3.0.0","info":{info},"paths":{},"components":{{"schemas":{{{}}}}}}}"#,
            Value::Object(self.paths),
            self.written
        );
        Bytes::from(document)
    }
}

/// Turns the references of a JSON schema into those of an OpenAPI document.
fn localise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/components/schemas/{name}");
            }
            // OpenAPI 3.0 ignores what stands beside a reference, so it must stand around it.
            if map.len() > 1
                // A map of properties may have one of that name.
                && map.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = map.remove("$ref")
            {
                map.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            map.values_mut().for_each(localise);
        }
        Value::Array(list) => list.iter_mut().for_each(localise),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(document: &Bytes) -> Value {
        serde_json::from_slice(document).unwrap()
    }

    #[test]
    fn the_index_names_the_documents() {
        let index = index([("", "v1", "a".to_owned()), ("batch", "v1", "b".to_owned())]);
        assert_eq!(
            index["paths"]["apis/batch/v1"]["serverRelativeURL"],
            "/openapi/v3/apis/batch/v1?hash=b"
        );
        assert_eq!(
            index["paths"]["api/v1"]["serverRelativeURL"],
            "/openapi/v3/api/v1?hash=a"
        );
    }

    #[test]
    fn built_in_kinds_can_be_patched_and_explained() {
        let document = parsed(&builtin("", "v1").unwrap());
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(
            parameters
                .iter()
                .any(|one| one["name"] == "fieldValidation")
        );
        let schemas = &document["components"]["schemas"];
        let pod = &schemas["io.k8s.api.core.v1.Pod"];
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert!(
            containers["description"]
                .as_str()
                .unwrap()
                .contains("containers")
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let mut versions: Vec<_> = builtin::kinds()
            .iter()
            .map(|info| (info.group, info.version))
            .collect();
        versions.dedup();
        for (group, version) in versions {
            let document = parsed(&builtin(group, version).unwrap());
            let mut found = Vec::new();
            references(&document, &mut found);
            for reference in found {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                assert!(
                    document["components"]["schemas"].get(name).is_some(),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn custom_kinds_get_metadata_and_their_own_schema() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "description": "what is wanted"}}});
        let kind = CustomKind {
            kind: "TrainJob",
            plural: "trainjobs",
            namespaced: true,
            schema,
            subresources: vec!["status"],
        };
        let document = parsed(&custom("example.com", "v1", [kind]));
        let schema = &document["components"]["schemas"]["com.example.v1.TrainJob"];
        assert_eq!(
            schema["properties"]["spec"]["description"],
            "what is wanted"
        );
        assert!(document["components"]["schemas"].get(META).is_some());
        let path = "/apis/example.com/v1/namespaces/{namespace}/trainjobs/{name}/status";
        assert!(document["paths"].get(path).is_some());
    }
}
