//! The rules of Jobs.

use serde_json::Value;

use super::{one_of, pod};
use crate::schema::{FieldError, Reason};

pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    for field in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if spec[field].as_i64().is_some_and(|count| count < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(
                format!("spec.{field}"),
                &spec[field],
                detail,
            ));
        }
    }
    one_of(
        &spec["completionMode"],
        "spec.completionMode",
        &["NonIndexed", "Indexed"],
        errors,
    );
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required("spec.completions", detail));
    }
    let template = &spec["template"];
    if !template.is_object() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    pod::spec(&template["spec"], "spec.template.spec", errors);
    let policy = &template["spec"]["restartPolicy"];
    if policy != "OnFailure" && policy != "Never" {
        let choices = ["OnFailure", "Never"];
        let at = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(at, policy, choices));
    }
    if let Some(old) = old {
        update(new, old, errors);
    }
}

fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let mut fixed = vec![
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
    ];
    // An indexed job may be resized when parallelism and completions change together.
    let is_resized = spec["completionMode"] == "Indexed"
        && spec["completions"] == spec["parallelism"]
        && before["completions"] == before["parallelism"];
    if !is_resized {
        fixed.push("completions");
    }
    for field in fixed {
        if spec[field] != before[field] {
            errors.push(immutable(&format!("spec.{field}")));
        }
    }
    // Before a suspended job has started, queues may still say where its pods go.
    let may_move = before["suspend"] == true && old["status"]["startTime"].is_null();
    let mut template = before["template"].clone();
    if may_move {
        for field in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
            copy(&mut template["spec"], &spec["template"]["spec"], field);
        }
        for field in ["labels", "annotations"] {
            copy(
                &mut template["metadata"],
                &spec["template"]["metadata"],
                field,
            );
        }
    }
    let same = |left: &Value, right: &Value| left == right || (is_bare(left) && is_bare(right));
    if template["spec"] != spec["template"]["spec"]
        || !same(&template["metadata"], &spec["template"]["metadata"])
    {
        errors.push(immutable("spec.template"));
    }
}

fn copy(into: &mut Value, from: &Value, field: &str) {
    if let Some(map) = into.as_object_mut() {
        match from.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    } else if let Some(value) = from.get(field) {
        *into = serde_json::json!({field: value});
    }
}

fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn immutable(at: &str) -> FieldError {
    FieldError::new(
        at,
        Reason::Invalid,
        "Invalid value: \"object\": field is immutable",
    )
}
