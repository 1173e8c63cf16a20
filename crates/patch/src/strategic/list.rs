//! Lists in a strategic merge: merged by key, as sets of scalars, or replaced.

use serde_json::Value;

use super::{Error, PATCH, Result, cleaned, is_bare_directive, merge_map};
use crate::keys::{Keys, Strategy};

/// The merge of a list that the patch holds; `order` is what `$setElementOrder` says.
pub(super) fn merge(
    base: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    field: &str,
    keys: &Keys,
) -> Result<Vec<Value>> {
    match keys.strategy() {
        Strategy::Default | Strategy::Replace => Ok(patch
            .iter()
            .filter(|item| !is_bare_directive(item))
            .map(cleaned)
            .collect()),
        Strategy::MergeScalars => {
            let known = base.clone();
            let mut merged = Vec::with_capacity(base.len() + patch.len());
            for item in base.into_iter().chain(patch.iter().cloned()) {
                if !merged.contains(&item) {
                    merged.push(item);
                }
            }
            Ok(ordered(merged, order.unwrap_or(patch), &known, None))
        }
        Strategy::MergeBy(key) => merge_by(base, patch, order, field, key, keys),
    }
}

/// `items` in the order of the module's documentation: those in `order` as it has them, the rest
/// as `known` has them.
pub(super) fn ordered(
    items: Vec<Value>,
    order: &[Value],
    known: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let rank = |list: &[Value], item: &Value| {
        let identity = identity(item, key);
        list.iter()
            .position(|one| self::identity(one, key) == identity)
    };
    let (mut patched, mut others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| rank(order, item).is_some());
    patched.sort_by_key(|item| rank(order, item));
    others.sort_by_key(|item| rank(known, item));

    let mut all = Vec::with_capacity(patched.len() + others.len());
    let mut patched = patched.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let (Some(other), Some(named)) = (others.peek(), patched.peek()) {
        let is_in_front = match (rank(known, other), rank(known, named)) {
            (Some(other), Some(named)) => other < named,
            _ => false,
        };
        all.extend(if is_in_front {
            others.next()
        } else {
            patched.next()
        });
    }
    all.extend(others);
    all.extend(patched);
    all
}

/// The field by which a list's items are told apart, if it merges by one.
pub(super) fn key_of(keys: &Keys) -> Option<&str> {
    match keys.strategy() {
        Strategy::MergeBy(key) => Some(key),
        _ => None,
    }
}

fn identity<'a>(item: &'a Value, key: Option<&str>) -> &'a Value {
    match key {
        Some(key) => item.get(key).unwrap_or(item),
        None => item,
    }
}

fn merge_by(
    base: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    field: &str,
    key: &str,
    keys: &Keys,
) -> Result<Vec<Value>> {
    let known = base.clone();
    let mut merged = base;
    let mut named = Vec::with_capacity(patch.len());
    let is_replaced = patch.iter().any(|item| directive(item) == Some("replace"));
    if is_replaced {
        merged.clear();
    }
    for item in patch {
        if is_bare_directive(item) && directive(item) == Some("replace") {
            continue;
        }
        let Value::Object(map) = item else {
            return Err(Error::NotAMap {
                field: field.to_owned(),
                key: key.to_owned(),
            });
        };
        let value = map.get(key).ok_or_else(|| Error::MissingKey {
            field: field.to_owned(),
            key: key.to_owned(),
        })?;
        let place = merged.iter().position(|one| one.get(key) == Some(value));
        match directive(item) {
            Some("delete") => {
                merged.retain(|one| one.get(key) != Some(value));
                continue;
            }
            None | Some("merge" | "replace") => {}
            Some(other) => {
                return Err(Error::UnknownDirective {
                    value: other.to_owned(),
                });
            }
        }
        let mut map = map.clone();
        map.remove(PATCH);
        let old = match place.map(|place| merged[place].take()) {
            Some(Value::Object(old)) => old,
            _ => serde_json::Map::new(),
        };
        let new = Value::Object(merge_map(old, &map, keys.items())?);
        match place {
            Some(place) => merged[place] = new,
            None => merged.push(new),
        }
        named.push(item.clone());
    }
    if let Some(order) = order {
        check_order(&named, order, field, key)?;
    }
    Ok(ordered(merged, order.unwrap_or(&named), &known, Some(key)))
}

/// A patch and its `$setElementOrder` come from one author and must not contradict each other.
fn check_order(named: &[Value], order: &[Value], field: &str, key: &str) -> Result<()> {
    let mut rest = order.iter();
    for item in named {
        let value = item.get(key);
        if !rest.any(|one| one.get(key) == value) {
            return Err(Error::OutOfOrder {
                field: field.to_owned(),
            });
        }
    }
    Ok(())
}

fn directive(item: &Value) -> Option<&str> {
    item.get(PATCH).and_then(Value::as_str)
}
