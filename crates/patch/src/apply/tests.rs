use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Error, Manager, apply, update};
use crate::Keys;

fn manager(name: &str) -> Manager<'_> {
    Manager {
        name,
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    }
}

fn pod() -> &'static Keys {
    Keys::builtin("", "Pod")
}

fn applied(live: &Value, config: &Value, name: &str) -> Value {
    apply(live, config, &manager(name), false, pod()).unwrap()
}

/// The fields that a manager owns, as paths.
fn owned(object: &Value, name: &str) -> Vec<String> {
    let mut entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let entry = entries.find(|entry| entry["manager"] == name);
    entry.map_or_else(Vec::new, |entry| {
        crate::fields::Set::from_fields(&entry["fieldsV1"]).paths()
    })
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
}

#[test]
fn creates_with_managed_fields() {
    let object = applied(&Value::Null, &config_map(&json!({"a": "1"})), "me");
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "me", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}}
        }])
    );
}

#[test]
fn removes_what_is_no_longer_applied() {
    let object = applied(
        &Value::Null,
        &config_map(&json!({"a": "1", "b": "2"})),
        "me",
    );
    let object = applied(&object, &config_map(&json!({"b": "2"})), "me");
    assert_eq!(object["data"], json!({"b": "2"}));
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let object = applied(&object, &bare, "me");
    assert_eq!(without_managed(&object), bare);
}

#[test]
fn keeps_what_another_owns_too() {
    let object = applied(
        &Value::Null,
        &config_map(&json!({"a": "1", "b": "2"})),
        "me",
    );
    let object = applied(&object, &config_map(&json!({"a": "1"})), "you");
    let object = applied(&object, &config_map(&json!({})), "me");
    assert_eq!(object["data"], json!({"a": "1"}));
    assert_eq!(owned(&object, "you"), [".data.a"]);
}

#[test]
fn a_change_of_anothers_field_conflicts() {
    let mut object = config_map(&json!({"key": "1"}));
    update(
        &Value::Null,
        &mut object,
        &manager("kubectl-client-side-apply"),
        pod(),
    );
    let config = config_map(&json!({"key": "2"}));
    let error = apply(&object, &config, &manager("kubectl"), false, pod()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.key"
    );
    let Error::Conflicts(conflicts) = error else {
        unreachable!()
    };
    assert_eq!(conflicts.0[0].path, ".data.key");

    let forced = apply(&object, &config, &manager("kubectl"), true, pod()).unwrap();
    assert_eq!(forced["data"]["key"], "2");
    assert_eq!(owned(&forced, "kubectl"), [".data.key"]);
    assert!(!owned(&forced, "kubectl-client-side-apply").contains(&".data.key".to_owned()));
}

#[test]
fn several_conflicts_are_listed() {
    let object = applied(
        &Value::Null,
        &config_map(&json!({"a": "1", "b": "1"})),
        "me",
    );
    let config = config_map(&json!({"a": "2", "b": "2"}));
    let error = apply(&object, &config, &manager("you"), false, pod()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"me\":\n- .data.a\n- .data.b"
    );
}

#[test]
fn the_same_value_is_shared() {
    let object = applied(&Value::Null, &config_map(&json!({"a": "1"})), "me");
    let object = applied(&object, &config_map(&json!({"a": "1"})), "you");
    assert_eq!(owned(&object, "me"), [".data.a"]);
    assert_eq!(owned(&object, "you"), [".data.a"]);
}

#[test]
fn containers_merge_by_name_and_go_with_their_defaults() {
    let config = |containers: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {"containers": containers}})
    };
    let mut object = applied(
        &Value::Null,
        &config(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
        "me",
    );
    // The server fills in defaults, which nobody owns.
    object["spec"]["containers"][1]["imagePullPolicy"] = json!("Always");
    let object = applied(
        &object,
        &config(json!([{"name": "c", "image": "1"}])),
        "you",
    );
    let object = applied(&object, &config(json!([{"name": "a", "image": "1"}])), "me");
    assert_eq!(
        object["spec"]["containers"],
        json!([{"name": "a", "image": "1"}, {"name": "c", "image": "1"}])
    );
}

