//! `create`: names, stamps, admission, one write.

use std::sync::Arc;

use astrago_patch::apply;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::modify::Tracking;
use crate::admission;
use crate::auth::escalation;
use crate::call::Call;
use crate::cluster_ip;
use crate::conversion;
use crate::limit_range;
use crate::metadata;
use crate::registry::{DEFINITIONS, Kind, crd};
use crate::respond;
use crate::status::{ApiError, Result};
use crate::store::{Action, Draft, Name, Object, Write, WriteError};

/// A generated name that is taken is made anew this often.
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
    Ok(respond::object(
        call,
        &stored,
        StatusCode::CREATED,
        &warnings,
    ))
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
        let mut candidate = if attempts > 0 {
            object.clone()
        } else {
            object.take()
        };
        stamp(call, &mut candidate);
        let store = &call.core.store;
        admission::resolve(store, &call.kind, &mut candidate)?;
        let is_service = &*call.kind.resource == "services";
        let mut turn = None;
        if is_service && candidate["spec"]["clusterIP"] != "None" {
            turn = Some(call.core.cluster_ips.lock().await);
            cluster_ip::assign(store, &call.kind, &mut candidate, None)?;
        }
        let ranges = admission::limit_ranges(store, &call.kind, call.namespace());
        if &*call.kind.resource == "pods" {
            limit_range::default(&ranges, &mut candidate);
        }
        let warnings = admission::admit(
            &call.kind,
            &mut candidate,
            None,
            call.parameters.field_validation,
        )?;
        admission::check_limits(&call.kind, &ranges, &candidate)?;
        escalation::check(call, &candidate, None)?;
        finish(call, &mut candidate);
        if tracking == Tracking::Update {
            let now = call.core.now();
            let manager = call.manager(&now);
            apply::update(&Value::Null, &mut candidate, &manager, call.kind.keys());
        }
        admission::check_bounds(&candidate)?;
        let name = Name::new(call.namespace(), metadata::text(&candidate, "name"));
        let subject = call.kind.subject(&name.name);
        if call.parameters.dry_run && store.get(&call.kind.resource, &name).is_some() {
            return Err(ApiError::AlreadyExists(subject));
        }
        let reserved = (
            call.reserve(&name, &candidate, None)?,
            call.make_room(&name, &candidate, None)?,
        );
        let draft = Draft::new(
            &call.kind.resource,
            &conversion::to_storage(&call.kind, candidate),
        );
        if call.parameters.dry_run {
            return Ok((draft.finish(name, 0).without_revision().into(), warnings));
        }
        let write = Write {
            resource: call.kind.resource.clone(),
            name,
            action: Action::Create(draft),
        };
        let written = store.write(write).await;
        drop((reserved, turn));
        match written {
            Ok(stored) => return Ok((stored, warnings)),
            Err(WriteError::AlreadyExists) if attempts > 0 => {}
            Err(error) => return Err(ApiError::from_write(error, subject, call.namespace())),
        }
    }
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
    if call.kind.counts_generations() {
        fields.insert("generation".to_owned(), 1.into());
    }
    let custom = call.kind.custom.is_some();
    if call.kind.has_subresource("status") && (custom || &*call.kind.resource == "jobs.batch") {
        object.as_object_mut().map(|object| object.remove("status"));
    }
}

/// What follows from an admitted object.
fn finish(call: &Call, object: &mut Value) {
    match &*call.kind.resource {
        DEFINITIONS => {
            object.as_object_mut().map(|object| object.remove("status"));
            crd::establish(object, &call.core.store, &call.core.now());
        }
        "namespaces" => {
            let name = metadata::text(object, "name").to_owned();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({ "phase": "Active" });
        }
        _ => {}
    }
}
