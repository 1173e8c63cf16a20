//! What changed between two states of an object, as sets of fields.

use serde_json::{Map, Value};

use super::{Set, item_element};
use crate::keys::{Keys, List};

/// Fields that changed. Where a whole subtree came or went, all its paths are in the set, those
/// of maps and lists too.
#[derive(Debug, Default)]
pub struct Changes {
    /// Added or given another value.
    pub written: Set,
    pub removed: Set,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }
}

/// The changes from `old` to `new`. Only what differs is looked at.
pub fn compare(old: &Value, new: &Value, keys: &Keys) -> Changes {
    let mut changes = Changes::default();
    visit(old, new, keys, &mut changes.written, &mut changes.removed);
    changes
}

fn visit(old: &Value, new: &Value, keys: &Keys, written: &mut Set, removed: &mut Set) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !keys.is_atomic() => {
            maps(old, new, keys, written, removed);
        }
        (Value::Array(old), Value::Array(new)) if *keys.list() != List::Atomic => {
            match (by_element(old, keys), by_element(new, keys)) {
                (Some(old), Some(new)) => lists(&old, &new, keys, written, removed),
                _ => written.is_member = true,
            }
        }
        _ => written.is_member = true,
    }
}

fn maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    keys: &Keys,
    written: &mut Set,
    removed: &mut Set,
) {
    for (name, new) in new {
        let old = old.get(name);
        child(
            &format!("f:{name}"),
            old,
            Some(new),
            keys.field(name),
            written,
            removed,
        );
    }
    for (name, old) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        child(
            &format!("f:{name}"),
            Some(old),
            None,
            keys.field(name),
            written,
            removed,
        );
    }
}

fn lists(
    old: &[(String, &Value)],
    new: &[(String, &Value)],
    keys: &Keys,
    written: &mut Set,
    removed: &mut Set,
) {
    let find = |list: &[(String, &Value)], element: &str| {
        list.binary_search_by(|(one, _)| one.as_str().cmp(element))
            .ok()
    };
    for (element, value) in new {
        let old = find(old, element).map(|index| old[index].1);
        child(element, old, Some(value), keys.items(), written, removed);
    }
    for (element, value) in old {
        if find(new, element).is_none() {
            child(element, Some(value), None, keys.items(), written, removed);
        }
    }
}

fn child(
    element: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    keys: &Keys,
    written: &mut Set,
    removed: &mut Set,
) {
    match (old, new) {
        (Some(old), Some(new)) => {
            if old == new {
                return;
            }
            let (mut written_below, mut removed_below) = (Set::default(), Set::default());
            visit(old, new, keys, &mut written_below, &mut removed_below);
            if !written_below.is_empty() {
                written.children.insert(element.to_owned(), written_below);
            }
            if !removed_below.is_empty() {
                removed.children.insert(element.to_owned(), removed_below);
            }
        }
        (None, Some(new)) => {
            written
                .children
                .insert(element.to_owned(), everything(new, keys));
        }
        (Some(old), None) => {
            removed
                .children
                .insert(element.to_owned(), everything(old, keys));
        }
        (None, None) => {}
    }
}

/// Every path of a subtree, its own included.
fn everything(value: &Value, keys: &Keys) -> Set {
    let mut set = Set::leaf();
    match value {
        Value::Object(map) if !keys.is_atomic() => {
            for (name, value) in map {
                set.children
                    .insert(format!("f:{name}"), everything(value, keys.field(name)));
            }
        }
        Value::Array(list) if *keys.list() != List::Atomic => {
            for (element, value) in by_element(list, keys).into_iter().flatten() {
                set.children
                    .insert(element, everything(value, keys.items()));
            }
        }
        _ => {}
    }
    set
}

/// The items with their elements, sorted; `None` if one has none, or two have the same, so that
/// the list can only be seen as a whole.
fn by_element<'a>(list: &'a [Value], keys: &Keys) -> Option<Vec<(String, &'a Value)>> {
    let mut items = list
        .iter()
        .map(|item| Some((item_element(item, keys)?, item)))
        .collect::<Option<Vec<_>>>()?;
    items.sort_by(|left, right| left.0.cmp(&right.0));
    let is_unique = items.windows(2).all(|pair| pair[0].0 != pair[1].0);
    is_unique.then_some(items)
}
