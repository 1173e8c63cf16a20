//! Between the stored form of an object and the version in which it is asked for.
//!
//! Versions of a custom kind differ in `apiVersion` only (strategy None). The two event kinds
//! differ in field names.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::registry::Kind;
use crate::kinds::strategy::StoredAs;
use crate::store::{Draft, Object};

/// The bytes to send for an object: the stored ones unless the version differs.
pub(crate) fn rendered(kind: &Kind, object: &Object) -> Bytes {
    if kind.api_version == kind.storage_api_version && !may_lack_defaults(kind, object) {
        return object.json.clone();
    }
    let value = view(kind, object);
    Draft::new(&kind.resource, &value)
        .finish(object.name.clone(), object.revision)
        .json
}

/// The tree of an object in the version of `kind`, with the defaults that its definition has now.
pub(crate) fn view(kind: &Kind, object: &Object) -> Value {
    let mut value = from_storage(kind, object.value());
    if let Some(custom) = &kind.custom
        && may_lack_defaults(kind, object)
    {
        custom.structural().default(&mut value);
    }
    value
}

/// Whether the object was written before its definition was last changed. What was written since has all defaults.
fn may_lack_defaults(kind: &Kind, object: &Object) -> bool {
    let custom = kind.custom.as_ref();
    custom.is_some_and(|custom| {
        object.revision < custom.revision() && custom.structural().root().has_defaults
    })
}

fn from_storage(kind: &Kind, mut value: Value) -> Value {
    if kind.api_version != kind.storage_api_version {
        value["apiVersion"] = kind.api_version.as_str().into();
        if let Some(other) = kind.strategy.stored_as {
            rename(&mut value, other.fields.iter().copied());
        }
    }
    value
}

pub(crate) fn to_storage(kind: &Kind, mut value: Value) -> Value {
    if kind.api_version != kind.storage_api_version {
        value["apiVersion"] = kind.storage_api_version.as_str().into();
        if let Some(other) = kind.strategy.stored_as {
            let fields = other.fields.iter();
            rename(&mut value, fields.map(|(stored, shown)| (*shown, *stored)));
            default_event_times(&mut value);
        }
    }
    value
}

/// The two event kinds are two views of the same objects.
pub(crate) static EVENTS: StoredAs = StoredAs {
    resource: "events",
    api_version: "v1",
    fields: &[
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("reportingComponent", "reportingController"),
    ],
};

/// What storage calls the field that a selector of this kind names; `None` if the kind has no such field.
pub(crate) fn stored_path<'a>(kind: &Kind, path: &'a str) -> Option<Cow<'a, str>> {
    let Some(other) = kind.strategy.stored_as else {
        return Some(Cow::Borrowed(path));
    };
    let (first, rest) = path.split_at(path.find('.').unwrap_or(path.len()));
    if let Some((stored, _)) = other.fields.iter().find(|(_, shown)| *shown == first) {
        return Some(Cow::Owned(format!("{stored}{rest}")));
    }
    let is_renamed = other.fields.iter().any(|(stored, _)| *stored == first);
    (!is_renamed).then_some(Cow::Borrowed(path))
}

fn rename<'a>(value: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(object) = value.as_object_mut() else {
        return;
    };
    let renamed: Map<_, _> = names
        .filter_map(|(from, to)| Some((to.to_owned(), object.remove(from)?)))
        .collect();
    object.extend(renamed);
}

/// Readers of core events look at `firstTimestamp`; writers of the new kind only set `eventTime`.
fn default_event_times(value: &mut Value) {
    let Some(time) = value["eventTime"].as_str() else {
        return;
    };
    let seconds = match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    };
    for field in ["firstTimestamp", "lastTimestamp"] {
        if value[field].is_null() {
            value[field] = seconds.as_str().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::registry::Registry;

    #[test]
    fn an_event_reads_the_same_through_both_kinds() {
        let registry = Registry::new(&[]);
        let kind = registry
            .find("events.k8s.io", "v1", "events")
            .expect("a built-in kind");
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello",
            "eventTime": "2026-01-02T03:04:05.123456Z",
            "regarding": { "kind": "Pod", "name": "p" }, "reportingController": "me",
        });
        let stored = to_storage(&kind, event.clone());
        assert_eq!(stored["involvedObject"]["name"], "p");
        assert_eq!(stored["message"], "hello");
        assert_eq!(stored["firstTimestamp"], "2026-01-02T03:04:05Z");
        let mut back = from_storage(&kind, stored);
        let back = back.as_object_mut().expect("an object");
        back.retain(|key, _| !key.starts_with("deprecated"));
        assert_eq!(Value::Object(back.clone()), event);
    }
}
