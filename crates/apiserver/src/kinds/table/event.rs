//! The columns of events, of either kind.

use serde_json::{Value, json};

use super::{Printer, Row, text};

pub(crate) const PRINTER: Printer = Printer {
    headers: "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*",
    cells: event,
};

fn event(row: &Row<'_>) -> Vec<Value> {
    let object = row.object;
    // The newer kind of event has other names for the same things.
    let either = |old: &str, new: &str| match &object[old] {
        Value::Null => object[new].clone(),
        value => value.clone(),
    };
    let involved = either("involvedObject", "regarding");
    let first = [
        &object["firstTimestamp"],
        &object["deprecatedFirstTimestamp"],
        &object["eventTime"],
    ]
    .into_iter()
    .find(|time| time.is_string())
    .unwrap_or(&Value::Null);
    let last = [
        &object["series"]["lastObservedTime"],
        &object["lastTimestamp"],
        &object["deprecatedLastTimestamp"],
        first,
    ]
    .into_iter()
    .find(|time| time.is_string())
    .unwrap_or(&Value::Null);
    let count = [
        &object["series"]["count"],
        &object["count"],
        &object["deprecatedCount"],
    ]
    .into_iter()
    .find_map(Value::as_i64)
    .unwrap_or(1);
    let kind = text(&involved["kind"], "").to_lowercase();
    let name = text(&involved["name"], "");
    let target = if kind.is_empty() {
        name.to_owned()
    } else {
        format!("{kind}/{name}")
    };
    let source = either("source", "deprecatedSource");
    let component = text(
        &source["component"],
        text(
            &object["reportingComponent"],
            text(&object["reportingController"], ""),
        ),
    );
    let source = match source["host"].as_str().filter(|host| !host.is_empty()) {
        Some(host) => format!("{component}, {host}"),
        None => component.to_owned(),
    };
    vec![
        row.since(last),
        object["type"].clone(),
        object["reason"].clone(),
        json!(target),
        json!(text(&involved["fieldPath"], "")),
        json!(source),
        json!(text(&either("message", "note"), "").trim()),
        row.since(first),
        json!(count),
        row.name(),
    ]
}
