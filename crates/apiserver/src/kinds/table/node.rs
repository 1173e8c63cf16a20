//! The columns of nodes.

use serde_json::{Value, json};

use super::{Printer, Row, items, joined, text};

pub(crate) const PRINTER: Printer = Printer {
    headers: "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
    cells: node,
};

fn node(row: &Row<'_>) -> Vec<Value> {
    let status = &row.object["status"];
    let ready = items(&status["conditions"])
        .iter()
        .find(|one| one["type"] == "Ready");
    let mut state = match ready.map(|one| text(&one["status"], "Unknown")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let roles: Vec<_> = row.object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let role = key
                .strip_prefix("node-role.kubernetes.io/")
                .map(str::to_owned);
            let named = || (key == "kubernetes.io/role").then(|| text(value, "").to_owned());
            role.or_else(named).filter(|role| !role.is_empty())
        })
        .collect();
    let address = |kind: &str| {
        let found = items(&status["addresses"])
            .iter()
            .find(|one| one["type"] == kind);
        json!(found.map_or("<none>", |one| text(&one["address"], "<none>")))
    };
    let info = &status["nodeInfo"];
    let from_info = |field: &str| json!(text(&info[field], "<unknown>"));
    vec![
        row.name(),
        json!(state),
        json!(joined(&roles, "<none>")),
        row.age(),
        json!(text(&info["kubeletVersion"], "")),
        address("InternalIP"),
        address("ExternalIP"),
        from_info("osImage"),
        from_info("kernelVersion"),
        from_info("containerRuntimeVersion"),
    ]
}
