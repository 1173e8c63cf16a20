//! What is written about a silent node and its pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{CONTROLLER, Error, Result};
use crate::clock::stamp;
use crate::context::{Context, FIELD_MANAGER};
use crate::events::{Notice, reference};
use crate::pod;

/// Marks `node` as one of which nothing is known, unless it is.
pub(crate) async fn mark_unknown(context: &Context, node: &Node, now: Timestamp) -> Result<()> {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut conditions: Vec<_> = conditions.cloned().collect();
    let message = "The node has stopped reporting.";
    let mut changed = false;
    for condition in conditions
        .iter_mut()
        .filter(|condition| condition.type_ == "Ready")
    {
        if condition.status != "Unknown" {
            condition.status = "Unknown".to_string();
            condition.reason = Some("NodeStatusUnknown".to_string());
            condition.message = Some(message.to_string());
            condition.last_transition_time = Some(stamp(now));
            changed = true;
        }
    }
    if !changed {
        return Ok(());
    }
    let nodes = Api::<Node>::all(context.client.clone());
    let patch = json!({
        "metadata": { "resourceVersion": node.resource_version() },
        "status": { "conditions": conditions },
    });
    let written = nodes
        .patch_status(&node.name_any(), &parameters(), &Patch::Merge(patch))
        .await;
    let written = written.map_err(|source| Error::MarkNode { source })?;
    context.metrics.wrote(CONTROLLER);
    context.mirrors.nodes.observe(written);
    context
        .events
        .send(Notice::warning(reference(node), "NodeNotReady", message));
    Ok(())
}

/// Gives up a pod whose node is lost: its Job replaces it elsewhere. A pod that was being deleted is simply gone.
pub(crate) async fn give_up(
    context: &Context,
    lost: &Pod,
    node: &str,
    now: Timestamp,
) -> Result<()> {
    let pods = Api::<Pod>::namespaced(
        context.client.clone(),
        &lost.namespace().unwrap_or_default(),
    );
    let name = lost.name_any();
    let failed = |source| Error::GiveUp {
        pod: name.clone(),
        source,
    };
    if pod::is_terminating(lost) {
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: lost.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        return match pods.delete(&name, &parameters).await {
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            deleted => deleted
                .map(|_| context.metrics.wrote(CONTROLLER))
                .map_err(failed),
        };
    }
    let message = format!("The node {node} that it ran on has stopped reporting.");
    let known = lost
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut conditions: Vec<_> = known
        .filter(|condition| !["Ready", "DisruptionTarget"].contains(&condition.type_.as_str()))
        .map(|condition| json!(condition))
        .collect();
    let told = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "NodeLost", "message": message,
                "lastTransitionTime": stamp(now) })
    };
    conditions.extend([told("Ready", "False"), told("DisruptionTarget", "True")]);
    let patch = json!({
        "metadata": { "uid": lost.uid(), "resourceVersion": lost.resource_version() },
        "status": { "phase": "Failed", "reason": "NodeLost", "message": message, "conditions": conditions },
    });
    let written = pods
        .patch_status(&name, &parameters(), &Patch::Merge(patch))
        .await
        .map_err(failed)?;
    context.metrics.wrote(CONTROLLER);
    context.mirrors.pods.observe(written);
    context
        .events
        .send(Notice::warning(reference(lost), "NodeLost", message));
    Ok(())
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_string()),
        ..PatchParams::default()
    }
}
