//! From an OpenAPI v3 schema to a tree of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::Path;
use super::format::Format;
use super::node::{Bound, Checks, Kind, List, Node};
use crate::kinds::cel::{self, Rule};

/// Schemas of built-in types by name, raw and compiled. Types that contain themselves are open
/// where they do.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) raw: Map<String, Value>,
    compiled: HashMap<String, Option<Arc<Node>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {detail}")]
    NotStructural { path: String, detail: String },
    #[error("{path}.pattern: Invalid value: {pattern:?}: must be a valid regular expression")]
    Pattern {
        path: String,
        pattern: String,
        #[source]
        source: Box<regex::Error>,
    },
    #[error("{path}.x-kubernetes-validations: Invalid value: {rule:?}: {detail}")]
    Rule {
        path: String,
        rule: String,
        detail: String,
        #[source]
        source: cel::Error,
    },
}

/// How strict a schema is read.
struct Compiler<'a> {
    /// Custom resources must have a type everywhere and may not use `$ref`.
    definitions: Option<&'a mut Definitions>,
}

pub(super) fn structural(schema: &Value) -> Result<Node, Error> {
    let path = Path::ROOT;
    let path = path.field("openAPIV3Schema");
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let detail = "Required value: must be object at the root".to_owned();
        return Err(Error::NotStructural {
            path: format!("{path}.type"),
            detail,
        });
    }
    Compiler { definitions: None }.node(schema, path)
}

pub(super) fn builtin(schema: &Value, definitions: &mut Definitions) -> Arc<Node> {
    let node = Compiler {
        definitions: Some(definitions),
    }
    .child(schema, Path::ROOT);
    node.unwrap_or_else(|error| {
        tracing::warn!(%error, "the schema of a built-in type does not compile");
        Arc::new(Node {
            preserve: true,
            ..Node::default()
        })
    })
}

