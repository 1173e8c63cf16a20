//! `create`: names, stamps, admission, one write.

use std::sync::Arc;

use axum::response::Response;
use serde_json::Value;

use super::commit::commit;
use super::modify::Tracking;
use crate::admission;
use crate::http::respond;
use crate::kinds::metadata;
use crate::kinds::registry::Kind;
use crate::status::{ApiError, Result, created};
use crate::store::{Name, Object};
use crate::verbs::call::Call;

/// How many names are generated until one is free.
const NAME_ATTEMPTS: usize = 8;

pub(crate) async fn create(call: &Call, mut object: Value) -> Result<Response> {
    if !call.path.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    check_type(&call.kind, &mut object)?;
    check_namespace(call, &mut object)?;
    if !metadata::text(&object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let (stored, warnings) = insert(call, object, Tracking::Update).await?;
    Ok(created(respond::object(call, &stored, &warnings)))
}

/// Writes a new object whose type and namespace are right. Also creates for server-side apply.
pub(crate) async fn insert(
    call: &Call,
    mut object: Value,
    tracking: Tracking,
) -> Result<(Arc<Object>, Vec<String>)> {
    admission::check_shape(&call.kind, &object)?;
    let prefix = metadata::text(&object, "generateName").to_owned();
    let generated = metadata::text(&object, "name").is_empty() && !prefix.is_empty();
    let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
    loop {
        if generated {
            metadata::of(&mut object)
                .insert("name".to_owned(), metadata::generated_name(&prefix).into());
        }
        attempts -= 1;
        // Only who may have to try again keeps a copy.
        let candidate = if attempts > 0 {
            object.clone()
        } else {
            object.take()
        };
        match insert_once(call, candidate, tracking).await {
            Err(ApiError::AlreadyExists(_)) if attempts > 0 => {}
            other => return other,
        }
    }
}

async fn insert_once(
    call: &Call,
    mut object: Value,
    tracking: Tracking,
) -> Result<(Arc<Object>, Vec<String>)> {
    stamp(call, &mut object);
    let turn = call.turn(Some(&object)).await;
    let warnings = admission::admit(call, &mut object, None)?;
    tracking.note(call, &Value::Null, &mut object);
    let name = Name::new(call.namespace(), metadata::text(&object, "name"));
    let (decision, held) = call.settle(&name, object, None)?;
    let mut decision = Some(decision);
    let exists = || ApiError::AlreadyExists(call.kind.subject(&name.name));
    let create = |current: Option<&Object>| match (current, decision.take()) {
        (None, Some(decision)) => Ok((decision, ())),
        _ => Err(exists()),
    };
    let dry_run = call.parameters.dry_run;
    let (stored, ()) = commit(&call.core.store, call.key(&name), dry_run, create).await?;
    drop((held, turn));
    Ok((stored.ok_or_else(exists)?, warnings))
}

/// Fills in `apiVersion` and `kind`, or refuses others.
pub(crate) fn check_type(kind: &Kind, object: &mut Value) -> Result<()> {
    for (field, want) in [
        ("apiVersion", kind.api_version.as_str()),
        ("kind", &kind.kind),
    ] {
        match object[field].as_str() {
            None | Some("") => object[field] = want.into(),
            Some(found) if found == want => {}
            Some(found) => {
                return Err(ApiError::bad_request(format!(
                    "the {field} in the data ({found}) does not match the expected {field} ({want})"
                )));
            }
        }
    }
    Ok(())
}

/// Fills in the namespace of the path, or refuses another.
pub(crate) fn check_namespace(call: &Call, object: &mut Value) -> Result<()> {
    let found = metadata::text(object, "namespace").to_owned();
    if !call.kind.namespaced {
        metadata::of(object).remove("namespace");
        return Ok(());
    }
    if call.namespace().is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    if found.is_empty() {
        metadata::of(object).insert("namespace".to_owned(), call.namespace().into());
    } else if found != call.namespace() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Sets what only the server may say, and clears what a new object cannot have.
fn stamp(call: &Call, object: &mut Value) {
    let now = call.core.now();
    let fields = metadata::of(object);
    fields.retain(|_, value| !value.is_null());
    for field in [
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ] {
        fields.remove(field);
    }
    fields.insert("uid".to_owned(), metadata::new_uid().into());
    fields.insert("creationTimestamp".to_owned(), now.into());
    if call.kind.strategy.counts_generations {
        fields.insert("generation".to_owned(), 1.into());
    }
    if call.kind.strategy.drops_status && call.kind.has_subresource("status") {
        object.as_object_mut().map(|object| object.remove("status"));
    }
}
