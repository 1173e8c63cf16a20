//! The rules of a Job's `podFailurePolicy` and `successPolicy`.

use serde_json::Value;

use super::one_of;
use crate::kinds::schema::FieldError;

const MOST_RULES: usize = 20;
const MOST_CODES: usize = 255;
const LONGEST_INDEXES: usize = 64 << 10;

pub(super) fn failure(spec: &Value, errors: &mut Vec<FieldError>) {
    let rules = list(&spec["podFailurePolicy"]["rules"]);
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(
            "spec.podFailurePolicy.rules",
            rules.len(),
            MOST_RULES,
        ));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("spec.podFailurePolicy.rules[{index}]");
        let action = &rule["action"];
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        one_of(action, &format!("{at}.action"), &actions, errors);
        if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(format!("{at}.action"), action, detail));
        }
        let (codes, conditions) = (&rule["onExitCodes"], list(&rule["onPodConditions"]));
        let detail = match (codes.is_object(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => "",
        };
        if !detail.is_empty() {
            errors.push(FieldError::invalid(at.as_str(), rule, detail));
        }
        if codes.is_object() {
            exit_codes(spec, codes, &format!("{at}.onExitCodes"), errors);
        }
        if conditions.len() > MOST_RULES {
            let at = format!("{at}.onPodConditions");
            errors.push(FieldError::too_many(at, conditions.len(), MOST_RULES));
        }
        for (index, condition) in conditions.iter().enumerate() {
            let at = format!("{at}.onPodConditions[{index}]");
            if condition["type"].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("{at}.type"), ""));
            }
            let status = &condition["status"];
            if !status.is_null() {
                one_of(
                    status,
                    &format!("{at}.status"),
                    &["False", "True", "Unknown"],
                    errors,
                );
            }
        }
    }
}

fn exit_codes(spec: &Value, codes: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let operator = &codes["operator"];
    one_of(
        operator,
        &format!("{at}.operator"),
        &["In", "NotIn"],
        errors,
    );
    if let Some(name) = codes["containerName"].as_str() {
        let pod = &spec["template"]["spec"];
        let mut known = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|field| list(&pod[field]));
        if !known.any(|container| container["name"] == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            let at = format!("{at}.containerName");
            errors.push(FieldError::invalid(at, &codes["containerName"], detail));
        }
    }
    let values: Vec<i64> = list(&codes["values"])
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid(
            format!("{at}.values"),
            &codes["values"],
            detail,
        ));
    };
    if values.is_empty() {
        invalid("at least one value is required");
    }
    if !values.is_sorted() {
        invalid("must be ordered");
    }
    if values.windows(2).any(|pair| pair[0] == pair[1]) {
        invalid("must not have the same value twice");
    }
    if operator == "In" && values.contains(&0) {
        invalid("must not be 0 for the In operator");
    }
    if values.len() > MOST_CODES {
        errors.push(FieldError::too_many(
            format!("{at}.values"),
            values.len(),
            MOST_CODES,
        ));
    }
}

pub(super) fn success(spec: &Value, errors: &mut Vec<FieldError>) {
    let policy = &spec["successPolicy"];
    if !policy.is_object() {
        return;
    }
    let at = "spec.successPolicy";
    if spec["completionMode"] != "Indexed" {
        errors.push(FieldError::invalid(
            at,
            policy,
            "requires indexed completion mode",
        ));
        return;
    }
    let rules = list(&policy["rules"]);
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(format!("{at}.rules"), detail));
    }
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(
            format!("{at}.rules"),
            rules.len(),
            MOST_RULES,
        ));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("{at}.rules[{index}]");
        if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(at.as_str(), detail));
        }
        let count = rule["succeededCount"].as_i64();
        indexes(spec, rule, &at, errors);
        let completions = spec["completions"].as_i64().unwrap_or(i64::MAX);
        if count.is_some_and(|count| count < 1 || count > completions) {
            let detail = "must be at least 1 and no more than completions";
            let at = format!("{at}.succeededCount");
            errors.push(FieldError::invalid(at, &rule["succeededCount"], detail));
        }
    }
}

/// Indexes are written as numbers and ranges in ascending order: `0,2-4`.
fn indexes(spec: &Value, rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let written = &rule["succeededIndexes"];
    let Some(text) = written.as_str() else {
        return;
    };
    let at_indexes = format!("{at}.succeededIndexes");
    if text.len() > LONGEST_INDEXES {
        errors.push(FieldError::too_long(at_indexes, LONGEST_INDEXES));
        return;
    }
    let completions = spec["completions"].as_i64().unwrap_or(i64::MAX);
    match ranges(text, completions) {
        Err(problem) => {
            let detail = format!("error parsing succeededIndexes: {problem}");
            errors.push(FieldError::invalid(at_indexes, written, &detail));
        }
        Ok(total) => {
            let count = &rule["succeededCount"];
            if count.as_i64().is_some_and(|count| count > total) {
                let detail = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                let at = format!("{at}.succeededCount");
                errors.push(FieldError::invalid(at, count, &detail));
            }
        }
    }
}

/// How many indexes there are, all of them below `completions`.
fn ranges(text: &str, completions: i64) -> Result<i64, String> {
    let (mut next, mut total) = (0, 0);
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let mut bounds = range.splitn(2, '-').map(|number| {
            let parsed = number.parse::<u32>().map(i64::from);
            parsed.map_err(|_| format!("cannot convert string to integer for index: {number:?}"))
        });
        let first = bounds.next().unwrap_or(Ok(0))?;
        let last = bounds.next().unwrap_or(Ok(first))?;
        if last >= completions {
            return Err(format!("too large index: \"{last}\""));
        }
        if first < next || last < first {
            return Err(format!("non-increasing order, at: {range:?}"));
        }
        (next, total) = (last + 1, total + last - first + 1);
    }
    Ok(total)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