#[rstest]
#[case::new_last(&["a", "b"], &["c"], &["a", "b", "c"])]
#[case::shared_keeps_its_place(&["a", "b"], &["b", "c"], &["a", "b", "c"])]
#[case::turned_round(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"])]
#[case::new_between(&["a", "b"], &["a", "c", "b"], &["a", "c", "b"])]
#[case::new_before_a_shared_one(&["a", "b", "c"], &["e", "b"], &["a", "e", "b", "c"])]
#[case::new_after_the_last(&["a", "b", "c", "d"], &["c", "e"], &["a", "b", "c", "d", "e"])]
#[case::only_the_order_is_new(&["a", "b"], &["b", "a"], &["b", "a"])]
#[case::all_in_another_order(&["a", "b", "c", "d"], &["c", "b", "d", "a"], &["c", "b", "d", "a"])]
#[case::turned_round_about_a_new_one(&["a", "b", "c", "d"], &["e", "d", "c"], &["a", "b", "e", "d", "c"])]
#[case::live_ones_before_the_next_shared(&["a", "b", "c", "d"], &["d", "e", "b"], &["a", "c", "d", "e", "b"])]
#[case::live_ones_before_a_new_first(&["a", "b", "c", "d"], &["b", "e", "a"], &["b", "c", "d", "e", "a"])]
#[case::several_of_each(&["d", "c", "b", "a"], &["a", "c", "b", "e"], &["d", "a", "c", "b", "e"])]
#[case::nothing_applied(&["a", "b"], &[], &["a", "b"])]
#[case::nothing_live(&[], &["b", "a"], &["b", "a"])]
fn items_stand_in_upstreams_order(
    #[case] live: &[&str],
    #[case] applied: &[&str],
    #[case] want: &[&str],
) {
    let pod = |names: &[&str]| {
        let containers: Value = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": containers}})
    };
    let merged = super::merge::merge(&pod(live), &pod(applied), Keys::builtin("", "Pod"));
    assert_eq!(merged, pod(want));
}

#[test]
fn what_goes_leaves_the_others_in_their_order_in_lists_and_sets() {
    let config = |names: &[&str]| {
        let containers: Value = names
            .iter()
            .map(|name| json!({"name": name, "image": "1"}))
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "x", "finalizers": names}, "spec": {"containers": containers}})
    };
    let want = |object: &Value, want: &[&str]| {
        assert_eq!(object["metadata"]["finalizers"], json!(want));
        let containers = object["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten();
        let names: Vec<_> = containers.map(|container| &container["name"]).collect();
        assert_eq!(names, want);
    };
    let object = applied(&Value::Null, &config(&["a", "b", "c"]), "me");
    let object = applied(&object, &config(&["d", "c", "e"]), "you");
    want(&object, &["a", "b", "d", "c", "e"]);
    let object = applied(&object, &config(&["b"]), "me");
    want(&object, &["b", "d", "c", "e"]);
    let object = applied(&object, &config(&["b", "a"]), "me");
    want(&object, &["b", "d", "c", "e", "a"]);
}

#[test]
fn atomic_parts_have_one_owner() {
    let config = |selector: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {"nodeSelector": selector}})
    };
    let object = applied(&Value::Null, &config(json!({"a": "1"})), "me");
    let error = apply(
        &object,
        &config(json!({"b": "2"})),
        &manager("you"),
        false,
        pod(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("conflict with \"me\": .spec.nodeSelector"),
        "{error}"
    );
    let object = apply(
        &object,
        &config(json!({"b": "2"})),
        &manager("you"),
        true,
        pod(),
    )
    .unwrap();
    assert_eq!(object["spec"]["nodeSelector"], json!({"b": "2"}));
}

#[rstest]
#[case::no_object(json!([]), "an applied configuration must be an object")]
#[case::managed(json!({"metadata": {"managedFields": [{"manager": "x"}]}}),
    "metadata.managedFields must be nil")]
#[case::no_key(json!({"spec": {"containers": [{"image": "x"}]}}),
    ".spec.containers[0]: associative list with keys has an element that omits key field \"name\"")]
fn refuses(#[case] config: Value, #[case] want: &str) {
    let error = apply(&Value::Null, &config, &manager("me"), false, pod()).unwrap_err();
    assert_eq!(error.to_string(), want);
}

#[test]
fn an_update_takes_over_what_it_changes() {
    let old = applied(
        &Value::Null,
        &config_map(&json!({"a": "1", "b": "1"})),
        "me",
    );
    let mut new = old.clone();
    new["data"]["a"] = json!("2");
    new["metadata"]["resourceVersion"] = json!("7");
    update(&old, &mut new, &manager("editor"), pod());
    assert_eq!(owned(&new, "me"), [".data.b"]);
    assert_eq!(owned(&new, "editor"), [".data.a"]);
}

#[test]
fn an_update_that_changes_nothing_leaves_the_managers_alone() {
    let old = applied(&Value::Null, &config_map(&json!({"a": "1"})), "me");
    let mut new = without_managed(&old);
    update(
        &old,
        &mut new,
        &Manager {
            now: "2027-01-01T00:00:00Z",
            ..manager("editor")
        },
        pod(),
    );
    assert_eq!(new, old);
}

