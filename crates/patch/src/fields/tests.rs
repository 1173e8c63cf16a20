use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Set, compare, of};
use crate::Keys;

#[rstest]
#[case::leaf(json!({"f:a": {}}), &[".a"])]
#[case::dot(json!({"f:a": {".": {}, "f:b": {}}}), &[".a", ".a.b"])]
#[case::no_dot(json!({"f:a": {"f:b": {}}}), &[".a.b"])]
#[case::item(json!({"f:c": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}}}),
    &[".c[name=\"x\"]", ".c[name=\"x\"].image"])]
#[case::value(json!({"f:finalizers": {"v:\"a\"": {}}}), &[".finalizers[=\"a\"]"])]
fn reads_and_writes_fields(#[case] fields: Value, #[case] paths: &[&str]) {
    let set = Set::from_fields(&fields);
    assert_eq!(set.paths(), paths);
    assert_eq!(set.to_fields(), fields);
}

#[test]
fn extracts_by_list_type() {
    let pod = json!({
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
        "spec": {
            "nodeSelector": {"b": "2"},
            "tolerations": [{"key": "c"}],
            "containers": [{"name": "n", "image": "i", "ports": [{"containerPort": 80}]}],
        }
    });
    let set = of(&pod, Keys::builtin("", "Pod")).unwrap();
    let want = [
        ".metadata.finalizers[=\"x\"]",
        ".metadata.labels.a",
        ".spec.containers[name=\"n\"]",
        ".spec.containers[name=\"n\"].image",
        ".spec.containers[name=\"n\"].name",
        ".spec.containers[name=\"n\"].ports[containerPort=80,protocol=\"TCP\"]",
        ".spec.containers[name=\"n\"].ports[containerPort=80,protocol=\"TCP\"].containerPort",
        ".spec.nodeSelector",
        ".spec.tolerations",
    ];
    assert_eq!(set.paths(), want);
}

#[test]
fn an_item_without_its_key_is_named() {
    let pod = json!({"spec": {"containers": [{"image": "i"}]}});
    let missing = of(&pod, Keys::builtin("", "Pod")).unwrap_err();
    assert_eq!(
        (missing.path.as_str(), missing.key.as_str()),
        (".spec.containers[0]", "name")
    );
}

#[test]
fn compares_by_key_and_ignores_order() {
    let keys = Keys::builtin("", "Pod");
    let old = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}});
    let new = json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}});
    let changes = compare(&old, &new, keys);
    let written = [
        ".spec.containers[name=\"a\"].image",
        ".spec.containers[name=\"c\"]",
        ".spec.containers[name=\"c\"].name",
    ];
    let removed = [
        ".spec.containers[name=\"b\"]",
        ".spec.containers[name=\"b\"].name",
    ];
    assert_eq!(changes.written.paths(), written);
    assert_eq!(changes.removed.paths(), removed);
    let reversed = json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "image": "1"}]}});
    assert!(compare(&old, &reversed, keys).is_empty());
}

/// Sets over a few names, deep enough to nest.
fn any_set() -> impl Strategy<Value = Set> {
    let leaf = Just(json!({}));
    leaf.prop_recursive(3, 24, 4, |inner| {
        let name = proptest::sample::select(vec!["f:a", "f:b", "k:{\"n\":1}", "v:1", "."]);
        prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..4).prop_map(|map| {
            let entries = map.into_iter().map(|(name, below)| {
                let below = if name == "." { json!({}) } else { below };
                (name, below)
            });
            Value::Object(entries.collect())
        })
    })
    .prop_map(|fields| Set::from_fields(&fields))
}

fn union(left: &Set, right: &Set) -> Set {
    let mut all = left.clone();
    all.union(right);
    all
}

fn minus(left: &Set, right: &Set) -> Set {
    let mut rest = left.clone();
    rest.subtract(right);
    rest
}

proptest! {
    #[test]
    fn fields_round_trip(set in any_set()) {
        prop_assert_eq!(Set::from_fields(&set.to_fields()), set);
    }

    #[test]
    fn union_is_a_union(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(union(&a, &b), union(&b, &a));
        prop_assert_eq!(union(&union(&a, &b), &c), union(&a, &union(&b, &c)));
        prop_assert_eq!(union(&a, &a), a);
    }

    #[test]
    fn parts_make_the_whole(a in any_set(), b in any_set()) {
        let both = a.intersection(&b);
        let only = minus(&a, &b);
        prop_assert_eq!(&union(&both, &only), &a);
        prop_assert!(both.intersection(&only).is_empty());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert!(minus(&a, &a).is_empty());
    }
}