impl Compiler<'_> {
    fn child(&mut self, schema: &Value, path: Path<'_>) -> Result<Arc<Node>, Error> {
        let Some(definitions) = &mut self.definitions else {
            return self.node(schema, path).map(Arc::new);
        };
        let Some(name) = reference(schema) else {
            return self.node(schema, path).map(Arc::new);
        };
        if name.ends_with(".Quantity") {
            return Ok(Arc::new(Node {
                kind: Kind::Quantity,
                ..Node::default()
            }));
        }
        match definitions.compiled.get(name) {
            Some(Some(node)) => return Ok(Arc::clone(node)),
            Some(None) => {
                return Ok(Arc::new(Node {
                    preserve: true,
                    ..Node::default()
                }));
            }
            None => {}
        }
        let raw = definitions
            .raw
            .get(name)
            .cloned()
            .unwrap_or(Value::Bool(true));
        definitions.compiled.insert(name.to_owned(), None);
        let node = Arc::new(self.node(&raw, path)?);
        if let Some(definitions) = &mut self.definitions {
            definitions
                .compiled
                .insert(name.to_owned(), Some(Arc::clone(&node)));
        }
        Ok(node)
    }

    fn node(&mut self, schema: &Value, path: Path<'_>) -> Result<Node, Error> {
        let Value::Object(map) = schema else {
            return Ok(Node {
                preserve: true,
                ..Node::default()
            });
        };
        let is_builtin = self.definitions.is_some();
        if !is_builtin && map.contains_key("$ref") {
            let detail = "Forbidden: $ref is not supported".to_owned();
            return Err(Error::NotStructural {
                path: path.to_string(),
                detail,
            });
        }
        let mut node = Node {
            kind: kind(map),
            nullable: flag(map, "nullable"),
            preserve: flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(map, "x-kubernetes-embedded-resource"),
            list: list(map, path)?,
            default: map.get("default").cloned().map(Box::new),
            ..Node::default()
        };
        if node.kind == Kind::Any && !node.preserve {
            if !is_builtin {
                let detail = "Required value: must not be empty for specified object fields";
                let path = format!("{path}.type");
                return Err(Error::NotStructural {
                    path,
                    detail: detail.to_owned(),
                });
            }
            node.preserve = true;
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            let path = path.field("properties");
            for (name, property) in properties {
                let child = self.child(property, path.key(name))?;
                node.properties.insert(name.as_str().into(), child);
            }
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(open)) => node.open = *open,
            Some(values @ Value::Object(_)) => {
                node.items = Some(self.child(values, path.field("additionalProperties"))?);
            }
            _ => {}
        }
        if node.kind == Kind::Array {
            match map.get("items") {
                Some(items @ Value::Object(_)) => {
                    node.items = Some(self.child(items, path.field("items"))?);
                }
                _ if is_builtin => {}
                _ => {
                    let detail = "Required value: must be specified".to_owned();
                    let path = format!("{path}.items");
                    return Err(Error::NotStructural { path, detail });
                }
            }
        }
        node.checks = self.checks(map, &node, path)?.map(Box::new);
        node.rules = rules(map, &node, path)?;
        node.note_what_is_below();
        Ok(node)
    }

    fn checks(
        &mut self,
        map: &Map<String, Value>,
        node: &Node,
        path: Path<'_>,
    ) -> Result<Option<Checks>, Error> {
        let is_builtin = self.definitions.is_some();
        let mut any = false;
        let mut number = |name: &str| {
            let found = map.get(name).and_then(Value::as_f64);
            any |= found.is_some();
            found
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size in a schema; nonsense becomes the nearest size"
        )]
        let mut size = |name: &str| number(name).map(|size| size as u64);
        let mut checks = Checks {
            min_length: size("minLength"),
            max_length: size("maxLength"),
            min_items: size("minItems"),
            max_items: size("maxItems"),
            min_properties: size("minProperties"),
            max_properties: size("maxProperties"),
            multiple_of: number("multipleOf"),
            ..Checks::default()
        };
        let mut bound = |name: &str, exclusive: &str| {
            number(name).map(|value| Bound {
                value,
                exclusive: flag(map, exclusive),
            })
        };
        checks.minimum = bound("minimum", "exclusiveMinimum");
        checks.maximum = bound("maximum", "exclusiveMaximum");
        checks.unique_items = flag(map, "uniqueItems");
        checks.format = map
            .get("format")
            .and_then(Value::as_str)
            .filter(|_| node.kind == Kind::String)
            .and_then(Format::from_name)
            // Bytes of built-in kinds are secrets, which an error must not repeat.
            .filter(|format| !is_builtin || *format != Format::Byte);
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
            let regex = Regex::new(pattern).map_err(|source| Error::Pattern {
                path: path.to_string(),
                pattern: pattern.to_owned(),
                source: Box::new(source),
            })?;
            checks.pattern = Some(regex);
        }
        if let Some(Value::Array(choices)) = map.get("enum") {
            checks.choices.clone_from(choices);
        }
        // The Go types of built-in kinds have no required fields; admission asks for what matters.
        if let Some(Value::Array(required)) = map.get("required").filter(|_| !is_builtin) {
            checks.required = required
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
        }
        if !is_builtin {
            checks.all_of = nested(map, "allOf", node)?;
            checks.any_of = nested(map, "anyOf", node)?;
            checks.one_of = nested(map, "oneOf", node)?;
            checks.not = match map.get("not") {
                Some(not) => Some(value_validation(not)?),
                None => None,
            };
        }
        any |= checks.unique_items
            || checks.format.is_some()
            || checks.pattern.is_some()
            || !checks.choices.is_empty()
            || !checks.required.is_empty()
            || !checks.all_of.is_empty()
            || !checks.any_of.is_empty()
            || !checks.one_of.is_empty()
            || checks.not.is_some();
        Ok(any.then_some(checks))
    }
}

