//! The columns of what rations: quotas, disruption budgets and priority classes.

use serde_json::{Value, json};

use super::{Printer, Row, text};

pub(crate) const QUOTA: Printer = Printer {
    headers: "Name, Request, Limit, Age",
    cells: quota,
};

fn quota(row: &Row<'_>) -> Vec<Value> {
    let status = &row.object["status"];
    let hard = [&status["hard"], &row.object["spec"]["hard"]]
        .into_iter()
        .find_map(Value::as_object);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, amount) in hard.into_iter().flatten() {
        let used = text(&status["used"][resource], "0");
        let shown = format!("{resource}: {used}/{}", text(amount, "0"));
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    vec![
        row.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        row.age(),
    ]
}

pub(crate) const BUDGET: Printer = Printer {
    headers: "Name, Min Available, Max Unavailable, Allowed Disruptions:integer, Age",
    cells: budget,
};

fn budget(row: &Row<'_>) -> Vec<Value> {
    let either = |field: &str| match &row.object["spec"][field] {
        Value::Null => json!("N/A"),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    };
    vec![
        row.name(),
        either("minAvailable"),
        either("maxUnavailable"),
        json!(
            row.object["status"]["disruptionsAllowed"]
                .as_i64()
                .unwrap_or(0)
        ),
        row.age(),
    ]
}

pub(crate) const PRIORITY: Printer = Printer {
    headers: "Name, Value, Global-Default:boolean, Age, PreemptionPolicy",
    cells: |row| {
        let object = row.object;
        vec![
            row.name(),
            object["value"].clone(),
            json!(object["globalDefault"] == true),
            row.age(),
            json!(text(&object["preemptionPolicy"], "PreemptLowerPriority")),
        ]
    },
};
