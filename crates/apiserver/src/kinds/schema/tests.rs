use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Structural, summary};

/// A kind with a bit of everything.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["runtime"],
                "properties": {
                    "runtime": {"type": "string", "minLength": 2, "maxLength": 5},
                    "nodes": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
                    "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
                    "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
                    "paused": {"type": "boolean", "default": false},
                    "port": {"x-kubernetes-int-or-string": true,
                        "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "code": {"type": "string", "pattern": "^[a-z]+$"},
                    "until": {"type": "string", "format": "date-time"},
                    "maybe": {"type": "string", "nullable": true},
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {"type": "object",
                            "properties": {"a": {"type": "string"}}}}},
                    "object": {"type": "object", "x-kubernetes-embedded-resource": true,
                        "x-kubernetes-preserve-unknown-fields": true},
                    "limits": {"type": "object",
                        "additionalProperties": {"type": "integer", "default": 1}},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set",
                        "items": {"type": "string"}, "maxItems": 3},
                    "env": {"type": "array", "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"},
                            "value": {"type": "string", "default": ""}}}},
                    "one": {"type": "object", "properties": {
                            "a": {"type": "string"}, "b": {"type": "string"}},
                        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                }
            },
            "status": {"type": "object", "minProperties": 1, "properties": {
                "phase": {"type": "string"}}}
        }
    })
}

fn errors(spec: &Value) -> Vec<String> {
    let object = json!({"metadata": {"name": "x"}, "spec": spec});
    let structural = Structural::compile(&schema()).unwrap();
    structural
        .validate(&object, None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[rstest]
#[case::wrong_type(json!({"runtime": "ab", "nodes": "string"}),
    "spec.nodes: Invalid value: \"string\": spec.nodes in body must be of type integer: \"string\"")]
#[case::fraction(json!({"runtime": "ab", "nodes": 1.5}),
    "spec.nodes: Invalid value: \"number\": spec.nodes in body must be of type integer: \"number\"")]
#[case::null(json!({"runtime": "ab", "code": null}),
    "spec.code: Invalid value: \"null\": spec.code in body must be of type string: \"null\"")]
#[case::object_for_string(json!({"runtime": {}}),
    "spec.runtime: Invalid value: \"object\": spec.runtime in body must be of type string: \"object\"")]
#[case::required(json!({}), "spec.runtime: Required value")]
#[case::minimum(json!({"runtime": "ab", "nodes": -1}),
    "spec.nodes: Invalid value: -1: spec.nodes in body should be greater than or equal to 0")]
#[case::maximum(json!({"runtime": "ab", "nodes": 10}),
    "spec.nodes: Invalid value: 10: spec.nodes in body should be less than or equal to 9")]
#[case::exclusive(json!({"runtime": "ab", "ratio": 0}),
    "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0")]
#[case::choice(json!({"runtime": "ab", "mode": "x"}),
    "spec.mode: Unsupported value: \"x\": supported values: \"fast\", \"slow\"")]
#[case::too_short(json!({"runtime": "a"}),
    "spec.runtime: Invalid value: \"a\": spec.runtime in body should be at least 2 chars long")]
#[case::too_long(json!({"runtime": "abcdef"}),
    "spec.runtime: Too long: may not be more than 5 bytes")]
#[case::pattern(json!({"runtime": "ab", "code": "A1"}),
    "spec.code: Invalid value: \"A1\": spec.code in body should match '^[a-z]+$'")]
#[case::date(json!({"runtime": "ab", "until": "soon"}),
    "spec.until: Invalid value: \"soon\": spec.until in body must be of type date-time: \"soon\"")]
#[case::int_or_string(json!({"runtime": "ab", "port": true}),
    "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"")]
#[case::too_many(json!({"runtime": "ab", "tags": ["a", "b", "c", "d"]}),
    "spec.tags: Too many: 4: must have at most 3 items")]
