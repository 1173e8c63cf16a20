//! `pods/binding`, `pods/eviction` and `namespaces/finalize`.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::call::Call;
use crate::decode;
use crate::edit::edit;
use crate::metadata;
use crate::respond;
use crate::status::{ApiError, Result};
use crate::verbs::delete;
use crate::verbs::modify::{Tracking, modify};

/// Assigns a pod to a node, once.
pub(super) async fn bind(call: &Call, body: &[u8]) -> Result<Response> {
    let binding = decode::object(&call.headers, body)?;
    let node = binding["target"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if node.is_empty() {
        return Err(ApiError::bad_request(
            "target.name: Required value: the node to bind to",
        ));
    }
    let uid = metadata::text(&binding, "uid").to_owned();
    let now = call.core.now();
    let conflict = |message: String| ApiError::Conflict {
        subject: call.kind.subject(&call.path.name),
        message,
    };
    modify(call, Tracking::Update, |old| {
        let name = &call.path.name;
        if metadata::is_terminating(old) {
            return Err(conflict(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )));
        }
        if let Some(current) = old["spec"]["nodeName"]
            .as_str()
            .filter(|node| !node.is_empty())
        {
            return Err(conflict(format!(
                "pod {name} is already assigned to node {current:?}"
            )));
        }
        let mut new = old.clone();
        if !uid.is_empty() {
            new["metadata"]["uid"] = uid.as_str().into();
        }
        new["spec"]["nodeName"] = node.as_str().into();
        for (key, value) in binding["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            new["metadata"]["annotations"][key] = value.clone();
        }
        set_condition(&mut new, "PodScheduled", &now);
        Ok(new)
    })
    .await?;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(respond::json_value(StatusCode::CREATED, &status))
}

fn set_condition(pod: &mut Value, kind: &str, now: &str) {
    let condition =
        json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now });
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| one["type"] != kind);
        conditions.push(condition);
    }
}

/// Deletes a pod as its `Eviction` says. There are no disruption budgets to ask.
pub(super) async fn evict(call: &Call, body: &[u8]) -> Result<Response> {
    let eviction = decode::object(&call.headers, body)?;
    let options = &eviction["deleteOptions"];
    let body = if options.is_object() {
        options.to_string()
    } else {
        String::new()
    };
    let mut options = delete::Options::parse(call, body.as_bytes())?;
    options.dry_run |= call.parameters.dry_run;
    delete::remove(&call.core, &call.kind, &call.name(), &options).await?;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(respond::json_value(StatusCode::CREATED, &status))
}

/// Replaces the finalizers of a namespace; the last one gone lets a terminating namespace go.
pub(super) async fn finalize(call: &Call, namespace: &Value) -> Result<Response> {
    let current = call.current()?;
    let version = metadata::text(namespace, "resourceVersion");
    if !version.is_empty() && version != current.revision.to_string() {
        let message = crate::status::MODIFIED.to_owned();
        return Err(ApiError::Conflict {
            subject: call.kind.subject(&call.path.name),
            message,
        });
    }
    let finalizers = &namespace["spec"]["finalizers"];
    let finalizers = if finalizers.is_array() {
        finalizers.clone()
    } else {
        json!([])
    };
    let change = |namespace: &mut Value| namespace["spec"]["finalizers"] = finalizers.clone();
    let object = edit(&call.core.store, &call.kind.resource, &current.name, change).await?;
    let object = object.ok_or_else(|| call.not_found())?;
    Ok(respond::object(call, &object, StatusCode::OK, &[]))
}
