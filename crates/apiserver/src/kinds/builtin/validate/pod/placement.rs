//! Where a pod may run: selectors, tolerations, affinity, spread.

use serde_json::Value;

use super::super::one_of;
use super::{list, problem, text};
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn placement(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
        let at = format!("{at}.nodeSelector");
        problem(
            metadata::key_problem(key),
            &key.as_str().into(),
            &at,
            errors,
        );
        label_value(value, &at, errors);
    }
    for (index, one) in list(spec, "tolerations").iter().enumerate() {
        toleration(one, &format!("{at}.tolerations[{index}]"), errors);
    }
    let at_affinity = format!("{at}.affinity");
    node_affinity(
        &spec["affinity"]["nodeAffinity"],
        &format!("{at_affinity}.nodeAffinity"),
        errors,
    );
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = format!("{at_affinity}.{kind}");
        pod_affinity(&spec["affinity"][kind], &at, errors);
    }
    for (index, one) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{at}.topologySpreadConstraints[{index}]");
        spread(one, &at, errors);
    }
}

fn label_value(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let text = value.as_str().unwrap_or_default();
    let found = (!metadata::is_label_value(text)).then_some(metadata::LABEL_VALUE);
    problem(found, value, at, errors);
}

fn toleration(one: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (key, operator, effect) = (text(one, "key"), text(one, "operator"), text(one, "effect"));
    let field = |name: &str| format!("{at}.{name}");
    if !key.is_empty() {
        problem(
            metadata::key_problem(key),
            &one["key"],
            &field("key"),
            errors,
        );
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        let shown = operator.into();
        errors.push(FieldError::invalid(field("operator"), &shown, detail));
    }
    if !one["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        let shown = effect.into();
        errors.push(FieldError::invalid(field("effect"), &shown, detail));
    }
    match operator {
        "" | "Equal" => label_value(&one["value"], &field("operator"), errors),
        "Exists" if !text(one, "value").is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(
                field("operator"),
                &one["value"],
                detail,
            ));
        }
        "Exists" => {}
        _ => one_of(
            &one["operator"],
            &field("operator"),
            &["Equal", "Exists"],
            errors,
        ),
    }
    if !effect.is_empty() {
        one_of(&one["effect"], &field("effect"), &EFFECTS, errors);
    }
}

fn node_affinity(affinity: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let required = &affinity[REQUIRED];
    if required.is_object() {
        let at = format!("{at}.{REQUIRED}.nodeSelectorTerms");
        let terms = list(required, "nodeSelectorTerms");
        if terms.is_empty() {
            let detail = "must have at least one node selector term";
            errors.push(FieldError::required(&*at, detail));
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, &format!("{at}[{index}]"), errors);
        }
    }
    for (index, one) in list(affinity, PREFERRED).iter().enumerate() {
        let at = format!("{at}.{PREFERRED}[{index}]");
        weight(one, &at, errors);
        node_term(&one["preference"], &format!("{at}.preference"), errors);
    }
}

fn node_term(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["matchExpressions", "matchFields"] {
        for (index, one) in list(term, field).iter().enumerate() {
            let at = format!("{at}.{field}[{index}]");
            requirement(one, &["Gt", "Lt"], &at, errors);
        }
    }
}

fn weight(one: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let weight = &one["weight"];
    if !weight
        .as_i64()
        .is_some_and(|weight| (1..=100).contains(&weight))
    {
        let at = format!("{at}.weight");
        errors.push(FieldError::invalid(
            at,
            weight,
            "must be in the range 1-100",
        ));
    }
}

fn pod_affinity(affinity: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (index, term) in list(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &format!("{at}.{REQUIRED}[{index}]"), errors);
    }
    for (index, one) in list(affinity, PREFERRED).iter().enumerate() {
        let at = format!("{at}.{PREFERRED}[{index}]");
        weight(one, &at, errors);
        let at = format!("{at}.podAffinityTerm");
        pod_term(&one["podAffinityTerm"], &at, errors);
    }
}

fn pod_term(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["labelSelector", "namespaceSelector"] {
        selector(&term[field], &format!("{at}.{field}"), errors);
    }
    topology_key(term, "can not be empty", at, errors);
}

fn topology_key(of: &Value, detail: &str, at: &str, errors: &mut Vec<FieldError>) {
    let (key, at) = (text(of, "topologyKey"), format!("{at}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(at, detail));
    } else {
        problem(metadata::key_problem(key), &of["topologyKey"], &at, errors);
    }
}

fn spread(one: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const CHOICES: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    if one["maxSkew"].as_i64().is_none_or(|skew| skew <= 0) {
        let at = format!("{at}.maxSkew");
        errors.push(FieldError::invalid(
            at,
            &one["maxSkew"],
            "must be greater than zero",
        ));
    }
    topology_key(one, "can not be empty", at, errors);
    let at_choice = format!("{at}.whenUnsatisfiable");
    one_of(&one["whenUnsatisfiable"], &at_choice, &CHOICES, errors);
    selector(
        &one["labelSelector"],
        &format!("{at}.labelSelector"),
        errors,
    );
}

/// A `LabelSelector`.
pub(in super::super) fn selector(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let at = format!("{at}.matchLabels");
        problem(
            metadata::key_problem(key),
            &key.as_str().into(),
            &at,
            errors,
        );
        label_value(value, &at, errors);
    }
    for (index, one) in list(selector, "matchExpressions").iter().enumerate() {
        requirement(one, &[], &format!("{at}.matchExpressions[{index}]"), errors);
    }
}

/// A key, an operator, and as many values as that compares with. Nodes are also compared by numbers.
fn requirement(one: &Value, numbers: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let (operator, values) = (text(one, "operator"), list(one, "values").len());
    let at_values = format!("{at}.values");
    match operator {
        "In" | "NotIn" if values == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(at_values, detail));
        }
        "Exists" | "DoesNotExist" if values > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(at_values, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if numbers.contains(&operator) => {
            if values != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(at_values, detail));
            }
        }
        _ => {
            let (at, detail) = (format!("{at}.operator"), "not a valid selector operator");
            errors.push(FieldError::invalid(at, &one["operator"], detail));
        }
    }
    let key = text(one, "key");
    problem(
        metadata::key_problem(key),
        &one["key"],
        &format!("{at}.key"),
        errors,
    );
}
