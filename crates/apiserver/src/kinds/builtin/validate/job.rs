//! The rules of Jobs.

mod policies;

use serde_json::Value;

use super::{one_of, pod};
use crate::kinds::builtin::names;
use crate::kinds::schema::FieldError;
use crate::kinds::selector::Labels;

/// How long the name of a manager may be.
const MOST_OF_A_MANAGER: usize = 63;

pub(in crate::kinds::builtin) fn job(
    new: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
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
    indexes(spec, errors);
    if old.is_none() {
        names(new, errors);
    }
    let template = &spec["template"];
    if !template.is_object() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    selector(new, old, errors);
    if old.is_none_or(|old| old["spec"]["template"]["spec"] != template["spec"]) {
        pod::spec(&template["spec"], "spec.template.spec", errors);
    }
    let policy = &template["spec"]["restartPolicy"];
    let at = "spec.template.spec.restartPolicy";
    if policy != "OnFailure" && policy != "Never" {
        let choices = ["OnFailure", "Never"];
        errors.push(FieldError::not_supported(at, policy, choices));
    } else if policy != "Never" && spec["podFailurePolicy"].is_object() {
        let detail = "only \"Never\" is supported when pod failure policy is specified";
        errors.push(FieldError::invalid(at, policy, detail));
    } else if policy != "Never" && !spec["backoffLimitPerIndex"].is_null() {
        let detail = "only \"Never\" is supported when backoffLimitPerIndex is specified";
        errors.push(FieldError::invalid(at, policy, detail));
    }
    replacement(spec, errors);
    policies::failure(spec, errors);
    policies::success(spec, errors);
    if let Some(old) = old {
        update(new, old, errors);
    }
}

/// What goes together with indexes, and what needs them.
fn indexes(spec: &Value, errors: &mut Vec<FieldError>) {
    const MOST_PODS: i64 = 100_000;
    let number = |field: &str| spec[field].as_i64();
    let mut invalid = |field: &str, detail: &str| {
        errors.push(FieldError::invalid(
            format!("spec.{field}"),
            &spec[field],
            detail,
        ));
    };
    if spec["completionMode"] != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[field].is_null() {
                invalid(field, "requires indexed completion mode");
            }
        }
        return;
    }
    let many = "must be less than or equal to 100000 when completion mode is Indexed";
    if number("parallelism").is_some_and(|count| count > MOST_PODS) {
        invalid("parallelism", many);
    }
    let completions = number("completions");
    if let (Some(failed), Some(all)) = (number("maxFailedIndexes"), completions)
        && failed > all
    {
        invalid(
            "maxFailedIndexes",
            "must be less than or equal to completions",
        );
    }
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required("spec.completions", detail));
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required("spec.backoffLimitPerIndex", detail));
    }
}

/// Who looks after the job, and what its pods will be called: an index is part of a host's name.
fn names(job: &Value, errors: &mut Vec<FieldError>) {
    let spec = &job["spec"];
    let manager = &spec["managedBy"];
    if let Some(text) = manager.as_str() {
        let path = text.split_once('/');
        let is_path = path.is_some_and(|(domain, path)| {
            names::subdomain_problem(domain).is_none() && !path.is_empty()
        });
        if !is_path {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid("spec.managedBy", manager, detail));
        } else if text.len() > MOST_OF_A_MANAGER {
            errors.push(FieldError::too_long("spec.managedBy", MOST_OF_A_MANAGER));
        }
    }
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    let last = spec["completions"].as_i64().unwrap_or_default() - 1;
    let indexed = spec["completionMode"] == "Indexed" && last >= 0 && !name.is_empty();
    let pod = indexed.then(|| format!("{name}-{last}"));
    if let Some(problem) = pod.as_deref().and_then(names::label_problem) {
        let detail = format!("will not able to create pod with invalid DNS label: {problem}");
        let shown = name.into();
        errors.push(FieldError::invalid("metadata.name", &shown, &detail));
    }
}

/// A job finds its pods by its own uid, unless its author takes that over.
fn selector(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (spec, uid) = (&new["spec"], &new["metadata"]["uid"]);
    let (selector, labels) = (&spec["selector"], &spec["template"]["metadata"]["labels"]);
    if old.is_some() || uid.is_null() {
        return;
    }
    if spec["manualSelector"] != true {
        let own = ["batch.kubernetes.io/controller-uid", "controller-uid"];
        let generated = selector["matchExpressions"]
            .as_array()
            .is_none_or(Vec::is_empty)
            && selector["matchLabels"].as_object().is_some_and(|labels| {
                !labels.is_empty()
                    && labels
                        .iter()
                        .all(|(key, value)| own.contains(&key.as_str()) && value == uid)
            });
        if !generated {
            let detail = "`selector` not auto-generated; leave it out, or set `manualSelector`";
            errors.push(FieldError::invalid("spec.selector", selector, detail));
        }
    } else if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else {
        let selects = Labels::of(selector)
            .is_some_and(|selector| selector.match_by(|key| labels[key].as_str()));
        if !selects {
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(
                "spec.template.metadata.labels",
                labels,
                detail,
            ));
        }
    }
}

fn replacement(spec: &Value, errors: &mut Vec<FieldError>) {
    let policy = &spec["podReplacementPolicy"];
    let choices: &[&str] = if spec["podFailurePolicy"].is_object() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if !policy.is_null() {
        one_of(policy, "spec.podReplacementPolicy", choices, errors);
    }
}

fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let mut fixed = vec![
        "selector",
        "completionMode",
        "podFailurePolicy",
        "successPolicy",
        "backoffLimitPerIndex",
        "managedBy",
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
            errors.push(immutable(&format!("spec.{field}"), &spec[field]));
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
        errors.push(immutable("spec.template", &spec["template"]));
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

fn immutable(at: &str, value: &Value) -> FieldError {
    let shown = match value {
        Value::Object(_) | Value::Array(_) => "object".into(),
        value => value.clone(),
    };
    FieldError::invalid(at, &shown, "field is immutable")
}
