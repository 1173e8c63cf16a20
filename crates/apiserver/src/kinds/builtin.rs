//! The kinds that are there without a CustomResourceDefinition.
//!
//! [`kinds`] is the table of what exists; [`admit`] is what happens to an object of such a kind
//! before it is stored:
//!
//! ```text
//!   nulls dropped ── quantities made canonical ── unknown fields dropped ── types checked
//!       ── Kubernetes' defaults filled in ── Kubernetes' rules checked
//! ```
//!
//! The schemas come from k8s-openapi's types and are compiled on first use of a kind, so that
//! starting the server costs nothing for kinds that nobody touches.

mod defaults;
mod kinds;
mod names;
pub(crate) mod quantity;
mod schemas;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::Value;

pub(crate) use kinds::find;
pub use kinds::{KindInfo, kinds};
pub(crate) use schemas::raw as raw_schema;

use crate::kinds::schema::FieldError;

/// Prunes, normalises, defaults and validates an object of a built-in kind. Answers which unknown
/// fields were dropped, or everything that is wrong.
pub(crate) fn admit(
    info: &KindInfo,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<String>, Vec<FieldError>> {
    drop_nulls(new);
    let structural = schemas::structural(info);
    let mut errors = quantity::normalise(&structural, new);
    let unknown = structural.prune(new);
    errors.extend(structural.validate(new, old));
    // What has the wrong type cannot be defaulted or understood.
    if !errors.is_empty() {
        return Err(errors);
    }
    (info.strategy.default)(new, old);
    (info.strategy.validate)(new, old, &mut errors);
    if errors.is_empty() {
        Ok(unknown)
    } else {
        Err(errors)
    }
}

/// Drops the fields that a kind does not have, and names them.
pub(crate) fn prune(info: &KindInfo, object: &mut Value) -> Vec<String> {
    schemas::structural(info).prune(object)
}

/// In Kubernetes' own types null is the same as absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
