//! Tables, as `kubectl get` shows them.

use serde_json::Value;

use crate::call::Call;
use crate::table::{self, Include};

/// A Table of the objects; `metadata` is the list's.
pub(crate) fn table(call: &Call, objects: &[Value], metadata: &Value, version: &str) -> Value {
    let include = match call.parameters.include_object.as_deref() {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    };
    let now = (call.core.options.clock)();
    let mut table = table::render(&call.kind.columns, objects, metadata, include, now);
    table["apiVersion"] = version.into();
    table
}
