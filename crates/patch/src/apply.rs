//! Server-side apply: merging by ownership.
//!
//! Every writer of an object is a *manager*; `metadata.managedFields` says which fields each of
//! them owns. To apply is to state all the fields that a manager wants:
//!
//! 1. the applied fields are merged into the live object ([`merge`]);
//! 2. fields that this manager applied before and does not apply now are removed, unless another
//!    manager owns them ([`prune`]);
//! 3. a field that thereby *changes* and is owned by another manager is a conflict; with `force`
//!    the other loses it instead;
//! 4. the manager now owns exactly what it applied. Who applies the value that is there already
//!    becomes a co-owner.
//!
//! Ordinary writes ([`update`]) never conflict: the writer takes over what it changed.

mod managed;
mod merge;
mod prune;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value};

use self::managed::{Managers, Operation};
use crate::Keys;
use crate::fields::{self, Changes, Set};

/// Who writes, how and when.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    pub name: &'a str,
    /// The version of the API through which it writes: `v1`, `batch/v1`.
    pub api_version: &'a str,
    /// `status` and so on; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write, as it is to stand in the object.
    pub now: &'a str,
}

/// Applies `applied` to `live` (null if there is no such object yet) and returns the new object
/// with its managedFields. When nothing changes, that is `live` to the letter.
pub fn apply(
    live: &Value,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
    keys: &Keys,
) -> Result<Value> {
    if !applied.is_object() {
        return Err(Error::NotAnObject);
    }
    if applied
        .pointer("/metadata/managedFields")
        .is_some_and(is_given)
    {
        return Err(Error::HasManagedFields);
    }
    let applied = without_nulls(applied);
    let mut managers = Managers::of(live);
    let stated = fields::of(&applied, keys).map_err(|missing| Error::MissingKey {
        path: missing.path,
        key: missing.key,
    })?;

    let me = managers.find(manager, Operation::Apply);
    let before = me.map(|index| managers.entries[index].set.clone());
    let mut merged = merge::merge(live, &applied, keys);
    if let Some(before) = &before {
        let mut kept = stated.clone();
        for (index, entry) in managers.entries.iter().enumerate() {
            if Some(index) != me {
                kept.union(&entry.set);
            }
        }
        prune::remove(&mut merged, before, &kept, keys);
    }

    let mut changes = compare(live, &merged, keys);
    strip(&mut changes.written);
    strip(&mut changes.removed);
    let conflicts = managers.conflicts(&changes.written, me);
    if !conflicts.is_empty() && !force {
        return Err(Error::Conflicts(Conflicts(conflicts)));
    }
    managers.yield_to(&changes, me);

    let mut stated = stated;
    strip(&mut stated);
    if changes.is_empty() && before.as_ref() == Some(&stated) && live.is_object() {
        let entry = me.map(|index| &managers.entries[index]);
        if entry.is_some_and(|entry| entry.api_version == manager.api_version) {
            return Ok(live.clone());
        }
    }
    managers.set(manager, Operation::Apply, stated);
    managers.write(&mut merged);
    Ok(merged)
}

/// Notes in `new` that `manager` wrote what differs from `old` (null on create).
///
/// A client may set `managedFields` itself: what `new` brings is the starting point, unless it
/// brings none, and a list with one empty entry clears them.
pub fn update(old: &Value, new: &mut Value, manager: &Manager<'_>, keys: &Keys) {
    let given = new.pointer("/metadata/managedFields");
    let is_cleared = given == Some(&Value::Array(vec![Value::Object(Map::new())]));
    let old_given = old.pointer("/metadata/managedFields");
    let mut changes = compare(old, new, keys);
    strip(&mut changes.written);
    strip(&mut changes.removed);
    let is_same_list = !given.is_some_and(is_given) || given == old_given;
    if changes.is_empty() && is_same_list && !is_cleared {
        // The usual case of a write that changes nothing, or only the system's own metadata.
        if let Some(old_given) = old_given
            && given != Some(old_given)
            && let Some(Value::Object(metadata)) = new.get_mut("metadata")
        {
            metadata.insert("managedFields".to_owned(), old_given.clone());
        }
        return;
    }
    let mut managers = if is_cleared {
        Managers::default()
    } else if given.is_some_and(is_given) {
        Managers::of(new)
    } else {
        Managers::of(old)
    };
    if !changes.is_empty() {
        let me = managers.find(manager, Operation::Update);
        let mut owned = me
            .map(|index| managers.entries[index].set.clone())
            .unwrap_or_default();
        owned.subtract(&changes.removed);
        owned.union(&changes.written);
        managers.yield_to(&changes, me);
        if !changes.written.is_empty() || me.is_some() {
            managers.set(manager, Operation::Update, owned);
        }
        managers.cap(manager.now);
    }
    managers.write(new);
}

/// Fields that are changed by the apply and belong to others.
#[derive(Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// One field and the manager that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// As messages name it: `"kubectl-client-side-apply" using v1`.
    pub manager: String,
    /// `.spec.replicas`.
    pub path: String,
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                only.manager, only.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for (index, conflict) in self.0.iter().enumerate() {
            if last != Some(&conflict.manager) {
                let line = if index == 0 { "" } else { "\n" };
                write!(f, "{line}conflicts with {}:", conflict.manager)?;
                last = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("an applied configuration must be an object")]
    NotAnObject,
    #[error("metadata.managedFields must be nil")]
    HasManagedFields,
    #[error("{path}: associative list with keys has an element that omits key field {key:?}")]
    MissingKey { path: String, key: String },
    #[error("{0}")]
    Conflicts(Conflicts),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

fn compare(old: &Value, new: &Value, keys: &Keys) -> Changes {
    if old.is_object() {
        fields::compare(old, new, keys)
    } else {
        fields::compare(&Value::Object(Map::new()), new, keys)
    }
}

/// Takes away the fields that nobody owns: the object's identity and what the server sets.
fn strip(set: &mut Set) {
    const SYSTEM: [&str; 9] = [
        "f:creationTimestamp",
        "f:deletionGracePeriodSeconds",
        "f:deletionTimestamp",
        "f:generation",
        "f:managedFields",
        "f:name",
        "f:namespace",
        "f:resourceVersion",
        "f:uid",
    ];
    set.children.remove("f:apiVersion");
    set.children.remove("f:kind");
    if let Some(metadata) = set.children.get_mut("f:metadata") {
        metadata.is_member = false;
        metadata.children.remove("f:selfLink");
        metadata.children.remove("f:generateName");
        for field in SYSTEM {
            metadata.children.remove(field);
        }
        if metadata.is_empty() {
            set.children.remove("f:metadata");
        }
    }
}

fn is_given(managed: &Value) -> bool {
    managed
        .as_array()
        .is_some_and(|entries| !entries.is_empty())
}

/// To apply null is not to state the field.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
