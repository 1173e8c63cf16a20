//! The fifth step of every reconcile: one write of the status, and only of what differs.
//!
//! The write names the resource version that the decision was made on, so that a decision on an outdated object
//! is refused and made again. Fields of the status that are not ours are left alone.

use std::fmt::Debug;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::context::FIELD_MANAGER;

/// Writes `new` over the status `old` of `object` if they differ, and returns the object as it then is.
pub(crate) async fn write<K, S>(
    api: &Api<K>,
    object: &K,
    old: Option<&S>,
    new: &S,
) -> kube::Result<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let Some(change) = difference(old, new).map_err(kube::Error::SerdeError)? else {
        return Ok(None);
    };
    let meta = object.meta();
    let patch = json!({
        "metadata": { "resourceVersion": meta.resource_version, "uid": meta.uid },
        "status": change,
    });
    let name = meta.name.as_deref().unwrap_or_default();
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_string()),
        ..PatchParams::default()
    };
    api.patch_status(name, &parameters, &Patch::Merge(patch))
        .await
        .map(Some)
}

/// The merge patch that makes `new` of `old`; `None` if they are equal.
fn difference<S: Serialize>(old: Option<&S>, new: &S) -> serde_json::Result<Option<Value>> {
    let old = old
        .map(serde_json::to_value)
        .transpose()?
        .unwrap_or_else(|| Value::Object(Map::new()));
    Ok(merge_patch(&old, &serde_json::to_value(new)?))
}

fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let gone = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let change = match before.get(key) {
            Some(known) => merge_patch(known, value)?,
            None => value.clone(),
        };
        Some((key.clone(), change))
    });
    let patch: Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::equal(json!({"a": 1}), json!({"a": 1}), None)]
    #[case::changed(json!({"a": 1, "b": 2}), json!({"a": 3, "b": 2}), Some(json!({"a": 3})))]
    #[case::gone(json!({"a": 1, "b": 2}), json!({"b": 2}), Some(json!({"a": null})))]
    #[case::nested(json!({"a": {"x": 1, "y": 2}}), json!({"a": {"x": 1}}), Some(json!({"a": {"y": null}})))]
    #[case::lists_are_replaced(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})))]
    #[case::new_empty_object(json!({}), json!({"a": {}}), Some(json!({"a": {}})))]
    fn only_what_differs_is_written(
        #[case] old: Value,
        #[case] new: Value,
        #[case] want: Option<Value>,
    ) {
        assert_eq!(merge_patch(&old, &new), want);
    }
}
