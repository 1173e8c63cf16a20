//! Where every field came from.
//!
//! A stage of the plan does not say what it changes; it changes the template, and [`Origins::trace`]
//! compares before and after. A field that is there and was not, or is different, came from that
//! stage; any other field keeps the origin that it had. So no field can be forgotten.
//!
//! Fields are named by paths such as `spec.containers[node].env[PET_NNODES].value`: items of lists
//! that Kubernetes merges by key are named by that key, so that they can move; other lists are one
//! field.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use astrago_patch::keys::{Keys, List, Strategy};
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase", tag = "from")]
pub enum Origin {
    /// The template of the runtime.
    Runtime { kind: String, name: String },
    /// A field of the TrainJob.
    TrainJob { field: String },
    /// An entry of `spec.podTemplateOverrides`.
    Override { index: usize },
    /// An entry of `spec.runtimePatches`.
    Patch { index: usize, manager: String },
    /// The policy of the framework.
    Policy { name: String },
    /// What JobSet puts on the Jobs that it makes.
    JobSet,
    /// What Job puts on the pods that it makes.
    Job,
    /// What Kubernetes or JobSet fill in where nobody said anything.
    Default,
}

impl Origin {
    pub(crate) fn train_job(field: impl Into<String>) -> Self {
        Self::TrainJob {
            field: field.into(),
        }
    }

    pub(crate) fn policy(name: &str) -> Self {
        Self::Policy {
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime { kind, name } => write!(formatter, "{kind} {name}"),
            Self::TrainJob { field } => write!(formatter, "TrainJob {field}"),
            Self::Override { index } => {
                write!(formatter, "override spec.podTemplateOverrides[{index}]")
            }
            Self::Patch { index, manager } => {
                write!(formatter, "patch spec.runtimePatches[{index}] of {manager}")
            }
            Self::Policy { name } => write!(formatter, "injected by the {name} policy"),
            Self::JobSet => formatter.write_str("injected by JobSet"),
            Self::Job => formatter.write_str("injected by Job"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// The origin of every field of an object, by path.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// The origin of the field at this path.
    pub fn get(&self, path: &str) -> Option<&Origin> {
        self.0.get(path)
    }

    /// All fields with their origins, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(path, origin)| (path.as_str(), origin))
    }

    /// Every field of an object with its path, value and origin, in the order of the object.
    pub(crate) fn fields<'s, 'v>(&'s self, object: &'v Value, keys: &Keys) -> Vec<Field<'s, 'v>> {
        let mut paths = Vec::new();
        walk(
            &mut String::new(),
            None,
            object,
            keys,
            &mut |path, value, _| {
                paths.push((path.to_owned(), value));
            },
        );
        paths
            .into_iter()
            .map(|(path, value)| Field {
                origin: self.get(&path),
                path,
                value,
            })
            .collect()
    }

    /// The fields of `after`: those that `before` has with the same value keep their origin, the
    /// others came from `origin`.
    #[must_use]
    pub(crate) fn trace(
        &self,
        before: &Value,
        after: &Value,
        keys: &Keys,
        origin: &Origin,
    ) -> Self {
        let mut traced = Self::default();
        let mut visit = |path: &str, _: &Value, unchanged: bool| {
            let known = if unchanged { self.0.get(path) } else { None };
            traced
                .0
                .insert(path.to_owned(), known.unwrap_or(origin).clone());
        };
        walk(&mut String::new(), Some(before), after, keys, &mut visit);
        traced
    }

    /// The origins below this path, with their paths relative to it.
    #[must_use]
    pub(crate) fn below(&self, prefix: &str) -> Self {
        let inside = self
            .0
            .range(prefix.to_owned()..)
            .map_while(|(path, origin)| {
                path.strip_prefix(prefix)
                    .map(|rest| (rest.to_owned(), origin.clone()))
            });
        Self(inside.collect())
    }
}

#[derive(Debug)]
pub(crate) struct Field<'s, 'v> {
    pub(crate) path: String,
    pub(crate) value: &'v Value,
    pub(crate) origin: Option<&'s Origin>,
}

/// Calls `visit` for every field of `after` with its path, its value and whether `before` has the
/// same.
pub(crate) fn walk<'a>(
    path: &mut String,
    before: Option<&Value>,
    after: &'a Value,
    keys: &Keys,
    visit: &mut dyn FnMut(&str, &'a Value, bool),
) {
    match after {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let old = before.and_then(|before| before.get(name));
                step(path, &segment(name), |path| {
                    walk(path, old, value, keys.field(name), visit);
                });
            }
        }
        Value::Array(items) if !items.is_empty() && !keys_of(keys).is_empty() => {
            for item in items {
                let identity = identity(item, keys);
                let old = before.and_then(Value::as_array).and_then(|items| {
                    items
                        .iter()
                        .find(|old| self::identity(old, keys) == identity)
                });
                let segment = format!("[{identity}]");
                step(path, &segment, |path| {
                    walk(path, old, item, keys.items(), visit);
                });
            }
        }
        _ => visit(path, after, before == Some(after)),
    }
}