#[case::repeated(json!({"runtime": "ab", "tags": ["a", "a"]}),
    "spec.tags[1]: Duplicate value: \"a\"")]
#[case::repeated_key(json!({"runtime": "ab", "env": [{"name": "A"}, {"name": "A"}]}),
    "spec.env[1]: Duplicate value: {\"name\":\"A\"}")]
#[case::inside_a_list(json!({"runtime": "ab", "env": [{"name": "A", "value": 1}]}),
    "spec.env[0].value: Invalid value: \"integer\": spec.env[0].value in body must be of type string: \"integer\"")]
#[case::map_value(json!({"runtime": "ab", "limits": {"cpu": "x"}}),
    "spec.limits.cpu: Invalid value: \"string\": spec.limits.cpu in body must be of type integer: \"string\"")]
#[case::one_of(json!({"runtime": "ab", "one": {"a": "", "b": ""}}),
    "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives")]
fn refuses_in_kubernetes_words(#[case] spec: Value, #[case] want: &str) {
    assert_eq!(errors(&spec), [want]);
}

#[rstest]
#[case(json!({"runtime": "ab", "nodes": 2.0}))]
#[case(json!({"runtime": "ab", "port": 80}))]
#[case(json!({"runtime": "ab", "port": "http"}))]
#[case(json!({"runtime": "ab", "maybe": null}))]
#[case(json!({"runtime": "ab", "one": {"a": ""}}))]
#[case(json!({"runtime": "ab", "until": "2026-01-01T00:00:00+00:00"}))]
fn accepts(#[case] spec: Value) {
    assert_eq!(errors(&spec), Vec::<String>::new());
}

#[test]
fn several_errors_stand_in_brackets() {
    let structural = Structural::compile(&schema()).unwrap();
    let object = json!({"spec": {"mode": "x"}});
    let text = summary(&structural.validate(&object, None));
    assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
    assert!(text.contains("spec.runtime: Required value"), "{text}");
}

#[test]
fn prunes_what_it_does_not_know_and_says_so() {
    let structural = Structural::compile(&schema()).unwrap();
    let mut object = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "colour": "red"}, "extra": 1,
        "spec": {
            "runtime": "ab", "foo": 1, "env": [{"name": "A", "bar": 2}],
            "raw": {"anything": {"goes": 1}, "known": {"a": "", "b": ""}},
            "object": {"apiVersion": "v1", "kind": "Y", "metadata": {"name": "y", "shape": 1}, "q": 1},
            "limits": {"cpu": 1}
        }
    });
    let mut unknown = structural.prune(&mut object);
    unknown.sort();
    let want = [
        "extra",
        "metadata.colour",
        "spec.env[0].bar",
        "spec.foo",
        "spec.object.metadata.shape",
        "spec.raw.known.b",
    ];
    assert_eq!(unknown, want);
    assert_eq!(object["spec"]["raw"]["anything"]["goes"], 1);
    assert_eq!(object["spec"]["object"]["q"], 1);
    assert_eq!(structural.prune(&mut object), Vec::<String>::new());
}

#[test]
fn defaults_absent_fields_and_nulls() {
    let structural = Structural::compile(&schema()).unwrap();
    let mut object = json!({"spec": {
        "paused": null, "maybe": null, "env": [{"name": "A"}], "limits": {"cpu": null}
    }});
    structural.default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {
            "mode": "slow", "paused": false, "maybe": null,
            "env": [{"name": "A", "value": ""}], "limits": {"cpu": 1}
        }})
    );
}

#[test]
fn an_unchanged_mistake_does_not_block_an_update() {
    let structural = Structural::compile(&schema()).unwrap();
    let old = json!({"spec": {"runtime": "a", "nodes": 1}});
    let new = json!({"spec": {"runtime": "a", "nodes": 2}});
    assert_eq!(structural.validate(&new, Some(&old)), []);
    assert_eq!(structural.validate(&new, None).len(), 1);
}

