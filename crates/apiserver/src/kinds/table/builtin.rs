//! The columns of Kubernetes' own kinds, those of the larger ones in files of their own.

use serde_json::{Value, json};

use super::{Row, items, text};

/// What `kubectl get` shows of a kind.
#[derive(Debug)]
pub(crate) struct Printer {
    /// The columns: those with a star show only with `-o wide`, and what is no text says what it is.
    pub(super) headers: &'static str,
    pub(super) cells: fn(&Row<'_>) -> Vec<Value>,
}

/// Of a kind without a printer of its own.
pub(crate) const PLAIN: Printer = Printer {
    headers: "Name, Age",
    cells: |row| vec![row.name(), row.age()],
};

pub(crate) const CREATED: Printer = Printer {
    headers: "Name, Created At:date",
    cells: |row| {
        let created = &row.object["metadata"]["creationTimestamp"];
        vec![row.name(), created.clone()]
    },
};

pub(crate) const NAMESPACE: Printer = Printer {
    headers: "Name, Status, Age",
    cells: |row| vec![row.name(), row.object["status"]["phase"].clone(), row.age()],
};

pub(crate) const CONFIG_MAP: Printer = Printer {
    headers: "Name, Data, Age",
    cells: |row| vec![row.name(), data(row, &["data", "binaryData"]), row.age()],
};

pub(crate) const SECRET: Printer = Printer {
    headers: "Name, Type, Data, Age",
    cells: |row| {
        let kind = text(&row.object["type"], "Opaque");
        vec![row.name(), json!(kind), data(row, &["data"]), row.age()]
    },
};

pub(crate) const SERVICE_ACCOUNT: Printer = Printer {
    headers: "Name, Secrets, Age",
    cells: |row| {
        vec![
            row.name(),
            json!(items(&row.object["secrets"]).len()),
            row.age(),
        ]
    },
};

pub(crate) const LEASE: Printer = Printer {
    headers: "Name, Holder, Age",
    cells: |row| {
        let holder = &row.object["spec"]["holderIdentity"];
        vec![row.name(), holder.clone(), row.age()]
    },
};

fn data(row: &Row<'_>, fields: &[&str]) -> Value {
    let sizes = fields.iter().map(|field| {
        row.object[*field]
            .as_object()
            .map_or(0, serde_json::Map::len)
    });
    json!(sizes.sum::<usize>())
}
