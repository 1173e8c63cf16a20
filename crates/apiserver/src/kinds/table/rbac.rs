//! The columns of role bindings.

use serde_json::{Value, json};

use super::{Printer, Row, items, text};

pub(crate) const BINDING: Printer = Printer {
    headers: "Name, Role, Age, Users*, Groups*, ServiceAccounts*",
    cells: binding,
};

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = &row.object["roleRef"];
    let subjects = |kind: &str| {
        let all = items(&row.object["subjects"])
            .iter()
            .filter(|one| one["kind"] == kind);
        let names = all.map(|one| {
            let name = text(&one["name"], "");
            match one["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                _ => name.to_owned(),
            }
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        row.name(),
        json!(format!(
            "{}/{}",
            text(&role["kind"], ""),
            text(&role["name"], "")
        )),
        row.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
