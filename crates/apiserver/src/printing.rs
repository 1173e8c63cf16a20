//! Tables, as `kubectl get` shows them.

use serde_json::{Value, json};

use crate::call::Call;
use crate::respond::partial;

/// A Table of the objects, without `metadata`.
pub(crate) fn table(call: &Call, objects: &[Value]) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let included = match call.parameters.include_object.as_deref() {
                Some("None") => Value::Null,
                Some("Object") => object.clone(),
                _ => partial(object),
            };
            json!({
                "cells": [object["metadata"]["name"], object["metadata"]["creationTimestamp"]],
                "object": included,
            })
        })
        .collect();
    json!({
        "kind": "Table",
        "columnDefinitions": [
            { "name": "Name", "type": "string", "format": "name", "priority": 0, "description": "" },
            { "name": "Created At", "type": "date", "format": "", "priority": 0, "description": "" },
        ],
        "rows": rows,
    })
}
