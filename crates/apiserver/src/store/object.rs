//! A stored object: its JSON as served, and the few parts that the cache indexes.
//!
//! The revision is not known before the writer assigns it, and serialising on the writer's thread
//! would serialise everybody. So a caller makes a [`Draft`]: all of the JSON with a gap where the
//! `resourceVersion` goes. `apiVersion`, `kind` and `metadata` come first, `resourceVersion` first
//! within `metadata`, which makes the gap easy to find again in bytes read from disk.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields;

/// Namespace (empty for cluster-scoped objects) and name, in list order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Name {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

#[derive(Debug)]
pub struct Object {
    pub name: Name,
    pub revision: u64,
    /// The complete object as JSON, `resourceVersion` included.
    pub json: Bytes,
    pub meta: Arc<Meta>,
    gap: usize,
}

/// What the cache knows of an object without parsing its JSON.
#[derive(Debug, Default, PartialEq)]
pub struct Meta {
    pub uid: Box<str>,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the fields that selectors may name; see [`fields::of`].
    pub fields: Box<[(&'static str, Box<str>)]>,
    /// The uids of the owners.
    pub owners: Box<[Box<str>]>,
    /// Whether `deletionTimestamp` is set.
    pub terminating: bool,
}

/// An object on its way to the writer, complete but for its revision.
#[derive(Debug, Clone)]
pub struct Draft {
    head: Vec<u8>,
    tail: Vec<u8>,
    meta: Arc<Meta>,
}

impl Object {
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("the store only holds JSON that it wrote itself")
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta
            .labels
            .iter()
            .find(|(name, _)| &**name == key)
            .map(|(_, value)| &**value)
    }

    pub fn field(&self, path: &str) -> Option<&str> {
        match path {
            "metadata.name" => Some(&self.name.name),
            "metadata.namespace" => Some(&self.name.namespace),
            _ => self
                .meta
                .fields
                .iter()
                .find(|(name, _)| *name == path)
                .map(|(_, value)| &**value),
        }
    }

    /// The same state shown at another revision, as a `DELETED` event shows it.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Self {
        let end = self.gap + decimal_digits(self.revision);
        let json = spliced(&self.json[..self.gap], revision, &self.json[end..]);
        Self {
            name: self.name.clone(),
            revision,
            json,
            meta: Arc::clone(&self.meta),
            gap: self.gap,
        }
    }

    /// The object without a `resourceVersion`, as a dry run shows one that does not exist.
    #[must_use]
    pub(crate) fn without_revision(mut self) -> Self {
        const FIELD: &[u8] = br#""resourceVersion":"0","#;
        if let Some(at) = memchr::memmem::find(&self.json, FIELD) {
            let rest = &self.json[at + FIELD.len()..];
            self.json = [&self.json[..at], rest].concat().into();
        }
        self
    }

    /// Rebuilds an object from a row of the log.
    pub(super) fn from_row(
        resource: &str,
        name: Name,
        revision: u64,
        body: &[u8],
    ) -> Result<Self, String> {
        const MARK: &[u8] = br#""metadata":{"resourceVersion":""#;
        let gap =
            memchr::memmem::find(body, MARK).ok_or("no resourceVersion in the body")? + MARK.len();
        let meta = Meta::parse(resource, body).map_err(|error| error.to_string())?;
        if !body[gap..].starts_with(revision.to_string().as_bytes()) {
            return Err("the body has another revision than its row".to_owned());
        }
        Ok(Self {
            name,
            revision,
            json: Bytes::copy_from_slice(body),
            meta: Arc::new(meta),
            gap,
        })
    }
}

