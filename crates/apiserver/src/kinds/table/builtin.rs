//! The columns of Kubernetes' own kinds, those of the larger ones in files of their own.

use serde_json::{Value, json};

use super::{Row, items, text};

/// Name, type and priority of a column; those with a priority show only with `-o wide`.
pub(super) type Header = (&'static str, &'static str, i64);

/// What `kubectl get` shows of a kind.
#[derive(Debug)]
pub(crate) struct Printer {
    pub(super) headers: &'static [Header],
    pub(super) cells: fn(&Row<'_>) -> Vec<Value>,
}

pub(super) const NAME: Header = ("Name", "string", 0);
pub(super) const AGE: Header = ("Age", "string", 0);

/// Of a kind without a printer of its own.
pub(crate) const PLAIN: Printer = Printer {
    headers: &[NAME, AGE],
    cells: |row| vec![row.name(), row.age()],
};

pub(crate) const CREATED: Printer = Printer {
    headers: &[NAME, ("Created At", "date", 0)],
    cells: |row| {
        let created = &row.object["metadata"]["creationTimestamp"];
        vec![row.name(), created.clone()]
    },
};

pub(crate) const NAMESPACE: Printer = Printer {
    headers: &[NAME, ("Status", "string", 0), AGE],
    cells: |row| vec![row.name(), row.object["status"]["phase"].clone(), row.age()],
};

pub(crate) const CONFIG_MAP: Printer = Printer {
    headers: &[NAME, ("Data", "string", 0), AGE],
    cells: |row| vec![row.name(), data(row, &["data", "binaryData"]), row.age()],
};

pub(crate) const SECRET: Printer = Printer {
    headers: &[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE],
    cells: |row| {
        let kind = text(&row.object["type"], "Opaque");
        vec![row.name(), json!(kind), data(row, &["data"]), row.age()]
    },
};

pub(crate) const SERVICE_ACCOUNT: Printer = Printer {
    headers: &[NAME, ("Secrets", "string", 0), AGE],
    cells: |row| {
        vec![
            row.name(),
            json!(items(&row.object["secrets"]).len()),
            row.age(),
        ]
    },
};

pub(crate) const LEASE: Printer = Printer {
    headers: &[NAME, ("Holder", "string", 0), AGE],
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
