//! Tables, as `kubectl get` shows them.

use std::borrow::Cow;

use serde_json::Value;

use crate::call::Call;
use crate::table::{self, Columns, Include};

/// A Table of the objects, without `metadata`.
pub(crate) fn table(call: &Call, objects: &[Value]) -> Value {
    let columns = match &call.kind.custom {
        Some(custom) => Cow::Borrowed(&custom.printer),
        None => Cow::Owned(Columns::builtin(&call.kind.group, &call.kind.kind)),
    };
    let include = match call.parameters.include_object.as_deref() {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    };
    let now = (call.core.options.clock)();
    table::render(&columns, objects, &Value::Null, include, now)
}
