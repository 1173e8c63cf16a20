//! Reading and stamping `metadata`.

use rand::RngExt as _;
use serde_json::{Map, Value};

use crate::kinds::schema::FieldError;
use crate::kinds::strategy::Names;

/// Kubernetes leaves out the characters that make words or look alike.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const MAX_NAME: usize = 253;

/// `metadata` as a map, made if absent.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    section(object, "metadata")
}

/// A map inside an object, made if absent.
pub(crate) fn section<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object[name].is_object() {
        object[name] = Value::Object(Map::new());
    }
    object[name]
        .as_object_mut()
        .expect("it was just made a map")
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Counts a change of what the user asked for.
pub(crate) fn next_generation(old: &Value, new: &mut Value) {
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    new["metadata"]["generation"] = generation.saturating_add(1).into();
}

/// A name from `generateName`: the prefix, cut to leave room, and five random characters.
pub(crate) fn generated_name(prefix: &str) -> String {
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut rng = rand::rng();
    let suffix = (0..5).map(|_| char::from(SUFFIX[rng.random_range(0..SUFFIX.len())]));
    prefix[..end].chars().chain(suffix).collect()
}

/// A UUID of version 7: its text sorts by the moment it was made. Creation timestamps have seconds only, so this is what
/// tells which of two objects was there first.
pub(crate) fn new_uid() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Kubernetes' time stamps have seconds only.
pub(crate) fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What of `metadata` is not of its type. Null is the same as absent.
pub(crate) fn check_types(metadata: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |at: String, value: &Value, wanted: &str| {
        let fits = match wanted {
            "string" => value.is_string(),
            "integer" => value.is_i64(),
            "array" => value.is_array(),
            _ => value.is_object(),
        };
        if !fits && !value.is_null() {
            let detail = format!("must be of type {wanted}");
            errors.push(FieldError::type_invalid(at, value, &detail));
        }
    };
    check("metadata".to_owned(), metadata, "object");
    for (field, value) in metadata.as_object().into_iter().flatten() {
        let at = format!("metadata.{field}");
        let items = match field.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink"
            | "creationTimestamp" | "deletionTimestamp" => {
                check(at, value, "string");
                continue;
            }
            "generation" | "deletionGracePeriodSeconds" => {
                check(at, value, "integer");
                continue;
            }
            "labels" | "annotations" => {
                check(at, value, "object");
                continue;
            }
            "finalizers" => "string",
            "ownerReferences" | "managedFields" => "object",
            _ => continue,
        };
        check(at.clone(), value, "array");
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            check(format!("{at}[{index}]"), item, items);
        }
    }
    errors
}

/// What is wrong with the parts of `metadata` that all kinds share. Names never change, and are looked at once.
pub(crate) fn validate(object: &Value, old: Option<&Value>, names: Names) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(problem) = name_problem(name, names).filter(|_| old.is_none()) {
        errors.push(FieldError::invalid(
            "metadata.name",
            &metadata["name"],
            problem,
        ));
    }
    for (field, is_label) in [("labels", true), ("annotations", false)] {
        for (key, value) in metadata[field].as_object().into_iter().flatten() {
            if let Some(problem) = key_problem(key) {
                let at = format!("metadata.{field}");
                errors.push(FieldError::invalid(at, &key.as_str().into(), problem));
            }
            match value.as_str() {
                Some(text) if is_label && !is_label_value(text) => {
                    let at = format!("metadata.{field}");
                    errors.push(FieldError::invalid(at, value, LABEL_VALUE));
                }
                Some(_) => {}
                None => {
                    let at = format!("metadata.{field}.{key}");
                    errors.push(FieldError::type_invalid(
                        at,
                        value,
                        "must be of type string",
                    ));
                }
            }
        }
    }
    let annotations: usize = metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if annotations > 256 << 10 {
        errors.push(FieldError::too_long("metadata.annotations", 256 << 10));
    }
    for (index, owner) in metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        for (field, value) in owner.as_object().into_iter().flatten() {
            let is_flag = ["controller", "blockOwnerDeletion"].contains(&field.as_str());
            let fits = if is_flag {
                value.is_boolean()
            } else {
                value.is_string()
            };
            if !fits && !value.is_null() {
                let at = format!("metadata.ownerReferences[{index}].{field}");
                let wanted = if is_flag { "boolean" } else { "string" };
                let detail = format!("must be of type {wanted}");
                errors.push(FieldError::type_invalid(at, value, &detail));
            }
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let at = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::required(at, "must not be empty"));
            }
        }
    }
    let owners = &metadata["ownerReferences"];
    let controllers = owners.as_array().into_iter().flatten();
    let controllers = controllers.filter(|owner| owner["controller"] == true);
    let is_new = old.is_none_or(|old| old["metadata"]["ownerReferences"] != *owners);
    if is_new && controllers.count() > 1 {
        let detail = "Only one reference can have Controller set to true";
        let at = "metadata.ownerReferences";
        errors.push(FieldError::invalid(at, owners, detail));
    }
    for (index, finalizer) in metadata["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let text = finalizer.as_str().unwrap_or_default();
        if key_problem(text).is_some() {
            let at = format!("metadata.finalizers[{index}]");
            errors.push(FieldError::invalid(
                at,
                finalizer,
                "must be a qualified name",
            ));
        }
    }
    errors
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const HOST: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
pub(crate) const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with the name of an object.
pub(crate) fn name_problem(name: &str, names: Names) -> Option<&'static str> {
    let is_label = |text: &str| {
        let bytes = text.as_bytes();
        let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(edge)
            && bytes.last().is_some_and(edge)
            && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
    };
    let is_host = |text: &str| is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    match names {
        Names::Labels | Names::Hosts if name.len() > 63 => {
            Some("must be no more than 63 characters")
        }
        _ if name.len() > MAX_NAME => Some("must be no more than 253 characters"),
        Names::Labels => (!is_label(name)).then_some(LABEL),
        Names::Hosts => (!is_host(name)).then_some(HOST),
        Names::Subdomains => (!name.split('.').all(is_label)).then_some(SUBDOMAIN),
        Names::Segments if name == "." => Some("may not be '.'"),
        Names::Segments if name == ".." => Some("may not be '..'"),
        Names::Segments if name.contains('/') => Some("may not contain '/'"),
        Names::Segments if name.contains('%') => Some("may not contain '%'"),
        Names::Segments => name
            .contains(char::is_control)
            .then_some("may not contain control characters"),
    }
}