impl Draft {
    /// Serialises `value`, leaving the gap for the revision.
    pub fn new(resource: &str, value: &Value) -> Self {
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        let metadata = object
            .get("metadata")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let mut head = String::with_capacity(256);
        head.push('{');
        for key in ["apiVersion", "kind"] {
            let _ = write!(
                head,
                r#""{key}":{},"#,
                object.get(key).unwrap_or(&Value::Null)
            );
        }
        head.push_str(r#""metadata":{"resourceVersion":""#);
        let mut tail = Vec::with_capacity(1024);
        tail.push(b'"');
        append_members(&mut tail, metadata, &["resourceVersion"]);
        tail.push(b'}');
        append_members(&mut tail, object, &["apiVersion", "kind", "metadata"]);
        tail.push(b'}');
        Self {
            head: head.into_bytes(),
            tail,
            meta: Arc::new(Meta::of(resource, value)),
        }
    }

    /// How many bytes the object takes, but for its revision.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    pub(crate) fn finish(&self, name: Name, revision: u64) -> Object {
        Object {
            name,
            revision,
            json: spliced(&self.head, revision, &self.tail),
            meta: Arc::clone(&self.meta),
            gap: self.head.len(),
        }
    }
}

impl Meta {
    fn of(resource: &str, value: &Value) -> Self {
        let metadata = &value["metadata"];
        let strings = |map: &Value| -> Box<[(Box<str>, Box<str>)]> {
            map.as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
                .collect()
        };
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            labels: strings(&metadata["labels"]),
            fields: fields::of(resource, value),
            owners: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|owner| Some(owner["uid"].as_str()?.into()))
                .collect(),
            terminating: !metadata["deletionTimestamp"].is_null(),
        }
    }

    /// As [`Self::of`], without building a tree where the resource has no indexed fields.
    fn parse(resource: &str, body: &[u8]) -> serde_json::Result<Self> {
        if !fields::paths(resource).is_empty() {
            return Ok(Self::of(resource, &serde_json::from_slice(body)?));
        }
        let head: Head = serde_json::from_slice(body)?;
        Ok(Self::of(
            resource,
            &serde_json::json!({ "metadata": head.metadata.into_value() }),
        ))
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    #[serde(default)]
    uid: Value,
    #[serde(default)]
    labels: Value,
    #[serde(default)]
    owner_references: Value,
    #[serde(default)]
    deletion_timestamp: Value,
}

impl HeadMetadata {
    fn into_value(self) -> Value {
        serde_json::json!({
            "uid": self.uid,
            "labels": self.labels,
            "ownerReferences": self.owner_references,
            "deletionTimestamp": self.deletion_timestamp,
        })
    }
}

fn append_members(out: &mut Vec<u8>, members: &Map<String, Value>, except: &[&str]) {
    for (key, value) in members {
        if except.contains(&key.as_str()) {
            continue;
        }
        out.push(b',');
        serde_json::to_writer(&mut *out, key).expect("writing to memory does not fail");
        out.push(b':');
        serde_json::to_writer(&mut *out, value).expect("writing to memory does not fail");
    }
}

fn spliced(head: &[u8], revision: u64, tail: &[u8]) -> Bytes {
    let revision = revision.to_string();
    let mut json = Vec::with_capacity(head.len() + revision.len() + tail.len());
    json.extend_from_slice(head);
    json.extend_from_slice(revision.as_bytes());
    json.extend_from_slice(tail);
    json.into()
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_the_object_that_was_written() {
        let value = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "labels": { "x": "\"metadata\":{" }, "uid": "u" },
            "spec": { "nodeName": "n" },
        });
        let object = Draft::new("pods", &value).finish(Name::new("default", "a"), 99);
        let again = Object::from_row("pods", object.name.clone(), 99, &object.json).expect("a row");
        assert_eq!(again.meta, object.meta);
        assert_eq!(again.value()["metadata"]["resourceVersion"], "99");
        assert_eq!(
            again.at_revision(100).value()["metadata"]["resourceVersion"],
            "100"
        );
        assert_eq!(
            again.at_revision(100).at_revision(7).value()["spec"],
            value["spec"]
        );
        assert_eq!(again.field("spec.nodeName"), Some("n"));
    }
}
