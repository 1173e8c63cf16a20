//! Checking a value against a schema, in Kubernetes' words.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::node::{Checks, Kind, List, Node};
use super::{FieldError, Path, Reason};
use crate::kinds::cel;

/// With `held`, the rules of the root are known to have held for the old object.
pub(super) fn object(
    root: &Node,
    object: &Value,
    old: Option<&Value>,
    held: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(root, object, old, Path::ROOT, &mut errors);
    if !root.has_rules {
        return errors;
    }
    let blocks = |error: &FieldError| {
        matches!(
            error.reason,
            Reason::Required | Reason::TypeInvalid | Reason::TooLong | Reason::TooMany
        )
    };
    if errors.iter().any(blocks) {
        errors.push(FieldError::invalid(
            "",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        ));
    } else {
        cel::budget::renew();
        let at = At {
            path: Path::ROOT,
            is_root: true,
            held,
        };
        rules(root, object, old, at, &mut errors);
    }
    errors
}

fn visit(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && node.nullable {
        return;
    }
    if !has_kind(node.kind, value) {
        errors.push(wrong_type(node.kind.as_str(), type_of(value), path));
        return;
    }
    if let Some(checks) = &node.checks {
        check(checks, value, path, errors);
    }
    match value {
        Value::Array(list) => {
            unique(&node.list, list, path, errors);
            if let Some(items) = &node.items {
                for (index, item) in list.iter().enumerate() {
                    let old = correlated(&node.list, item, old);
                    visit(items, item, old, path.index(index), errors);
                }
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                let property = node.properties.get(name.as_str());
                if let Some(child) = property.or(node.items.as_ref()) {
                    let old = old.and_then(|old| old.get(name));
                    visit(child, value, old, path.field(name), errors);
                }
            }
        }
        _ => {}
    }
}

/// The item of the old list that is the same as `item` by the list's keys. Other lists have no
/// such thing.
fn correlated<'a>(list: &List, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let List::Map(keys) = list else { return None };
    let same = |one: &&Value| keys.iter().all(|key| one.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

/// Where in an object rules are checked.
#[derive(Clone, Copy)]
struct At<'a> {
    path: Path<'a>,
    is_root: bool,
    /// They held for the old value.
    held: bool,
}

impl<'a> At<'a> {
    /// Below the root a value may have been let be that was wrong before.
    fn below(path: Path<'a>) -> Self {
        Self {
            path,
            is_root: false,
            held: false,
        }
    }
}

fn rules(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    at: At<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = at.path;
    let is_unchanged = old == Some(value);
    if !node.has_rules || (is_unchanged && !node.has_transitions) || value.is_null() {
        return;
    }
    for rule in &node.rules {
        if is_unchanged && !rule.may_fail_unchanged() {
            continue;
        }
        if at.held && old.is_some_and(|old| rule.sees_the_same(value, old)) {
            continue;
        }
        let Some(failure) = rule.check(value, old, node, at.is_root) else {
            continue;
        };
        let field = match failure.field_path {
            Some(below) => path.field(below).to_string(),
            None => path.to_string(),
        };
        let shown = Value::from(failure.kind);
        errors.push(match failure.reason {
            Reason::Required => FieldError::required(field, &failure.detail),
            Reason::Forbidden => FieldError::forbidden(field, &failure.detail),
            Reason::Duplicate => FieldError::duplicate(field, &shown),
            _ => FieldError::invalid(field, &shown, &failure.detail),
        });
    }
    match value {
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, item) in list.iter().enumerate() {
                    let old = correlated(&node.list, item, old);
                    rules(items, item, old, At::below(path.index(index)), errors);
                }
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                let old = old.and_then(|old| old.get(name));
                if let Some(child) = node.properties.get(name.as_str()) {
                    rules(child, value, old, At::below(path.field(name)), errors);
                } else if let Some(child) = &node.items {
                    rules(child, value, old, At::below(path.key(name)), errors);
                }
            }
        }
        _ => {}
    }
}

fn has_kind(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String | Kind::Quantity => value.is_string(),
        Kind::Boolean => value.is_boolean(),
        Kind::Number => value.is_number(),
        Kind::Integer => is_integer(value),
        Kind::IntOrString => value.is_string() || is_integer(value),
    }
}

/// JSON does not tell `2` from `2.0`.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(want: &str, got: &str, path: Path<'_>) -> FieldError {
    let place = place(path);
    let detail = format!("{place} in body must be of type {want}: {got:?}");
    FieldError::type_invalid(path.to_string(), &Value::from(got), &detail)
}

/// The name of a value inside a message; the root has none.
fn place(path: Path<'_>) -> String {
    let place = path.to_string();
    if place.is_empty() {
        "\"\"".to_owned()
    } else {
        place
    }
}

