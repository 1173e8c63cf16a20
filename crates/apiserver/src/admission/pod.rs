//! What a new pod gets from other objects, and how long a deleted one may take.

use serde_json::Value;

use super::limit_range;
use crate::kinds::metadata;
use crate::status::{ApiError, Result};
use crate::store::{Name, Query};
use crate::verbs::call::Call;

/// Completes a new pod by its priority class and the limit ranges of its namespace.
pub(crate) fn prepare(call: &Call, pod: &mut Value, old: Option<&Value>) -> Result<()> {
    if old.is_none() {
        prioritise(call, pod)?;
        limit_range::default(&limit_range::ranges(call), pod);
    }
    Ok(())
}

/// Only pods that a node may be running have time to end.
pub(crate) fn grace_period(pod: &Value, wanted: Option<i64>) -> i64 {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let phase = pod["status"]["phase"].as_str();
    if node.is_empty() || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let wanted = wanted.or(own).unwrap_or(30);
    // As in Kubernetes, less than nothing is a moment.
    let wanted = if wanted < 0 { 1 } else { wanted };
    match pod["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(left) if metadata::is_terminating(pod) => wanted.min(left),
        _ => wanted,
    }
}

/// The priority of a pod is that of its class.
fn prioritise(call: &Call, new: &mut Value) -> Result<()> {
    const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
    let store = &call.core.store;
    let named = new["spec"]["priorityClassName"]
        .as_str()
        .filter(|name| !name.is_empty());
    let class = if let Some(name) = named {
        let class = store.get(CLASSES, &Name::new("", name));
        let class = class.ok_or_else(|| ApiError::Forbidden {
            subject: call.kind.subject(metadata::text(new, "name")),
            reason: format!("no PriorityClass with name {name} was found"),
        })?;
        Some(class.value())
    } else {
        let classes = store
            .list(CLASSES, &Query::default())
            .map(|page| page.objects);
        let mut values = classes
            .unwrap_or_default()
            .into_iter()
            .map(|class| class.value());
        values.find(|class| class["globalDefault"] == true)
    };
    let Some(spec) = new["spec"].as_object_mut() else {
        return Ok(());
    };
    let value = class
        .as_ref()
        .and_then(|class| class["value"].as_i64())
        .unwrap_or(0);
    spec.insert("priority".to_owned(), value.into());
    let policy = class
        .as_ref()
        .and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    if let (None, Some(class)) = (spec.get("priorityClassName"), &class) {
        spec.insert(
            "priorityClassName".to_owned(),
            class["metadata"]["name"].clone(),
        );
    }
    Ok(())
}
