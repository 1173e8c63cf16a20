//! `namespaces/finalize`.

use axum::response::Response;
use serde_json::{Value, json};

use crate::http::respond;
use crate::kinds::metadata;
use crate::status::{ApiError, Result};
use crate::verbs::call::Call;
use crate::verbs::commit::edit;

/// Replaces the finalizers of a namespace; the last one gone lets a terminating namespace go.
pub(super) async fn finalize(call: &Call, namespace: &Value) -> Result<Response> {
    let current = call.current()?;
    let version = metadata::text(namespace, "resourceVersion");
    if !version.is_empty() && version != current.revision.to_string() {
        return Err(ApiError::modified(call.kind.subject(&call.path.name)));
    }
    let finalizers = &namespace["spec"]["finalizers"];
    let finalizers = if finalizers.is_array() {
        finalizers.clone()
    } else {
        json!([])
    };
    if finalizers
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| !one.is_string())
    {
        return Err(ApiError::bad_request(
            "spec.finalizers: must be a list of strings",
        ));
    }
    let change = |namespace: &mut Value| namespace["spec"]["finalizers"] = finalizers.clone();
    let object = edit(&call.core, &call.kind.resource, &current.name, change).await?;
    let object = object.ok_or_else(|| call.not_found())?;
    Ok(respond::object(call, &object, &[]))
}
