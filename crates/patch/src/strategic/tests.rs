use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Error, Keys, merge};

fn patched(base: &Value, patch: &Value) -> Value {
    merge(base, patch, Keys::pod_template_spec()).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

#[rstest]
#[case::maps_merge(
    json!({"metadata": {"labels": {"a": "1"}}}),
    json!({"metadata": {"labels": {"b": "2"}}}),
    json!({"metadata": {"labels": {"a": "1", "b": "2"}}})
)]
#[case::null_removes(
    json!({"spec": {"nodeSelector": {"a": "1"}, "hostname": "h"}}),
    json!({"spec": {"nodeSelector": null}}),
    json!({"spec": {"hostname": "h"}})
)]
#[case::tolerations_are_replaced(
    json!({"spec": {"tolerations": [{"key": "a"}]}}),
    json!({"spec": {"tolerations": [{"key": "b"}]}}),
    json!({"spec": {"tolerations": [{"key": "b"}]}})
)]
#[case::finalizers_are_added(
    json!({"metadata": {"finalizers": ["a", "b"]}}),
    json!({"metadata": {"finalizers": ["b", "c"]}}),
    json!({"metadata": {"finalizers": ["a", "b", "c"]}})
)]
#[case::finalizers_are_deleted(
    json!({"metadata": {"finalizers": ["a", "b"]}}),
    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
    json!({"metadata": {"finalizers": ["b"]}})
)]
#[case::map_is_replaced(
    json!({"spec": {"securityContext": {"runAsUser": 1, "fsGroup": 2}}}),
    json!({"spec": {"securityContext": {"$patch": "replace", "runAsUser": 3}}}),
    json!({"spec": {"securityContext": {"runAsUser": 3}}})
)]
#[case::map_is_emptied(
    json!({"spec": {"securityContext": {"runAsUser": 1}}}),
    json!({"spec": {"securityContext": {"$patch": "delete"}}}),
    json!({"spec": {"securityContext": {}}})
)]
#[case::volume_source_changes_with_retain_keys(
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    json!({"spec": {"volumes": [
        {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    ]}}),
    json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}})
)]
#[case::volume_keeps_both_sources_without(
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}})
)]
#[case::item_is_deleted(
    json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
    json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
    json!({"spec": {"containers": [{"name": "b"}]}})
)]
#[case::list_is_replaced(
    json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}}),
    json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "a"}]}}),
    json!({"spec": {"containers": [{"name": "a"}]}})
)]
#[case::directives_and_nulls_do_not_leak_into_new_maps(
    json!({}),
    json!({"spec": {"$retainKeys": ["volumes"], "volumes": [
        {"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {"medium": null}},
        {"name": "w", "$patch": "delete"}
    ], "$setElementOrder/volumes": [{"name": "v"}]}}),
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})
)]
#[case::mounts_merge_by_path(
    json!({"spec": {"containers": [{"name": "a", "volumeMounts": [
        {"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/y"}
    ]}]}}),
    json!({"spec": {"containers": [{"name": "a", "volumeMounts": [
        {"name": "w", "mountPath": "/y"}
    ]}]}}),
    json!({"spec": {"containers": [{"name": "a", "volumeMounts": [
        {"name": "v", "mountPath": "/x"}, {"name": "w", "mountPath": "/y"}
    ]}]}})
)]
fn merges(#[case] base: Value, #[case] patch: Value, #[case] want: Value) {
    assert_eq!(patched(&base, &patch), want);
}

#[rstest]
#[case::new_before_base_only(&["A", "B"], &["C"], &["C", "A", "B"])]
#[case::known_keep_their_place(&["A", "B", "C"], &["B"], &["A", "B", "C"])]
#[case::patch_order_wins(&["A", "B"], &["B", "A"], &["B", "A"])]
#[case::new_after_known(&["A", "B"], &["A", "C"], &["A", "C", "B"])]
#[case::new_between(&["A", "B", "C"], &["B", "N"], &["A", "B", "N", "C"])]
#[case::empty_base(&[], &["A"], &["A"])]
#[case::empty_patch(&["A"], &[], &["A"])]
fn orders_items(#[case] base: &[&str], #[case] patch: &[&str], #[case] want: &[&str]) {
    let items = |names: &[&str]| {
        json!({"spec": {"containers": [{"name": "c", "env":
            names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}]}})
    };
    let merged = patched(&items(base), &items(patch));
    assert_eq!(names(&merged["spec"]["containers"][0]["env"]), want);
}

#[rstest]
#[case::only_order(json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
    &["b", "a", "s"])]
#[case::order_and_items(json!({
    "$setElementOrder/containers": [{"name": "n"}, {"name": "a"}, {"name": "b"}],
    "containers": [{"name": "n"}]}), &["n", "a", "b", "s"])]
#[case::deleted(json!({
    "$setElementOrder/containers": [{"name": "b"}],
    "containers": [{"name": "a", "$patch": "delete"}]}), &["b", "s"])]
fn sets_the_element_order(#[case] spec: Value, #[case] want: &[&str]) {
    let base = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "s"}]}});
    let merged = patched(&base, &json!({ "spec": spec }));
    assert_eq!(names(&merged["spec"]["containers"]), want);
}

