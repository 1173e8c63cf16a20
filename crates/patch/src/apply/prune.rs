//! Removing what a manager no longer applies.

use std::collections::HashMap;

use serde_json::Value;

use crate::Keys;
use crate::fields::{Element, Set, canonical, item_element};

/// Removes from `value` what is in `before` and not in `kept`: a field or item goes, with all
/// that is in it, when neither it nor anything below it is kept by anybody.
pub(super) fn remove(value: &mut Value, before: &Set, kept: &Set, keys: &Keys) {
    match value {
        Value::Object(map) => {
            for (element, before) in &before.children {
                let Element::Field(name) = Element::parse(element) else {
                    continue;
                };
                match kept.children.get(element) {
                    None => {
                        map.remove(name);
                    }
                    Some(kept) => {
                        if let Some(value) = map.get_mut(name) {
                            remove(value, before, kept, keys.field(name));
                        }
                    }
                }
            }
        }
        Value::Array(list) => items(list, before, kept, keys),
        _ => {}
    }
}

fn items(list: &mut Vec<Value>, before: &Set, kept: &Set, keys: &Keys) {
    let mut places = HashMap::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        if let Some(element) = item_element(item, keys) {
            places.entry(element).or_insert(place);
        }
    }
    let mut gone = vec![false; list.len()];
    for (element, before) in &before.children {
        let place = canonical(element, keys).and_then(|element| places.get(&element));
        let Some(place) = place.copied() else {
            continue;
        };
        match kept.children.get(element) {
            None => gone[place] = true,
            Some(kept) => remove(&mut list[place], before, kept, keys.items()),
        }
    }
    let mut gone = gone.into_iter();
    list.retain(|_| !gone.next().unwrap_or(false));
}