#[rstest]
#[case::no_root(json!({"properties": {}}), "must be object at the root")]
#[case::no_type(json!({"type": "object", "properties": {"a": {}}}),
    "openAPIV3Schema.properties[a].type: Required value")]
#[case::no_items(json!({"type": "object", "properties": {"a": {"type": "array"}}}),
    "openAPIV3Schema.properties[a].items: Required value")]
#[case::pattern(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
    "must be a valid regular expression")]
#[case::reference(json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}), "$ref")]
#[case::rule(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.x =="}]}),
    "compilation failed")]
#[case::function(json!({"type": "object", "x-kubernetes-validations": [{"rule": "steal(self)"}]}),
    "undeclared reference to the function 'steal'")]
#[case::variable(json!({"type": "object", "x-kubernetes-validations": [{"rule": "other.x"}]}),
    "undeclared reference to 'other'")]
#[case::map_without_keys(json!({"type": "object", "properties": {"a": {"type": "array",
    "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}), "must not be empty")]
fn refuses_a_schema(#[case] schema: Value, #[case] want: &str) {
    let error = Structural::compile(&schema).unwrap_err().to_string();
    assert!(error.contains(want), "{error}");
}

fn any_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..12i32).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let name = proptest::sample::select(vec![
            "runtime", "mode", "env", "name", "value", "limits", "tags", "raw", "object", "one",
            "metadata", "stray", "spec", "status",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_is_once(mut object in any_spec()) {
        let structural = Structural::compile(&schema()).unwrap();
        structural.prune(&mut object);
        structural.default(&mut object);
        let once = object.clone();
        prop_assert_eq!(structural.prune(&mut object), Vec::<String>::new());
        structural.default(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn validation_never_panics_and_lets_the_unchanged_be(object in any_spec(), old in any_spec()) {
        let structural = Structural::compile(&schema()).unwrap();
        let _ = structural.validate(&object, Some(&old));
        prop_assert_eq!(structural.validate(&object, Some(&object)), vec![]);
    }
}

#[test]
fn a_rule_of_the_root_is_asked_again_only_when_what_it_looks_at_has_changed() {
    let schema = json!({"type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"nodes": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
        "x-kubernetes-validations": [
            {"rule": "self.spec.nodes < 3", "message": "too many"},
            {"rule": "!has(self.status) || !has(self.status.ready) || self.status.ready < 3", "message": "too ready"},
            {"rule": "self.metadata.name.startsWith('a')", "message": "misnamed"},
        ],
    });
    let structural = Structural::compile(&schema).unwrap();
    let object = |name: &str, nodes: i64, ready: Option<i64>| {
        let status = ready.map_or(json!({}), |ready| json!({ "ready": ready }));
        json!({"metadata": {"name": name, "labels": {"n": nodes.to_string()}}, "spec": {"nodes": nodes}, "status": status})
    };
    let said = |new: &Value, old: &Value| -> Vec<String> {
        let all = structural.validate_change(new, old);
        all.into_iter().map(|error| summary(&[error])).collect()
    };
    // Wrong before, and nobody looked: which says that the rule is not asked.
    let old = object("b", 5, None);
    assert_eq!(said(&object("b", 5, Some(1)), &old), Vec::<String>::new());
    assert_eq!(
        structural
            .validate(&object("b", 5, Some(1)), Some(&old))
            .len(),
        2
    );
    // What it looks at has changed, has come, or has gone.
    for (new, want) in [
        (object("b", 6, None), "too many"),
        (object("b", 5, Some(4)), "too ready"),
        (object("c", 5, None), "misnamed"),
    ] {
        let said = said(&new, &old);
        assert!(said.len() == 1 && said[0].contains(want), "{said:?}");
    }
    let mut without = old.clone();
    without.as_object_mut().unwrap().remove("spec");
    assert_eq!(said(&without, &old).len(), 1);
}
