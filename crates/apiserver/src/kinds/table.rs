//! Tables: what `kubectl get` prints.
//!
//! The columns of a kind are found once ([`Columns::builtin`], [`Columns::custom`]); each object
//! then becomes a row of cells. Kubernetes' own kinds have the columns and the words of its
//! printers, custom kinds those of their `additionalPrinterColumns`.

mod age;
mod builtin;
pub(crate) mod event;
pub(crate) mod job;
mod jsonpath;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod storage;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use builtin::{
    CONFIG_MAP, CREATED, LEASE, NAMESPACE, PLAIN, Printer, SECRET, SERVICE_ACCOUNT,
};
pub(crate) use jsonpath::Error;
use jsonpath::JsonPath;

#[derive(Clone, Debug)]
pub(crate) struct Columns {
    definitions: Vec<Value>,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    Builtin(fn(&Row<'_>) -> Vec<Value>),
    /// The path of each column, and whether it holds a date.
    Custom(Vec<(JsonPath, Kind)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Date,
}

/// An object on its way into a row.
pub(crate) struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

/// What of the object goes along with each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Columns {
    pub(crate) fn builtin(printer: &Printer) -> Self {
        let definitions = printer.headers.split(", ").map(|header| {
            let (header, priority) = header
                .strip_suffix('*')
                .map_or((header, 0), |name| (name, 1));
            let (name, kind) = header.split_once(':').unwrap_or((header, "string"));
            definition(name, kind, priority)
        });
        Self {
            definitions: definitions.collect(),
            cells: Cells::Builtin(printer.cells),
        }
    }

    /// The columns of a custom kind from its `additionalPrinterColumns`; without any, name and age.
    pub(crate) fn custom(columns: &Value) -> Result<Self, Error> {
        let mut definitions = vec![definition("Name", "string", 0)];
        let mut cells = Vec::new();
        let columns = columns.as_array().map(Vec::as_slice).unwrap_or_default();
        for column in columns {
            let text = |name: &str| column[name].as_str().unwrap_or_default();
            let mut definition = definition(
                text("name"),
                text("type"),
                column["priority"].as_i64().unwrap_or(0),
            );
            definition["format"] = json!(text("format"));
            definition["description"] = json!(text("description"));
            definitions.push(definition);
            let kind = match text("type") {
                "date" => Kind::Date,
                "integer" | "number" => Kind::Number,
                _ => Kind::Text,
            };
            cells.push((JsonPath::parse(text("jsonPath"))?, kind));
        }
        if columns.is_empty() {
            definitions.push(definition("Age", "date", 0));
            cells.push((JsonPath::parse(".metadata.creationTimestamp")?, Kind::Date));
        }
        Ok(Self {
            definitions,
            cells: Cells::Custom(cells),
        })
    }

    fn cells(&self, row: &Row<'_>) -> Vec<Value> {
        match &self.cells {
            Cells::Builtin(cells) => cells(row),
            Cells::Custom(columns) => {
                let mut cells = vec![row.object["metadata"]["name"].clone()];
                cells.extend(columns.iter().map(|(path, kind)| custom(path, *kind, row)));
                cells
            }
        }
    }
}

/// What a Table says before its rows.
pub(crate) fn head(columns: &Columns, metadata: &Value, version: &str) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": version,
        "metadata": metadata,
        "columnDefinitions": columns.definitions,
    })
}

pub(crate) fn row(columns: &Columns, object: &Value, include: Include, now: Timestamp) -> Value {
    let cells = columns.cells(&Row { object, now });
    match include {
        Include::None => json!({ "cells": cells }),
        Include::Metadata => json!({ "cells": cells, "object": partial(object) }),
        Include::Object => json!({ "cells": cells, "object": object }),
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

fn definition(name: &str, kind: &str, priority: i64) -> Value {
    json!({
        "name": name,
        "type": kind,
        "format": if name == "Name" { "name" } else { "" },
        "description": "",
        "priority": priority,
    })
}

fn custom(path: &JsonPath, kind: Kind, row: &Row<'_>) -> Value {
    let found = path.find(row.object);
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match (kind, first) {
        (_, Value::Null) => Value::Null,
        (Kind::Date, Value::String(time)) => json!(age::since_text(time, row.now)),
        (Kind::Number, Value::Number(_)) => (*first).clone(),
        (Kind::Number, Value::String(text)) => text
            .parse::<i64>()
            .map_or_else(|_| (*first).clone(), Value::from),
        // Several values, as of a wildcard, stand side by side.
        _ if found.len() > 1 => json!(
            found
                .iter()
                .map(|one| shown(one))
                .collect::<Vec<_>>()
                .join(",")
        ),
        (_, value) => json!(shown(value)),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Row<'_> {
    fn name(&self) -> Value {
        self.object["metadata"]["name"].clone()
    }

    fn age(&self) -> Value {
        self.since(&self.object["metadata"]["creationTimestamp"])
    }

    /// The time since a timestamp, or `<unknown>`.
    fn since(&self, time: &Value) -> Value {
        match time.as_str() {
            Some(time) => json!(age::since_text(time, self.now)),
            None => json!("<unknown>"),
        }
    }
}

/// The items of a list, or none.
fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, default: &'a str) -> &'a str {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or(default)
}

/// Texts with commas between, or what stands there for none.
fn joined(all: &[impl AsRef<str>], none: &str) -> String {
    match all {
        [] => none.to_owned(),
        [first, rest @ ..] => rest.iter().fold(first.as_ref().to_owned(), |all, one| {
            all + "," + one.as_ref()
        }),
    }
}

/// `a=b,c=d`, or `<none>`.
fn labels(selector: &Value) -> String {
    let pairs = selector.as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    joined(&pairs.collect::<Vec<_>>(), "<none>")
}

/// Whether a status has this condition, and it is true.
fn is_true(status: &Value, kind: &str) -> bool {
    let mut conditions = items(&status["conditions"]).iter();
    conditions.any(|one| one["type"] == kind && one["status"] == "True")
}
