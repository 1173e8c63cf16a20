//! The columns of jobs.

use serde_json::{Value, json};

use super::{Printer, Row, is_true, items, labels, text};

pub(crate) const PRINTER: Printer = Printer {
    headers: "Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*",
    cells: job,
};

fn job(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let done = status["succeeded"].as_i64().unwrap_or(0);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}"),
        _ => format!("{done}/1"),
    };
    let is_true = |kind: &str| is_true(status, kind);
    let state = if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if !row.object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is_true("Suspended") {
        "Suspended"
    } else if is_true("FailureTarget") {
        "FailureTarget"
    } else if is_true("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let duration = match (
        status["startTime"].as_str(),
        status["completionTime"].as_str(),
    ) {
        (None, _) => String::new(),
        (Some(start), None) => super::age::since_text(start, row.now),
        (Some(start), Some(end)) => end
            .parse()
            .map_or_else(|_| String::new(), |end| super::age::since_text(start, end)),
    };
    let (names, images) = containers(&spec["template"]["spec"]);
    vec![
        row.name(),
        json!(state),
        json!(completions),
        json!(duration),
        row.age(),
        json!(names),
        json!(images),
        json!(labels(&spec["selector"]["matchLabels"])),
    ]
}

/// The names and the images of a pod template's containers.
fn containers(spec: &Value) -> (String, String) {
    let join = |field: &str| {
        let all = items(&spec["containers"])
            .iter()
            .map(|one| text(&one[field], ""));
        all.collect::<Vec<_>>().join(",")
    };
    (join("name"), join("image"))
}