#[test]
fn one_empty_entry_clears_the_managers() {
    let old = applied(&Value::Null, &config_map(&json!({"a": "1"})), "me");
    let mut new = old.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    update(&old, &mut new, &manager("editor"), pod());
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn a_client_may_move_fields_to_another_manager() {
    let mut old = config_map(&json!({"a": "1"}));
    update(
        &Value::Null,
        &mut old,
        &manager("kubectl-client-side-apply"),
        pod(),
    );
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["manager"] = json!("kubectl");
    new["metadata"]["managedFields"][0]["operation"] = json!("Apply");
    update(&old, &mut new, &manager("kubectl-patch"), pod());
    assert_eq!(owned(&new, "kubectl"), [".data", ".data.a"]);
    assert_eq!(owned(&new, "kubectl-patch"), Vec::<String>::new());
    let object = applied(&new, &config_map(&json!({"b": "1"})), "kubectl");
    assert_eq!(object["data"], json!({"b": "1"}));
}

#[test]
fn status_and_spec_are_managed_apart() {
    let mut old = json!({"metadata": {"name": "x"}, "spec": {"a": 1}});
    update(&Value::Null, &mut old, &manager("me"), pod());
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    update(
        &old,
        &mut new,
        &Manager {
            subresource: "status",
            ..manager("me")
        },
        pod(),
    );
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().any(|entry| entry["subresource"] == "status"));
}

#[test]
fn many_updaters_become_ancient_changes() {
    let mut object = config_map(&json!({}));
    for index in 0..20 {
        let old = object.clone();
        object["data"][format!("k{index}")] = json!("1");
        let now = format!("2026-01-01T00:00:{index:02}Z");
        let name = format!("m{index}");
        update(
            &old,
            &mut object,
            &Manager {
                name: &name,
                now: &now,
                ..manager("")
            },
            pod(),
        );
    }
    assert_eq!(
        object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
    assert!(owned(&object, "ancient-changes").contains(&".data.k3".to_owned()));
    assert_eq!(owned(&object, "m19"), [".data.k19"]);
}

fn any_pod() -> impl Strategy<Value = Value> {
    let container = (
        prop::option::of("[x-z]"),
        prop::collection::btree_map("[A-C]", "[x-z]", 0..3),
    );
    let containers = prop::collection::btree_map("[a-c]", container, 0..3);
    let labels = prop::collection::btree_map("[a-c]", "[x-z]", 0..3);
    (containers, labels).prop_map(|(containers, labels)| {
        let containers: Vec<_> = containers
            .into_iter()
            .map(|(name, (image, env))| {
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
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": labels},
            "spec": {"containers": containers}})
    })
}

proptest! {
    #[test]
    fn twice_is_once(live in any_pod(), config in any_pod()) {
        let live = applied(&Value::Null, &live, "other");
        let once = apply(&live, &config, &manager("me"), true, pod()).unwrap();
        let later = Manager { now: "2030-01-01T00:00:00Z", ..manager("me") };
        let twice = apply(&once, &config, &later, false, pod()).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn a_sole_manager_gets_what_it_states(first in any_pod(), second in any_pod()) {
        let object = applied(&Value::Null, &first, "me");
        let object = applied(&object, &second, "me");
        let stated = crate::fields::of(&super::without_nulls(&second), pod()).unwrap();
        let there = crate::fields::of(&without_managed(&object), pod()).unwrap();
        let mut extra = there.clone();
        extra.subtract(&stated);
        // Empty maps and lists may stay behind, but no value that is not stated.
        prop_assert!(extra.paths().iter().all(|path| path.ends_with("labels")
            || path.ends_with("env") || path.ends_with("containers")), "{:?}", extra.paths());
    }

    #[test]
    fn nobody_owns_what_is_not_there(first in any_pod(), second in any_pod(), third in any_pod()) {
        let object = applied(&Value::Null, &first, "me");
        let object = apply(&object, &second, &manager("you"), true, pod()).unwrap();
        let mut updated = third.clone();
        updated["metadata"]["managedFields"] = object["metadata"]["managedFields"].clone();
        update(&object, &mut updated, &manager("editor"), pod());
        let there = crate::fields::of(&without_managed(&updated), pod()).unwrap();
        for name in ["me", "you", "editor"] {
            for path in owned(&updated, name) {
                let is_there = there.paths().iter().any(|one| one.starts_with(&path));
                let is_empty = path.ends_with("labels") || path.ends_with("env")
                    || path.ends_with("containers") || path.ends_with("spec");
                prop_assert!(is_there || is_empty, "{name} owns {path}");
            }
        }
    }
}
