//! Changing a stored object: what `update`, `patch` and the subresources have in common.
//!
//! Flow: read, change, check preconditions, keep what the caller may not touch, admit, write on
//! condition that nothing moved. When something did, the change is made again on the newer state;
//! a caller who named a `resourceVersion` then fails the precondition, anyone else never notices.

use std::sync::Arc;

use astrago_patch::apply;
use serde_json::Value;

use crate::admission;
use crate::auth::escalation;
use crate::call::Call;
use crate::cluster_ip;
use crate::conversion;
use crate::edit;
use crate::metadata;
use crate::registry::{DEFINITIONS, crd};
use crate::schema::FieldError;
use crate::status::{ApiError, MODIFIED, Result};
use crate::store::{Action, Draft, Object, Write, WriteError};

/// Far more than any real contention needs; a bound nevertheless.
const ATTEMPTS: usize = 64;

/// Who keeps the books of managed fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// What differs afterwards was written by the caller.
    Update,
    /// Server-side apply has already done it.
    Applied,
}

/// Applies `change` to the object that the call names and commits the result.
pub(crate) async fn modify(
    call: &Call,
    tracking: Tracking,
    change: impl Fn(&Value) -> Result<Value>,
) -> Result<(Arc<Object>, Vec<String>)> {
    for _ in 0..ATTEMPTS {
        let current = call.current()?;
        let old = call.view(&current);
        let mut new = change(&old)?;
        admission::check_shape(&call.kind, &new)?;
        check_preconditions(call, &old, &new)?;
        keep(call, &old, &mut new);
        let mut turn = None;
        if &*call.kind.resource == "services" && new["spec"] != old["spec"] {
            turn = Some(call.core.cluster_ips.lock().await);
            cluster_ip::assign(&call.core.store, &call.kind, &mut new, Some(&old))?;
        }
        let warnings = admission::admit(
            &call.kind,
            &mut new,
            Some(&old),
            call.parameters.field_validation,
        )?;
        if &*call.kind.resource == "persistentvolumeclaims" && new["spec"] != old["spec"] {
            let ranges = admission::limit_ranges(&call.core.store, &call.kind, call.namespace());
            admission::check_limits(&call.kind, &ranges, &new)?;
        }
        escalation::check(call, &new, Some(&old))?;
        finish(call, &old, &mut new)?;
        if tracking == Tracking::Update {
            let now = call.core.now();
            apply::update(&old, &mut new, &call.manager(&now), call.kind.keys());
        }
        if new == old || (tracking == Tracking::Applied && differs_in_times_only(&new, &old)) {
            return Ok((current, warnings));
        }
        admission::check_bounds(&new)?;
        let reserved = (
            call.reserve(&current.name, &new, Some(&old))?,
            call.make_room(&current.name, &new, Some(&current))?,
        );
        let removed = edit::is_released(&call.kind.resource, &new);
        let draft = Draft::new(
            &call.kind.resource,
            &conversion::to_storage(&call.kind, new),
        );
        if call.parameters.dry_run {
            return Ok((
                Arc::new(draft.finish(current.name.clone(), current.revision)),
                warnings,
            ));
        }
        let action = if removed {
            Action::Delete(current.revision, draft)
        } else {
            Action::Replace(current.revision, draft)
        };
        let write = Write {
            resource: call.kind.resource.clone(),
            name: current.name.clone(),
            action,
        };
        let written = call.core.store.write(write).await;
        drop((reserved, turn));
        match written {
            Ok(stored) => return Ok((stored, warnings)),
            Err(WriteError::Conflict) => {}
            Err(error) => {
                let subject = call.kind.subject(&call.path.name);
                return Err(ApiError::from_write(error, subject, call.namespace()));
            }
        }
    }
    Err(conflict(call, MODIFIED.to_owned()))
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

fn conflict(call: &Call, message: String) -> ApiError {
    ApiError::Conflict {
        subject: call.kind.subject(&call.path.name),
        message,
    }
}

fn check_preconditions(call: &Call, old: &Value, new: &Value) -> Result<()> {
    let version = metadata::text(new, "resourceVersion");
    if !version.is_empty() && version != metadata::text(old, "resourceVersion") {
        return Err(conflict(call, MODIFIED.to_owned()));
    }
    let (uid, have) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
    if !uid.is_empty() && uid != have {
        return Err(conflict(
            call,
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {have}"),
        ));
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

/// Checks and stamps that depend on what changed.
fn finish(call: &Call, old: &Value, new: &mut Value) -> Result<()> {
    if metadata::is_terminating(old) {
        let before = metadata::finalizers(old);
        if let Some(added) = metadata::finalizers(new)
            .into_iter()
            .find(|one| !before.contains(one))
        {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added:?}}}"
            );
            let error = FieldError::forbidden("metadata.finalizers", &detail);
            return Err(admission::invalid(&call.kind, new, vec![error]));
        }
    }
    if &*call.kind.resource == DEFINITIONS && call.path.subresource.is_empty() {
        crd::establish(new, &call.core.store, &call.core.now());
    }
    if call.kind.counts_generations() && desired(call, old) != desired(call, new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        let generation = generation.saturating_add(1);
        new["metadata"]["generation"] = generation.into();
    }
    Ok(())
}

/// The part of an object whose changes `generation` counts.
fn desired(call: &Call, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
        if call.kind.has_subresource("status") {
            fields.remove("status");
        }
    }
    // Where a pod runs is the scheduler's answer, nothing that its user asked for.
    if call.path.subresource == "binding" {
        object["spec"]["nodeName"].take();
    }
    object
}
