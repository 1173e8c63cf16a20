//! Lists in a strategic merge: merged by key, as sets of scalars, or replaced.

use std::collections::{HashMap, HashSet};

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
            let mut seen = HashSet::new();
            for item in base.into_iter().chain(patch.iter().cloned()) {
                if seen.insert(item.to_string()) {
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
    // Lists come from clients and may be long, so places are looked up, not searched.
    let (order, known) = (ranks(order, key), ranks(known, key));
    let (mut patched, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let identity = identity(&item, key);
        let place = known.get(&identity).copied();
        match order.get(&identity) {
            Some(rank) => patched.push((*rank, place, item)),
            None => others.push((place, item)),
        }
    }
    patched.sort_by_key(|(rank, _, _)| *rank);
    others.sort_by_key(|(place, _)| *place);

    let mut all = Vec::with_capacity(patched.len() + others.len());
    let mut patched = patched.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let (Some((other, _)), Some((_, named, _))) = (others.peek(), patched.peek()) {
        let is_in_front = match (other, named) {
            (Some(other), Some(named)) => other < named,
            _ => false,
        };
        if is_in_front {
            all.extend(others.next().map(|(_, item)| item));
        } else {
            all.extend(patched.next().map(|(_, _, item)| item));
        }
    }
    all.extend(others.map(|(_, item)| item));
    all.extend(patched.map(|(_, _, item)| item));
    all
}

/// The first place of each item in a list.
fn ranks(list: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut ranks = HashMap::with_capacity(list.len());
    for (rank, item) in list.iter().enumerate() {
        ranks.entry(identity(item, key)).or_insert(rank);
    }
    ranks
}

/// The field by which a list's items are told apart, if it merges by one.
pub(super) fn key_of(keys: &Keys) -> Option<&str> {
    match keys.strategy() {
        Strategy::MergeBy(key) => Some(key),
        _ => None,
    }
}

/// What an item is known by: its key, or itself.
fn identity(item: &Value, key: Option<&str>) -> String {
    match key {
        Some(key) => item.get(key).unwrap_or(item).to_string(),
        None => item.to_string(),
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
    let is_replaced = patch.iter().any(|item| directive(item) == Some("replace"));
    let mut merged: Vec<Option<Value>> = if is_replaced {
        Vec::new()
    } else {
        base.into_iter().map(Some).collect()
    };
    let mut places: HashMap<String, Vec<usize>> = HashMap::with_capacity(merged.len());
    for (place, item) in merged.iter().enumerate() {
        if let Some(value) = item.as_ref().and_then(|item| item.get(key)) {
            places.entry(value.to_string()).or_default().push(place);
        }
    }
    let mut named = Vec::with_capacity(patch.len());
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
        match directive(item) {
            Some("delete") => {
                for place in places.remove(&value.to_string()).into_iter().flatten() {
                    merged[place] = None;
                }
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
        let found = places.entry(value.to_string()).or_default();
        let place = *found.first().unwrap_or(&merged.len());
        if found.is_empty() {
            found.push(place);
            merged.push(None);
        }
        let old = match merged[place].take() {
            Some(Value::Object(old)) => old,
            _ => serde_json::Map::new(),
        };
        merged[place] = Some(Value::Object(merge_map(old, &map, keys.items())?));
        named.push(item.clone());
    }
    let merged = merged.into_iter().flatten().collect();
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