#[test]
fn reaches_through_a_job_set() {
    let base = json!({"replicatedJobs": [
        {"name": "init", "template": {"spec": {}}},
        {"name": "node", "replicas": 1, "template": {"spec": {"template": {"spec": {
            "containers": [{"name": "node", "image": "x", "env": [{"name": "A", "value": "1"}]}]
        }}}}}
    ]});
    let patch = json!({"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {
        "metadata": {"labels": {"l": "1"}},
        "spec": {"containers": [{"name": "node", "env": [{"name": "A", "value": "2"}]}]}
    }}}}]});
    let merged = merge(&base, &patch, Keys::job_set_spec()).unwrap();
    assert_eq!(names(&merged["replicatedJobs"]), ["init", "node"]);
    let template = &merged["replicatedJobs"][1]["template"]["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["l"], "1");
    assert_eq!(
        template["spec"]["containers"],
        json!([{"name": "node", "image": "x", "env": [{"name": "A", "value": "2"}]}])
    );
}

#[rstest]
#[case::no_key(json!({"spec": {"containers": [{"image": "x"}]}}), Error::MissingKey {
    field: "containers".to_owned(), key: "name".to_owned()})]
#[case::scalars(json!({"spec": {"containers": ["x"]}}), Error::NotAMap {
    field: "containers".to_owned(), key: "name".to_owned()})]
#[case::directive(json!({"spec": {"$patch": "explode"}}), Error::UnknownDirective {
    value: "\"explode\"".to_owned()})]
#[case::not_retained(json!({"spec": {"$retainKeys": ["a"], "b": 1}}), Error::NotRetained {
    field: "b".to_owned()})]
#[case::order_is_no_list(json!({"spec": {"$setElementOrder/containers": 1, "containers": []}}),
    Error::NotAList { directive: "$setElementOrder/containers".to_owned() })]
#[case::order_contradicts(json!({"spec": {"$setElementOrder/containers": [{"name": "a"}],
    "containers": [{"name": "b"}]}}), Error::OutOfOrder { field: "containers".to_owned() })]
fn refuses(#[case] patch: Value, #[case] want: Error) {
    assert_eq!(
        merge(&json!({"spec": {}}), &patch, Keys::pod_template_spec()),
        Err(want)
    );
}

/// Any JSON of a size that tests can afford.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z$/.]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(field_name(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn field_name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "name",
            "spec",
            "metadata",
            "containers",
            "env",
            "finalizers",
            "volumes",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/finalizers",
        ])
        .prop_map(str::to_owned),
        "[a-c]",
    ]
}

/// Pod templates whose lists are proper: every item has a key, and each key once.
fn template() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[A-D]", "[x-z]", 0..4).prop_shuffled();
    let container = (env, prop::option::of("[p-r]"));
    let containers = prop::collection::btree_map("[a-d]", container, 0..4).prop_shuffled();
    containers.prop_map(|containers| {
        let containers: Vec<_> = containers
            .into_iter()
            .map(|(name, (env, image))| {
                let env: Vec<_> = env
                    .into_iter()
                    .map(|(name, value)| json!({"name": name, "value": value}))
                    .collect();
                let mut container = json!({"name": name, "env": env});
                if let Some(image) = image {
                    container["image"] = json!(image);
                }
                container
            })
            .collect();
        json!({"spec": {"containers": containers}})
    })
}

trait Shuffled {
    type Items;
    fn prop_shuffled(self) -> BoxedStrategy<Self::Items>;
}

impl<K, V, S> Shuffled for S
where
    K: Clone + std::fmt::Debug + 'static,
    V: Clone + std::fmt::Debug + 'static,
    S: Strategy<Value = std::collections::BTreeMap<K, V>> + 'static,
{
    type Items = Vec<(K, V)>;
    fn prop_shuffled(self) -> BoxedStrategy<Self::Items> {
        self.prop_map(|map| map.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
            .boxed()
    }
}

proptest! {
    #[test]
    fn never_panics(base in any_json(), patch in any_json()) {
        let _ = merge(&base, &patch, Keys::pod_template_spec());
    }

    #[test]
    fn twice_is_once(base in template(), patch in template()) {
        let once = patched(&base, &patch);
        prop_assert_eq!(patched(&once, &patch), once);
    }

    #[test]
    fn an_object_patched_with_itself_stays(base in template()) {
        prop_assert_eq!(patched(&base, &base), base);
    }

    #[test]
    fn every_item_of_both_sides_is_there_once(base in template(), patch in template()) {
        let merged = patched(&base, &patch);
        let mut got = names(&merged["spec"]["containers"]);
        let mut want = names(&base["spec"]["containers"]);
        want.extend(names(&patch["spec"]["containers"]));
        got.sort_unstable();
        want.sort_unstable();
        want.dedup();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn items_of_the_patch_keep_its_order(base in template(), patch in template()) {
        let merged = patched(&base, &patch);
        let want = names(&patch["spec"]["containers"]);
        let got: Vec<_> = names(&merged["spec"]["containers"])
            .into_iter().filter(|name| want.contains(name)).collect();
        prop_assert_eq!(got, want);
    }
}

/// A list of this size must not cost its square.
#[test]
fn long_lists_merge_in_time() {
    let items = |from: usize, to: usize| -> Vec<Value> {
        (from..to)
            .map(|index| json!({"name": format!("n{index}")}))
            .collect()
    };
    let base = json!({"spec": {"containers": items(0, 20_000)}});
    let patch = json!({"spec": {"containers": items(10_000, 30_000)}});
    let merged = patched(&base, &patch);
    assert_eq!(
        merged["spec"]["containers"].as_array().unwrap().len(),
        30_000
    );
}
