//! `pods/binding` and `pods/eviction`.

use axum::response::Response;
use serde_json::{Value, json};

use crate::http::decode;
use crate::kinds::metadata;
use crate::status::{ApiError, Result, done};
use crate::tasks::disruption::{self, Refusal};
use crate::verbs::call::Call;
use crate::verbs::commit::edit;
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
    modify(call, Tracking::Update, |old| {
        let name = &call.path.name;
        if metadata::is_terminating(old) {
            return Err(call.conflict(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )));
        }
        if let Some(current) = old["spec"]["nodeName"]
            .as_str()
            .filter(|node| !node.is_empty())
        {
            return Err(call.conflict(format!(
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
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        });
        set_condition(&mut new, condition);
        Ok(new)
    })
    .await?;
    Ok(done())
}

fn set_condition(pod: &mut Value, condition: Value) {
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| one["type"] != condition["type"]);
        conditions.push(condition);
    }
}

/// Deletes a pod as its `Eviction` says, if its disruption budget allows; the pod says why it went.
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
    let turn = call.core.disruptions.turn.lock().await;
    let pod = call.current()?;
    disruption::may_evict(&call.core.store, &pod, (call.core.options.clock)()).map_err(|refusal| match refusal {
        Refusal::Budget(detail) => ApiError::DisruptionBudget(detail),
        Refusal::Several => call.conflict(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                .to_owned(),
        ),
    })?;
    let now = call.core.now();
    if !options.dry_run && !pod.meta.terminating {
        let mark = |pod: &mut Value| {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
            });
            set_condition(pod, condition);
        };
        edit(&call.core, &call.kind.resource, &pod.name, mark).await?;
    }
    delete::remove(&call.core, &call.kind, &call.name(), &options).await?;
    drop(turn);
    Ok(done())
}
