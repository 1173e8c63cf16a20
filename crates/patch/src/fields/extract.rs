//! The set of fields that an object has.

use serde_json::Value;

use super::{Set, item_element};
use crate::keys::{Keys, List};

/// An item of a keyed list that does not have the keys.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingKey {
    pub path: String,
    pub key: String,
}

/// The fields of an object as its author states them: every scalar, every list or map that is
/// owned as one, and every item of a keyed list.
pub fn of(value: &Value, keys: &Keys) -> Result<Set, MissingKey> {
    let mut all = set(value, keys, "")?;
    all.is_member = false;
    Ok(all)
}

fn set(value: &Value, keys: &Keys, path: &str) -> Result<Set, MissingKey> {
    match value {
        Value::Object(map) if !keys.is_atomic() && !map.is_empty() => {
            let mut all = Set::default();
            for (name, value) in map {
                let below = format!("{path}.{name}");
                all.children
                    .insert(format!("f:{name}"), set(value, keys.field(name), &below)?);
            }
            Ok(all)
        }
        Value::Array(list) if *keys.list() != List::Atomic && !list.is_empty() => {
            let mut all = Set::default();
            for (index, item) in list.iter().enumerate() {
                let below = format!("{path}[{index}]");
                let Some(element) = item_element(item, keys) else {
                    let key = match keys.list() {
                        List::Map(names) => names
                            .iter()
                            .find(|name| item.get(&***name).is_none())
                            .map(ToString::to_string),
                        _ => None,
                    };
                    return Err(MissingKey {
                        path: below,
                        key: key.unwrap_or_default(),
                    });
                };
                let mut one = match keys.list() {
                    List::Set => Set::leaf(),
                    _ => set(item, keys.items(), &below)?,
                };
                one.is_member = true;
                all.children.insert(element, one);
            }
            Ok(all)
        }
        _ => Ok(Set::leaf()),
    }
}
