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

/// Applied items stand in their own order. Live ones that are not applied keep their place among the live ones, and
/// stand before whatever is applied at the same place: `[A, B]` with `[C]` applied is `[A, B, C]`.
fn lists(live: &[Value], applied: &[Value], keys: &Keys) -> Vec<Value> {
    let elements = |list: &[Value]| -> Vec<Option<String>> {
        list.iter().map(|item| item_element(item, keys)).collect()
    };
    let (live_elements, applied_elements) = (elements(live), elements(applied));
    let is_applied: HashSet<_> = applied_elements.iter().flatten().collect();
    let mut places = HashMap::with_capacity(live.len());
    for (place, element) in live_elements.iter().enumerate() {
        if let Some(element) = element {
            places.entry(element).or_insert(place);
        }
    }
    // What both have, in the order in which it is applied; the next of them is what live items are taken up to.
    let shared = applied_elements.iter().flatten();
    let mut shared = shared.filter(|one| places.contains_key(one)).peekable();
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().zip(&live_elements).peekable();
    for (item, element) in applied.iter().zip(&applied_elements) {
        while let Some((kept, place)) = rest.peek() {
            match place {
                Some(place) if is_applied.contains(place) => {
                    if shared.peek() == Some(&place) {
                        break;
                    }
                    // It stands where it is applied.
                }
                _ => merged.push((*kept).clone()),
            }
            rest.next();
        }
        let found = element.as_ref().and_then(|element| places.get(element));
        merged.push(match found {
            Some(found) => merge(&live[*found], item, keys.items()),
            None => item.clone(),
        });
        if shared.peek().copied() == element.as_ref() && element.is_some() {
            shared.next();
        }
    }
    let unapplied =
        |place: &Option<String>| place.as_ref().is_none_or(|one| !is_applied.contains(one));
    merged.extend(
        rest.filter(|(_, place)| unapplied(place))
            .map(|(kept, _)| kept.clone()),
    );
    merged
}