fn check(checks: &Checks, value: &Value, path: Path<'_>, errors: &mut Vec<FieldError>) {
    let mut refuse = |value: &Value, detail: &str| {
        let detail = format!("{} in body {detail}", place(path));
        errors.push(FieldError::invalid(path.to_string(), value, &detail));
    };
    match value {
        Value::String(text) => {
            let length = || text.chars().count() as u64;
            if let Some(min) = checks.min_length.filter(|min| length() < *min) {
                refuse(value, &format!("should be at least {min} chars long"));
            }
            if let Some(pattern) = checks.pattern.as_ref().filter(|one| !one.is_match(text)) {
                refuse(value, &format!("should match '{}'", pattern.as_str()));
            }
            if let Some(max) = checks.max_length.filter(|max| length() > *max) {
                let max = usize::try_from(max).unwrap_or(usize::MAX);
                errors.push(FieldError::too_long(path.to_string(), max));
            }
            if let Some(format) = checks.format.filter(|format| !format.accepts(text)) {
                let detail = format!(
                    "{} in body must be of type {}: {text:?}",
                    place(path),
                    format.as_str()
                );
                errors.push(FieldError::type_invalid(path.to_string(), value, &detail));
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if let Some(bound) = checks.minimum {
                let is_less = number < bound.value || (bound.exclusive && number <= bound.value);
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                if is_less {
                    refuse(
                        value,
                        &format!("should be greater than{or_equal} {}", bound.value),
                    );
                }
            }
            if let Some(bound) = checks.maximum {
                let is_more = number > bound.value || (bound.exclusive && number >= bound.value);
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                if is_more {
                    refuse(
                        value,
                        &format!("should be less than{or_equal} {}", bound.value),
                    );
                }
            }
            if let Some(factor) = checks
                .multiple_of
                .filter(|one| *one > 0.0 && (number / one).fract() != 0.0)
            {
                refuse(value, &format!("should be a multiple of {factor}"));
            }
        }
        Value::Array(list) => {
            let length = list.len() as u64;
            if let Some(min) = checks.min_items.filter(|min| length < *min) {
                refuse(
                    &Value::from(length),
                    &format!("should have at least {min} items"),
                );
            }
            if checks.unique_items && !repeats(list).is_empty() {
                refuse(value, "shouldn't contain duplicates");
            }
            if let Some(max) = checks.max_items.filter(|max| length > *max) {
                let max = usize::try_from(max).unwrap_or(usize::MAX);
                errors.push(FieldError::too_many(path.to_string(), list.len(), max));
            }
        }
        Value::Object(map) => check_map(checks, map, path, errors),
        Value::Null | Value::Bool(_) => {}
    }
    if !checks.choices.is_empty() && !checks.choices.contains(value) {
        let choices: Vec<_> = checks
            .choices
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
            .collect();
        let choices = choices.iter().map(String::as_str);
        errors.push(FieldError::not_supported(path.to_string(), value, choices));
    }
    combine(checks, value, path, errors);
}

fn check_map(
    checks: &Checks,
    map: &Map<String, Value>,
    path: Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for name in &checks.required {
        if !map.contains_key(name) {
            errors.push(FieldError::required(path.field(name).to_string(), ""));
        }
    }
    let length = map.len() as u64;
    if let Some(min) = checks.min_properties.filter(|min| length < *min) {
        let detail = format!(
            "{} in body should have at least {min} properties",
            place(path)
        );
        errors.push(FieldError::invalid(
            path.to_string(),
            &Value::from(length),
            &detail,
        ));
    }
    if let Some(max) = checks.max_properties.filter(|max| length > *max) {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        errors.push(FieldError::too_many(path.to_string(), map.len(), max));
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn combine(checks: &Checks, value: &Value, path: Path<'_>, errors: &mut Vec<FieldError>) {
    let holds = |node: &Node| {
        let mut found = Vec::new();
        visit(node, value, None, path, &mut found);
        found.is_empty()
    };
    let mut refuse = |detail: &str| {
        let detail = format!("{:?} {detail}", path.to_string());
        errors.push(FieldError::invalid("", &Value::from(""), &detail));
    };
    if !checks.any_of.is_empty() && !checks.any_of.iter().any(holds) {
        refuse("must validate at least one schema (anyOf)");
    }
    if !checks.one_of.is_empty() {
        match checks.one_of.iter().filter(|node| holds(node)).count() {
            1 => {}
            0 => refuse("must validate one and only one schema (oneOf). Found none valid"),
            many => refuse(&format!(
                "must validate one and only one schema (oneOf). Found {many} valid alternatives"
            )),
        }
    }
    if checks.not.as_ref().is_some_and(holds) {
        refuse("must not validate the schema (not)");
    }
    for node in &checks.all_of {
        visit(node, value, None, path, errors);
    }
}

fn unique(list: &List, items: &[Value], path: Path<'_>, errors: &mut Vec<FieldError>) {
    let identities: Vec<Value> = match list {
        List::Atomic => return,
        List::Set => items.to_vec(),
        List::Map(keys) => items
            .iter()
            .map(|item| {
                let keys = keys.iter();
                keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                    .collect()
            })
            .collect(),
    };
    for index in repeats(&identities) {
        errors.push(FieldError::duplicate(
            path.index(index).to_string(),
            &identities[index],
        ));
    }
}

/// The places of items that stand in the list before. Hashing pays for long lists only, which
/// are also the ones that somebody might send to keep the server busy.
fn repeats(items: &[Value]) -> Vec<usize> {
    if items.len() <= 16 {
        let is_repeat = |index: &usize| items[..*index].contains(&items[*index]);
        return (0..items.len()).filter(is_repeat).collect();
    }
    let mut seen = HashSet::with_capacity(items.len());
    (0..items.len())
        .filter(|index| !seen.insert(items[*index].to_string()))
        .collect()
}
