//! Changing a stored object: what `update`, `patch` and the subresources have in common.
//!
//! Flow: change, check preconditions, keep what the caller may not touch, admit, [`commit`].

use std::sync::Arc;

use astrago_patch::apply;
use serde_json::Value;

use super::commit::{Decision, commit};
use crate::admission;
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::store::Object;
use crate::verbs::call::Call;

/// Who keeps the books of managed fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// What differs afterwards was written by the caller.
    Update,
    /// Server-side apply has already done it.
    Applied,
}

impl Tracking {
    pub(super) fn note(self, call: &Call, old: &Value, new: &mut Value) {
        if self == Self::Update {
            let now = call.core.now();
            apply::update(old, new, &call.manager(&now), call.kind.keys());
        }
    }
}

/// Applies `change` to the object that the call names and commits the result.
pub(crate) async fn modify(
    call: &Call,
    tracking: Tracking,
    change: impl Fn(&Value) -> Result<Value>,
) -> Result<(Arc<Object>, Vec<String>)> {
    let (name, turn) = (call.name(), call.turn(None).await);
    let decide = |current: Option<&Object>| {
        let current = current.ok_or_else(|| call.not_found())?;
        let old = call.view(current);
        let mut new = change(&old)?;
        admission::check_shape(&call.kind, &new)?;
        check_preconditions(call, &old, &new)?;
        keep(call, &old, &mut new);
        let warnings = admission::admit(call, &mut new, Some(&old))?;
        check_finalizers(call, &old, &new)?;
        count_generation(call, &old, &mut new);
        tracking.note(call, &old, &mut new);
        if new == old || (tracking == Tracking::Applied && differs_in_times_only(&new, &old)) {
            return Ok((Decision::Keep, (warnings, None)));
        }
        let (decision, held) = call.settle(&name, new, Some((current, &old)))?;
        Ok((decision, (warnings, held)))
    };
    let dry_run = call.parameters.dry_run;
    let (stored, (warnings, held)) =
        commit(&call.core.store, call.key(&name), dry_run, decide).await?;
    drop((held, turn));
    Ok((stored.ok_or_else(|| call.not_found())?, warnings))
}

/// An apply that admission turns back into what is there (`1000m` into `1`) is no change.
fn differs_in_times_only(new: &Value, old: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields");
        for entry in entries.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        object
    };
    timeless(new) == timeless(old)
}

fn check_preconditions(call: &Call, old: &Value, new: &Value) -> Result<()> {
    let version = metadata::text(new, "resourceVersion");
    if !version.is_empty() && version != metadata::text(old, "resourceVersion") {
        return Err(ApiError::modified(call.kind.subject(&call.path.name)));
    }
    let (uid, have) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
    if !uid.is_empty() && uid != have {
        return Err(call.conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {have}"
        )));
    }
    let name = metadata::text(new, "name");
    if name != call.path.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        )));
    }
    Ok(())
}

/// Puts back what this request may not change.
fn keep(call: &Call, old: &Value, new: &mut Value) {
    let custom = call.kind.custom.is_some();
    let has_status = call.kind.has_subresource("status");
    match call.path.subresource.as_str() {
        "status" => {
            let (status, mut metadata) = (new["status"].take(), new["metadata"].take());
            *new = old.clone();
            put(new, "status", status);
            let fields: &[&str] = if custom {
                &["managedFields"]
            } else {
                &["managedFields", "labels", "annotations"]
            };
            for field in fields {
                put(&mut new["metadata"], field, metadata[*field].take());
            }
        }
        // Binding a pod also says so in its status.
        "binding" => {}
        _ if has_status => put(new, "status", old["status"].clone()),
        _ => {}
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
        "generateName",
    ] {
        put(&mut new["metadata"], field, old["metadata"][field].clone());
    }
    // Empty maps and lists in metadata are the same as none, and compare as such.
    if let Some(fields) = new["metadata"].as_object_mut() {
        fields.retain(|field, value| {
            let empty = match value {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => value.is_null(),
            };
            !empty || old["metadata"].get(field) == Some(value)
        });
    }
}

fn put(object: &mut Value, field: &str, value: Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if value.is_null() {
        object.remove(field);
    } else {
        object.insert(field.to_owned(), value);
    }
}

fn check_finalizers(call: &Call, old: &Value, new: &Value) -> Result<()> {
    if !metadata::is_terminating(old) {
        return Ok(());
    }
    let before = metadata::finalizers(old);
    let added = metadata::finalizers(new);
    let Some(added) = added.into_iter().find(|one| !before.contains(one)) else {
        return Ok(());
    };
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added:?}}}"
    );
    let error = FieldError::forbidden("metadata.finalizers", &detail);
    Err(admission::invalid(&call.kind, new, vec![error]))
}

fn count_generation(call: &Call, old: &Value, new: &mut Value) {
    if call.kind.strategy.counts_generations && is_asked_anew(call, old, new) {
        metadata::next_generation(old, new);
    }
}

/// Whether the part of an object has changed whose changes `generation` counts. Nothing is copied for that: it is asked
/// with every write of a status.
fn is_asked_anew(call: &Call, old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old != new;
    };
    let has_status = call.kind.has_subresource("status");
    let is_counted = |name: &&String| match name.as_str() {
        "metadata" => false,
        "status" => !has_status,
        _ => true,
    };
    let mut names = old.keys().chain(new.keys()).filter(is_counted);
    names.any(|name| match (old.get(name), new.get(name)) {
        // Where a pod runs is the scheduler's answer, nothing that its user asked for.
        (Some(old), Some(new)) if name == "spec" && call.path.subresource == "binding" => {
            without_node(old) != without_node(new)
        }
        (old, new) => old != new,
    })
}

fn without_node(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("nodeName");
    }
    spec
}