pub(crate) fn step(path: &mut String, segment: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    if length > 0 && !segment.starts_with('[') {
        path.push('.');
    }
    path.push_str(segment);
    then(path);
    path.truncate(length);
}

/// A field's name as part of a path; keys of labels and the like stand in brackets.
pub(crate) fn segment(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        name.to_owned()
    } else {
        format!("[{name}]")
    }
}

/// The fields that tell the items of a list apart; none if the list is one value.
pub(crate) fn keys_of(keys: &Keys) -> Vec<&str> {
    match (keys.list(), keys.strategy()) {
        (List::Map(keys), _) => keys.iter().map(AsRef::as_ref).collect(),
        (_, Strategy::MergeBy(key)) => vec![key.as_ref()],
        _ => Vec::new(),
    }
}

pub(crate) fn identity(item: &Value, keys: &Keys) -> String {
    let mut identity = String::new();
    for key in keys_of(keys) {
        let separator = if identity.is_empty() { "" } else { "/" };
        // A String takes any text, so writing to it cannot fail.
        let _ = match item.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(text)) => write!(identity, "{separator}{text}"),
            Some(other) => write!(identity, "{separator}{other}"),
        };
    }
    identity
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runtime() -> Origin {
        Origin::Runtime {
            kind: "ClusterTrainingRuntime".into(),
            name: "r".into(),
        }
    }

    fn traced(before: &Value, after: &Value) -> BTreeMap<String, String> {
        let keys = Keys::builtin("", "Pod");
        let start = Origins::default().trace(&Value::Null, before, keys, &runtime());
        let end = start.trace(before, after, keys, &Origin::Default);
        end.iter()
            .map(|(path, origin)| (path.to_owned(), origin.to_string()))
            .collect()
    }

    #[test]
    fn a_changed_field_gets_the_new_origin_and_the_others_keep_theirs() {
        let before = json!({"spec": {"containers": [
            {"name": "a", "image": "one", "args": ["x"]},
            {"name": "b", "image": "two"},
        ]}});
        let after = json!({"spec": {"containers": [
            {"name": "b", "image": "three"},
            {"name": "a", "image": "one", "args": ["x", "y"]},
        ]}, "metadata": {"labels": {"a.b/c": "d"}}});
        let want = [
            ("metadata.labels[a.b/c]", "default"),
            ("spec.containers[a].args", "default"),
            ("spec.containers[a].image", "ClusterTrainingRuntime r"),
            ("spec.containers[a].name", "ClusterTrainingRuntime r"),
            ("spec.containers[b].image", "default"),
            ("spec.containers[b].name", "ClusterTrainingRuntime r"),
        ];
        let got = traced(&before, &after);
        let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_removed_field_has_no_origin() {
        assert!(traced(&json!({"spec": {"nodeName": "a"}}), &json!({})).len() == 1);
    }
}