impl Node {
    fn note_what_is_below(&mut self) {
        let mut has_defaults = self.default.is_some();
        let mut has_transitions = self.rules.iter().any(Rule::may_fail_unchanged);
        let mut has_rules = !self.rules.is_empty();
        let mut has_quantities = false;
        for child in self.properties.values().chain(&self.items) {
            has_defaults |= child.has_defaults;
            has_transitions |= child.has_transitions;
            has_rules |= child.has_rules;
            has_quantities |= child.has_quantities || child.kind == Kind::Quantity;
        }
        self.has_defaults = has_defaults;
        self.has_transitions = has_transitions;
        self.has_rules = has_rules;
        self.has_quantities = has_quantities;
    }
}

/// `allOf` and its like; the two alternatives that say "integer or string" are the node's kind.
fn nested(map: &Map<String, Value>, name: &str, node: &Node) -> Result<Vec<Node>, Error> {
    let Some(Value::Array(branches)) = map.get(name) else {
        return Ok(Vec::new());
    };
    if node.kind == Kind::IntOrString && name != "allOf" {
        return Ok(Vec::new());
    }
    branches.iter().map(value_validation).collect()
}

/// A schema inside `allOf`, `anyOf`, `oneOf` or `not`: it only validates.
fn value_validation(schema: &Value) -> Result<Node, Error> {
    let mut definitions = Definitions::default();
    let Value::Object(map) = schema else {
        return Ok(Node::default());
    };
    let mut node = Compiler {
        definitions: Some(&mut definitions),
    }
    .node(schema, Path::ROOT)?;
    let mut checks = Compiler { definitions: None }.checks(map, &node, Path::ROOT)?;
    if let Some(Value::Object(properties)) = map.get("properties") {
        for (name, property) in properties {
            let child = Arc::new(value_validation(property)?);
            node.properties.insert(name.as_str().into(), child);
        }
    }
    node.checks = checks.take().map(Box::new);
    Ok(node)
}

fn rules(map: &Map<String, Value>, node: &Node, path: Path<'_>) -> Result<Vec<Rule>, Error> {
    let Some(Value::Array(rules)) = map.get("x-kubernetes-validations") else {
        return Ok(Vec::new());
    };
    rules
        .iter()
        .map(|rule| {
            Rule::compile(rule, node.kind.as_str()).map_err(|source| Error::Rule {
                path: path.to_string(),
                rule: rule["rule"].as_str().unwrap_or_default().to_owned(),
                detail: source.to_string(),
                source,
            })
        })
        .collect()
}

fn kind(map: &Map<String, Value>) -> Kind {
    if flag(map, "x-kubernetes-int-or-string") {
        return Kind::IntOrString;
    }
    match map.get("type").and_then(Value::as_str) {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        _ => Kind::Any,
    }
}

fn list(map: &Map<String, Value>, path: Path<'_>) -> Result<List, Error> {
    match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None | Some("atomic") => Ok(List::Atomic),
        Some("set") => Ok(List::Set),
        Some("map") => {
            let keys: Vec<_> = map
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            if keys.is_empty() {
                return Err(Error::NotStructural {
                    path: format!("{path}.x-kubernetes-list-map-keys"),
                    detail: "Required value: must not be empty if x-kubernetes-list-type is map"
                        .to_owned(),
                });
            }
            Ok(List::Map(keys))
        }
        Some(other) => Err(Error::NotStructural {
            path: format!("{path}.x-kubernetes-list-type"),
            detail: format!(
                "Unsupported value: {other:?}: supported values: \"atomic\", \"map\", \"set\""
            ),
        }),
    }
}

fn flag(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn reference(schema: &Value) -> Option<&str> {
    // schemars wraps a reference that has a description of its own in `allOf`.
    let direct = schema.get("$ref").and_then(Value::as_str);
    let wrapped = || match schema
        .get("allOf")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        Some([only]) => only.get("$ref").and_then(Value::as_str),
        _ => None,
    };
    direct.or_else(wrapped)?.rsplit('/').next()
}