/// What is wrong with a label or annotation key.
pub(crate) fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| {
        name_problem(&prefix.to_ascii_lowercase(), Names::Subdomains).is_some()
    }) {
        return Some(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        );
    }
    match name.len() {
        0 => Some("name part must be non-empty"),
        64.. => Some("name part must be no more than 63 characters"),
        _ if is_label_value(name) => None,
        _ => Some(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    }
}

pub(crate) fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_names_keep_their_prefix_and_fit() {
        let name = generated_name("job-");
        assert!(name.starts_with("job-") && name.len() == 9);
        assert_eq!(generated_name(&"x".repeat(200)).len(), 63);
    }

    #[test]
    fn uids_are_uuids_in_the_order_in_which_they_were_made() {
        let uids: Vec<_> = (0..10_000).map(|_| new_uid()).collect();
        assert!(uids.is_sorted_by(|one, next| one < next));
        for uid in uids {
            let variant = &uid[19..20];
            assert_eq!((uid.len(), &uid[14..15]), (36, "7"));
            assert!(["8", "9", "a", "b"].contains(&variant), "{uid}");
        }
    }

    #[rstest]
    #[case::fine(json!({ "name": "a.b-c", "labels": { "x.io/y": "Z_1" } }), &[])]
    #[case::no_name(json!({}), &["metadata.name"])]
    #[case::upper(json!({ "name": "A" }), &["metadata.name"])]
    #[case::label(json!({ "name": "a", "labels": { "x": "-" } }), &["metadata.labels"])]
    #[case::key(json!({ "name": "a", "annotations": { "x y": "" } }), &["metadata.annotations"])]
    #[case::number(json!({ "name": "a", "labels": { "x": 1 } }), &["metadata.labels.x"])]
    #[case::owner(
        json!({ "name": "a", "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "y" }] }),
        &["metadata.ownerReferences[0].uid"]
    )]
    #[case::controllers(
        json!({ "name": "a", "ownerReferences": [
            { "apiVersion": "v1", "kind": "X", "name": "y", "uid": "1", "controller": true },
            { "apiVersion": "v1", "kind": "X", "name": "z", "uid": "2", "controller": true },
        ] }),
        &["metadata.ownerReferences"]
    )]
    fn names_what_is_wrong(#[case] metadata: Value, #[case] want: &[&str]) {
        let errors = validate(&json!({ "metadata": metadata }), None, Names::Subdomains);
        assert_eq!(
            errors
                .iter()
                .map(|error| error.field.as_str())
                .collect::<Vec<_>>(),
            want
        );
    }

    #[rstest]
    #[case(Names::Subdomains, &["a.b-c", "1", "1.2"], &["", "A", "a:b", "a..b", "-a", "a_b"])]
    #[case(Names::Labels, &["a", "1-a"], &["a.b", "a-"])]
    #[case(Names::Hosts, &["a", "a-1"], &["1-a", "a.b", "a-"])]
    #[case(Names::Segments, &["a", "system:node:x", "Admins", "a b", "..."], &[".", "..", "a/b", "a%b", "a\0b", "a\nb"])]
    fn names_are_what_their_kind_allows(
        #[case] names: Names,
        #[case] good: &[&str],
        #[case] bad: &[&str],
    ) {
        for name in good {
            assert_eq!(name_problem(name, names), None, "{name}");
        }
        for name in bad {
            assert!(name_problem(name, names).is_some(), "{name:?}");
        }
        let longest = if matches!(names, Names::Labels | Names::Hosts) {
            63
        } else {
            253
        };
        assert_eq!(name_problem(&"a".repeat(longest), names), None);
        assert!(name_problem(&"a".repeat(longest + 1), names).is_some());
    }
}
