//! Merging an applied configuration into the live object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::fields::item_element;
use crate::keys::{Keys, List};

/// `live` with everything that `applied` states.
pub(super) fn merge(live: &Value, applied: &Value, keys: &Keys) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !keys.is_atomic() => {
            let mut merged: Map<String, Value> = live.clone();
            for (name, value) in applied {
                let value = match live.get(name) {
                    Some(live) => merge(live, value, keys.field(name)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(applied)) if *keys.list() != List::Atomic => {
            Value::Array(lists(live, applied, keys))
        }
        _ => applied.clone(),
    }
}

/// Applied items stand in their own order; live ones that are not applied stay behind the item
/// that they stood behind.
fn lists(live: &[Value], applied: &[Value], keys: &Keys) -> Vec<Value> {
    let elements = |list: &[Value]| -> Vec<Option<String>> {
        list.iter().map(|item| item_element(item, keys)).collect()
    };
    let (live_elements, applied_elements) = (elements(live), elements(applied));
    let is_applied: HashSet<_> = applied_elements.iter().collect();
    let mut places = HashMap::with_capacity(live.len());
    for (place, element) in live_elements.iter().enumerate() {
        places.entry(element).or_insert(place);
    }
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let mut next_live = 0;
    for (item, element) in applied.iter().zip(&applied_elements) {
        let found = element.as_ref().and_then(|_| places.get(element).copied());
        if let Some(found) = found {
            for index in next_live..found {
                if !is_applied.contains(&live_elements[index]) {
                    merged.push(live[index].clone());
                }
            }
            next_live = next_live.max(found + 1);
            merged.push(merge(&live[found], item, keys.items()));
        } else {
            merged.push(item.clone());
        }
    }
    for index in next_live..live.len() {
        if !is_applied.contains(&live_elements[index]) {
            merged.push(live[index].clone());
        }
    }
    merged
}
