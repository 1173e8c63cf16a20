//! `patch`: JSON, merge, strategic and apply patches.

use std::sync::Arc;

use astrago_patch::apply;
use axum::response::Response;
use serde_json::Value;

use super::create;
use super::modify::{self, Tracking};
use crate::admission;
use crate::http::decode;
use crate::http::parameters::FieldValidation;
use crate::http::respond;
use crate::kinds::metadata;
use crate::kinds::schema::{FieldError, Reason};
use crate::status::{ApiError, Result, created};
use crate::store::Object;
use crate::verbs::call::Call;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) async fn patch(call: &Call, body: &[u8]) -> Result<Response> {
    if call.path.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    let media = decode::media_type(&call.headers);
    if call.parameters.force.is_some() && media != APPLY {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(refused(call, error));
    }
    if media == APPLY {
        return server_side_apply(call, decode::yaml(body)?).await;
    }
    let (patch, repeats) = decode::json_with_repeats(body)?;
    let mut warnings = admission::repeated_fields(call, &repeats)?;
    let change = change(call, media, patch)?;
    let (stored, more) = modify::modify(call, Tracking::Update, change).await?;
    warnings.extend(more);
    Ok(respond::object(call, &stored, &warnings))
}

/// What a patch makes of an object.
pub(crate) type Change<'a> = Box<dyn Fn(&Value) -> Result<Value> + Send + Sync + 'a>;

/// The patch as a function of the object that it is applied to.
pub(crate) fn change<'a>(call: &'a Call, media: &str, patch: Value) -> Result<Change<'a>> {
    let unreadable = |error: &dyn std::error::Error| {
        refused(
            call,
            FieldError::new("patch", Reason::Invalid, format!("Invalid value: {error}")),
        )
    };
    Ok(match media {
        JSON => Box::new(move |old| {
            let mut new = old.clone();
            astrago_patch::json::apply(&mut new, &patch).map_err(|error| unreadable(&error))?;
            patched(new)
        }),
        MERGE if patch.is_object() => Box::new(move |old| {
            let mut new = old.clone();
            astrago_patch::merge::apply(&mut new, &patch);
            patched(new)
        }),
        STRATEGIC if call.kind.custom.is_none() => Box::new(move |old| {
            let new = astrago_patch::strategic::merge(old, &patch, call.kind.keys());
            patched(new.map_err(|error| unreadable(&error))?)
        }),
        MERGE => return Err(ApiError::bad_request("a merge patch must be an object")),
        _ => return Err(unsupported(call)),
    })
}

/// Applies the configuration to the object, or creates it.
async fn server_side_apply(call: &Call, mut applied: Value) -> Result<Response> {
    if call.parameters.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(refused(call, error));
    }
    if !applied.is_object() {
        return Err(ApiError::bad_request(
            "an applied configuration must be an object",
        ));
    }
    if applied["apiVersion"].is_null() || applied["kind"].is_null() {
        return Err(ApiError::bad_request(
            "an applied configuration must have apiVersion and kind",
        ));
    }
    create::check_type(&call.kind, &mut applied)?;
    create::check_namespace(call, &mut applied)?;
    let name = metadata::text(&applied, "name").to_owned();
    if name.is_empty() {
        metadata::of(&mut applied).insert("name".to_owned(), call.path.name.as_str().into());
    } else if name != call.path.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        )));
    }
    keep_to_subresource(call, &mut applied);
    // Nobody may own a field that there is not.
    let unknown = admission::prune(&call.kind, &mut applied);
    let validation = call.parameters.field_validation;
    if validation == FieldValidation::Strict && !unknown.is_empty() {
        return Err(undeclared(call, &unknown));
    }
    let mut warnings = admission::unknown_fields(&call.kind, &unknown, validation)?;
    let (stored, more, is_new) = apply_or_create(call, &applied).await?;
    warnings.extend(more);
    let answer = respond::object(call, &stored, &warnings);
    Ok(if is_new { created(answer) } else { answer })
}

/// Apply has words of its own for fields that the kind does not have.
fn undeclared(call: &Call, fields: &[String]) -> ApiError {
    let fields = fields.iter();
    let fields: Vec<_> = fields
        .map(|field| format!(".{field}: field not declared in schema"))
        .collect();
    let (namespace, name) = (call.namespace(), &call.path.name);
    let (version, kind) = (&call.kind.api_version, &call.kind.kind);
    ApiError::bad_request(format!(
        "failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {}",
        fields.join(", ")
    ))
}

/// The object, warnings, and whether it is new.
async fn apply_or_create(call: &Call, applied: &Value) -> Result<(Arc<Object>, Vec<String>, bool)> {
    // Somebody may create or delete the object between the two attempts; once each is enough.
    for _ in 0..3 {
        if call.current().is_ok() {
            let change = |old: &Value| merged(call, old, applied);
            match modify::modify(call, Tracking::Applied, change).await {
                Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error),
                Ok((stored, warnings)) => return Ok((stored, warnings, false)),
            }
        }
        if !call.path.subresource.is_empty() {
            return Err(call.not_found());
        }
        call.authorize_create()?;
        let mut object = merged(call, &Value::Null, applied)?;
        metadata::of(&mut object).remove("resourceVersion");
        match create::insert(call, object, Tracking::Applied).await {
            Err(ApiError::AlreadyExists(_)) => {}
            Err(error) => return Err(error),
            Ok((stored, warnings)) => return Ok((stored, warnings, true)),
        }
    }
    Err(ApiError::modified(call.kind.subject(&call.path.name)))
}

fn merged(call: &Call, live: &Value, applied: &Value) -> Result<Value> {
    let now = call.core.now();
    let manager = call.manager(&now);
    let force = call.parameters.force.unwrap_or(false);
    apply::apply(live, applied, &manager, force, call.kind.keys()).map_err(|error| match error {
        apply::Error::Conflicts(conflicts) => ApiError::ApplyConflict {
            message: conflicts.to_string(),
            causes: conflicts
                .0
                .into_iter()
                .map(|conflict| (conflict.path, format!("conflict with {}", conflict.manager)))
                .collect(),
        },
        other => ApiError::bad_request(other.to_string()),
    })
}

/// An applied object states only what its subresource is about; the rest is nobody's.
fn keep_to_subresource(call: &Call, applied: &mut Value) {
    let status_only = call.path.subresource == "status";
    let has_status = call.kind.has_subresource("status");
    if let Some(fields) = applied.as_object_mut() {
        fields.retain(|field, _| match field.as_str() {
            "apiVersion" | "kind" | "metadata" => true,
            "status" => status_only || !has_status,
            _ => !status_only,
        });
    }
    if status_only && let Some(fields) = applied["metadata"].as_object_mut() {
        fields.retain(|field, _| {
            matches!(
                field.as_str(),
                "name" | "namespace" | "uid" | "resourceVersion"
            )
        });
    }
}

fn patched(value: Value) -> Result<Value> {
    if value.is_object() && value["metadata"].is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("the patched object has no metadata"))
    }
}

fn refused(call: &Call, error: FieldError) -> ApiError {
    let object = serde_json::json!({ "metadata": { "name": call.path.name } });
    admission::invalid(&call.kind, &object, vec![error])
}

fn unsupported(call: &Call) -> ApiError {
    let strategic = if call.kind.custom.is_none() {
        [", ", STRATEGIC].concat()
    } else {
        String::new()
    };
    ApiError::UnsupportedMediaType(format!("{JSON}, {MERGE}, {APPLY}{strategic}"))
}
