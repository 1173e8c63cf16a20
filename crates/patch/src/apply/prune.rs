//! Removing what a manager no longer applies.

use serde_json::Value;

use crate::Keys;
use crate::fields::{Element, Set, locate};

/// Removes from `value` what is in `before` and not in `kept`: a field or item goes, with all
/// that is in it, when neither it nor anything below it is kept by anybody.
pub(super) fn remove(value: &mut Value, before: &Set, kept: &Set, keys: &Keys) {
    for (element, before) in &before.children {
        let kept = kept.children.get(element);
        match (Element::parse(element), &mut *value) {
            (Element::Field(name), Value::Object(map)) => match kept {
                None => {
                    map.remove(name);
                }
                Some(kept) => {
                    if let Some(value) = map.get_mut(name) {
                        remove(value, before, kept, keys.field(name));
                    }
                }
            },
            (Element::Item(_) | Element::Scalar(_), Value::Array(list)) => {
                let Some(index) = locate(list, element, keys) else {
                    continue;
                };
                match kept {
                    None => {
                        list.remove(index);
                    }
                    Some(kept) => remove(&mut list[index], before, kept, keys.items()),
                }
            }
            _ => {}
        }
    }
}
