//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges `patch` into `target`: maps recursively, null removes, everything else replaces.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            apply(target.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::strategic::tests::any_json;

    #[rstest]
    #[case::replaces(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}))]
    #[case::adds(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}))]
    #[case::removes(json!({"a": "b", "b": 1}), json!({"a": null}), json!({"b": 1}))]
    #[case::lists_whole(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}))]
    #[case::nested(
        json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})
    )]
    #[case::scalar_to_map(json!({"a": 1}), json!({"a": {"b": 2}}), json!({"a": {"b": 2}}))]
    #[case::nulls_of_new_maps(json!({}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {}}}))]
    #[case::whole(json!({"a": 1}), json!([1]), json!([1]))]
    fn merges(#[case] mut target: Value, #[case] patch: Value, #[case] want: Value) {
        apply(&mut target, &patch);
        assert_eq!(target, want);
    }

    proptest! {
        #[test]
        fn twice_is_once(mut target in any_json(), patch in any_json()) {
            apply(&mut target, &patch);
            let once = target.clone();
            apply(&mut target, &patch);
            prop_assert_eq!(target, once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(target in any_json()) {
            let target = json!({ "field": target });
            let mut patched = target.clone();
            apply(&mut patched, &json!({}));
            prop_assert_eq!(patched, target);
        }
    }
}
