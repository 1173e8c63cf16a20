//! Strategic merge patch: Kubernetes' merge patch in which lists merge by key.
//!
//! # Directives
//!
//! | in the patch | means |
//! |---|---|
//! | `$patch: replace` in a map | the map becomes what else stands in the patch |
//! | `$patch: delete` in a map | the map becomes empty |
//! | `$patch: delete` in a list item | the item with that key goes |
//! | `$patch: replace` in a list item | the list becomes the other items of the patch |
//! | `$patch: merge` | the default, said aloud |
//! | `$retainKeys: [..]` | fields of the map that are not named go |
//! | `$deleteFromPrimitiveList/f: [..]` | these scalars go from the list `f` |
//! | `$setElementOrder/f: [..]` | the order of `f`'s items that the patch's author knows |
//!
//! # Order
//!
//! Items that the patch names stand in the patch's order (or that of `$setElementOrder`), the
//! others in that of the base; where both orders leave a choice, an item of the base comes first
//! only if the base has both and has it in front. So an item that is new to the list stands
//! **before** those that only the base has: `[A, B]` patched with `[C]` is `[C, A, B]`.

mod list;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::keys::{Keys, Strategy};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER_OF: &str = "$setElementOrder/";

/// `base` with `patch` merged into it; a null in the patch removes what it stands for.
pub fn merge(base: &Value, patch: &Value, keys: &Keys) -> Result<Value> {
    let Value::Object(patch) = patch else {
        return Err(Error::NotAnObject);
    };
    let base = match base {
        Value::Object(base) => base.clone(),
        Value::Null => Map::new(),
        _ => return Err(Error::NotAnObject),
    };
    merge_map(base, patch, keys).map(Value::Object)
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("a strategic merge patch and its target must be objects")]
    NotAnObject,
    #[error("unknown value {value} of the directive $patch")]
    UnknownDirective { value: String },
    #[error("an item of the list {field:?} does not contain the declared merge key {key:?}")]
    MissingKey { field: String, key: String },
    #[error("the list {field:?} merges by {key:?}, so its items must be objects")]
    NotAMap { field: String, key: String },
    #[error("the directive {directive} must be a list")]
    NotAList { directive: String },
    #[error("{field:?} stands in the patch but not in $retainKeys")]
    NotRetained { field: String },
    #[error("the items of {field:?} are not in the order of $setElementOrder, or miss in it")]
    OutOfOrder { field: String },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

fn merge_map(
    mut base: Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Keys,
) -> Result<Map<String, Value>> {
    match patch.get(PATCH) {
        None => {}
        Some(directive) => match directive.as_str() {
            Some("replace") => return Ok(without_directives(patch)),
            Some("delete") => return Ok(Map::new()),
            Some("merge") => {}
            _ => {
                return Err(Error::UnknownDirective {
                    value: directive.to_string(),
                });
            }
        },
    }
    if let Some(retained) = patch.get(RETAIN_KEYS) {
        retain(&mut base, patch, retained)?;
    }
    for (name, value) in patch {
        if name == PATCH || name == RETAIN_KEYS {
        } else if let Some(field) = name.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().ok_or(Error::NotAList {
                directive: name.clone(),
            })?;
            if let Some(Value::Array(items)) = base.get_mut(field) {
                let gone: HashSet<_> = gone.iter().map(ToString::to_string).collect();
                items.retain(|item| !gone.contains(&item.to_string()));
            }
        } else if let Some(field) = name.strip_prefix(ORDER_OF) {
            // Where the patch has items besides, they are merged in that order below.
            if !patch.contains_key(field)
                && let Some(Value::Array(items)) = base.get_mut(field)
            {
                let order = value.as_array().ok_or(Error::NotAList {
                    directive: name.clone(),
                })?;
                let key = list::key_of(keys.field(field));
                let known = items.clone();
                *items = list::ordered(std::mem::take(items), order, &known, key);
            }
        } else if value.is_null() {
            base.remove(name);
        } else {
            let merged = merge_field(base.remove(name), patch, name, value, keys.field(name))?;
            base.insert(name.clone(), merged);
        }
    }
    Ok(base)
}

fn merge_field(
    base: Option<Value>,
    patch: &Map<String, Value>,
    name: &str,
    value: &Value,
    keys: &Keys,
) -> Result<Value> {
    Ok(match (base, value) {
        (Some(Value::Object(base)), Value::Object(value)) => {
            if *keys.strategy() == Strategy::Replace {
                Value::Object(without_directives(value))
            } else {
                Value::Object(merge_map(base, value, keys)?)
            }
        }
        (base, Value::Array(value)) => {
            let base = match base {
                Some(Value::Array(base)) => base,
                _ => Vec::new(),
            };
            let order = match patch.get(&format!("{ORDER_OF}{name}")) {
                Some(order) => Some(
                    order
                        .as_array()
                        .ok_or_else(|| Error::NotAList {
                            directive: format!("{ORDER_OF}{name}"),
                        })?
                        .as_slice(),
                ),
                None => None,
            };
            Value::Array(list::merge(base, value, order, name, keys)?)
        }
        // There is nothing to merge with, so nothing of the patch's own language may stay.
        (_, Value::Object(value)) => Value::Object(merge_map(Map::new(), value, keys)?),
        (_, value) => value.clone(),
    })
}

fn retain(
    base: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    retained: &Value,
) -> Result<()> {
    let retained = retained.as_array().ok_or_else(|| Error::NotAList {
        directive: RETAIN_KEYS.to_owned(),
    })?;
    let is_retained = |name: &str| retained.iter().any(|one| one.as_str() == Some(name));
    for (name, value) in patch {
        if !name.starts_with('$') && !value.is_null() && !is_retained(name) {
            return Err(Error::NotRetained {
                field: name.clone(),
            });
        }
    }
    base.retain(|name, _| is_retained(name));
    Ok(())
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, value)| !is_directive(name) && !value.is_null())
        .map(|(name, value)| (name.clone(), cleaned(value)))
        .collect()
}

fn cleaned(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(items) => items
            .iter()
            .filter(|item| item.get(PATCH).and_then(Value::as_str) != Some("delete"))
            .filter(|item| !is_bare_directive(item))
            .map(cleaned)
            .collect(),
        other => other.clone(),
    }
}

fn is_directive(name: &str) -> bool {
    name == PATCH
        || name == RETAIN_KEYS
        || name.starts_with(DELETE_FROM)
        || name.starts_with(ORDER_OF)
}

/// Whether a list item says nothing but `$patch: …`.
fn is_bare_directive(item: &Value) -> bool {
    item.as_object()
        .is_some_and(|map| map.len() == 1 && map.contains_key(PATCH))
}
