//! Objects as a watch brings them: each is read by itself, and only what is read of it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use kube::core::error_boundary::InvalidObject;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or what is known of one that cannot be read, which must not keep the others from being seen.
///
/// What kube's `DeserializeGuard` does, at a third of the cost: that reads everything into a tree of values, copies the
/// tree, and makes the object of the copy. And the managed fields, which are half of an object and which nobody reads,
/// are left out before anything is read.
#[derive(Clone, Debug)]
pub struct Readable<K>(pub Result<K, InvalidObject>);

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = without_managed_fields(raw.get());
        let error = match serde_json::from_str(&text) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let known: PartialObjectMeta<K> = serde_json::from_str(&text).map_err(D::Error::custom)?;
        let metadata = known.metadata;
        Ok(Self(Err(InvalidObject { error, metadata })))
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0
            .as_ref()
            .map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

/// The text of an object without `metadata.managedFields`. Of a text that is no object, the text.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let found = Scan::new(text, 0).member("metadata");
    let found = found.and_then(|(_, value)| Scan::new(text, value.start).member("managedFields"));
    let Some((key, value)) = found else {
        return text.into();
    };
    // One of the two commas around it goes as well, if there is one.
    let (before, after) = (text[..key].trim_end(), text[value.end..].trim_start());
    let kept = match after.strip_prefix(',') {
        Some(after) => [before, after],
        None => [before.strip_suffix(',').unwrap_or(before), after],
    };
    kept.concat().into()
}

/// A look at valid JSON that reads no values.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Where the member's key begins, and where its value is, if an object begins here and has it.
    fn member(mut self, name: &str) -> Option<(usize, std::ops::Range<usize>)> {
        self.take(b'{')?;
        loop {
            self.blank();
            let key = self.at;
            self.string()?;
            // Nobody writes these with escapes; one who does keeps them.
            let is_it = self.text.get(key + 1..self.at - 1) == Some(name);
            self.take(b':')?;
            self.blank();
            let value = self.at;
            self.value()?;
            if is_it {
                return Some((key, value..self.at));
            }
            self.take(b',')?;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.blank();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Passes a string, from one quote to the other.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            let next = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            let skipped = if rest[next] == b'"' { 1 } else { 2 };
            self.at += next + skipped;
            if skipped == 1 {
                return Some(());
            }
        }
    }

    /// Passes a value: however deep it is, by counting.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    if depth == 0 {
                        return Some(());
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::api::{ObjectList, WatchEvent};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_the_managed_fields_of_the_object_itself_are_left_out() {
        let managed = r#"{"metadata":{"managedFields":[{"a":"]}\"},{"}],"name":"x"}}"#;
        for (text, want) in [
            (managed, r#"{"metadata":{"name":"x"}}"#),
            (
                r#"{ "metadata" : { "name" : "x" , "managedFields" : [ ] } , "b" : 1 }"#,
                r#"{"metadata":{"name":"x"},"b":1}"#,
            ),
            (
                r#"{"metadata":{"managedFields":null}}"#,
                r#"{"metadata":{}}"#,
            ),
            // What merely looks like them.
            (
                r#"{"data":{"metadata":{"managedFields":[1]}},"metadata":{"annotations":{"managedFields":"2","a":"\"managedFields\":[3]\\"},"name":"x"}}"#,
                r#"{"data":{"metadata":{"managedFields":[1]}},"metadata":{"annotations":{"managedFields":"2","a":"\"managedFields\":[3]\\"},"name":"x"}}"#,
            ),
            (r#"{"managedFields":[1]}"#, r#"{"managedFields":[1]}"#),
            (r#"{"metadata":[1],"a":2}"#, r#"{"metadata":[1],"a":2}"#),
            ("[1]", "[1]"),
            ("12", "12"),
        ] {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(
                read(&without_managed_fields(text)),
                read(want),
                "{text} becomes {}",
                without_managed_fields(text)
            );
        }
    }

    #[test]
    fn what_is_no_json_is_passed_on_as_it_is() {
        for text in [
            "",
            "{",
            r#"{"metadata"#,
            r#"{"metadata":{"managedFields":["#,
            r#"{"\"#,
        ] {
            assert_eq!(without_managed_fields(text), text);
        }
    }

    #[test]
    fn events_and_lists_are_read_and_one_that_cannot_be_keeps_its_name() {
        let good = json!({
            "metadata": { "name": "a", "managedFields": [{ "manager": "m", "fieldsV1": { "f:data": {} } }] },
            "data": { "k": "v" },
        });
        let bad = json!({ "metadata": { "name": "b", "resourceVersion": "7" }, "data": "none" });
        let event = format!(r#"{{"type":"MODIFIED","object":{good}}}"#);
        let WatchEvent::Modified(Readable(Ok(map))) =
            serde_json::from_str::<WatchEvent<Readable<ConfigMap>>>(&event).unwrap()
        else {
            panic!("it is a ConfigMap that was modified");
        };
        assert_eq!(map.data.unwrap()["k"], "v");
        assert_eq!(map.metadata.managed_fields, None);
        let list =
            json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [good, bad] });
        let list: ObjectList<Readable<ConfigMap>> =
            serde_json::from_str(&list.to_string()).unwrap();
        let [Readable(Ok(_)), other] = &list.items[..] else {
            panic!("the first can be read");
        };
        assert_eq!(other.meta().name.as_deref(), Some("b"));
        assert_eq!(other.meta().resource_version.as_deref(), Some("7"));
        assert!(other.0.is_err());
    }

    #[test]
    fn an_object_is_read_as_before() {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","managedFields":[{"manager":"m"}],"uid":"u"},
            "spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}"#;
        let Readable(read) = serde_json::from_str::<Readable<Pod>>(text).unwrap();
        let mut want: Pod = serde_json::from_str(text).unwrap();
        want.metadata.managed_fields = None;
        assert_eq!(read.unwrap(), want);
    }
}
