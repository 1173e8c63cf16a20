//! What of a pod may change once it is there.

use serde_json::Value;

use super::list;
use crate::kinds::schema::FieldError;

const UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What of a pod may change: images, and what is loosened rather than turned around.
pub(in super::super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut allowed = old["spec"].clone();
    let wanted = &new["spec"];
    for field in ["containers", "initContainers"] {
        let images = list(wanted, field);
        let mine = allowed.get_mut(field).and_then(Value::as_array_mut);
        let mine = mine.map(Vec::as_mut_slice).unwrap_or_default();
        for (mine, theirs) in mine.iter_mut().zip(images) {
            put(mine, theirs, "image");
        }
    }
    put(&mut allowed, wanted, "activeDeadlineSeconds");
    deadline(&wanted["activeDeadlineSeconds"], &old["spec"], errors);
    let kept = list(&allowed, "tolerations")
        .iter()
        .all(|one| list(wanted, "tolerations").contains(one));
    if kept {
        put(&mut allowed, wanted, "tolerations");
    }
    let (before, after) = (
        &old["spec"]["terminationGracePeriodSeconds"],
        &wanted["terminationGracePeriodSeconds"],
    );
    if before.as_i64().is_some_and(|seconds| seconds < 0) && *after == 1 {
        put(&mut allowed, wanted, "terminationGracePeriodSeconds");
    }
    // A gate may be opened, and while one is shut the pod may still be steered.
    let gates = list(&old["spec"], "schedulingGates");
    if list(wanted, "schedulingGates")
        .iter()
        .all(|gate| gates.contains(gate))
    {
        put(&mut allowed, wanted, "schedulingGates");
    }
    if !gates.is_empty() {
        put(&mut allowed, wanted, "nodeSelector");
        put(&mut allowed, wanted, "affinity");
    }
    // Binding sets the node once.
    if old["spec"]["nodeName"].is_null() {
        put(&mut allowed, wanted, "nodeName");
    }
    put(&mut allowed, wanted, "ephemeralContainers");
    if allowed != *wanted {
        errors.push(FieldError::forbidden("spec", UPDATE));
    }
}

/// A deadline may be set, and lowered.
fn deadline(wanted: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let Some(before) = old["activeDeadlineSeconds"].as_i64() else {
        return;
    };
    let detail = match wanted.as_i64() {
        Some(seconds) if seconds <= before => return,
        Some(_) => "must be less than or equal to previous value",
        None => "must not update from a positive integer to nil value",
    };
    errors.push(FieldError::invalid(
        "spec.activeDeadlineSeconds",
        wanted,
        detail,
    ));
}

fn put(into: &mut Value, from: &Value, field: &str) {
    if let Some(map) = into.as_object_mut() {
        match from.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
}
