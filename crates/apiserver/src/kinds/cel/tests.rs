use rstest::rstest;
use serde_json::{Value, json};

use crate::kinds::schema::Structural;

/// The errors of a spec whose schema is `property` with one rule.
fn check(property: &Value, rule: &Value, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let mut property = property.clone();
    property["x-kubernetes-validations"] = json!([rule]);
    let schema = json!({"type": "object", "properties": {"spec": property}});
    let structural = Structural::compile(&schema).unwrap();
    let object = json!({"spec": spec});
    let old = old.map(|old| json!({"spec": old}));
    structural
        .validate(&object, old.as_ref())
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The rules that the CRDs of Kubeflow Trainer, JobSet and the Training Operator use.
#[rstest]
#[case("self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    json!({"type": "string"}), json!("hf://a/b"), json!("nonsense"))]
#[case("self in ['example.com/a', 'example.com/b']",
    json!({"type": "string"}), json!("example.com/b"), json!("example.com/c"))]
#[case("self >= 1", json!({"type": "integer"}), json!(1), json!(0))]
#[case("self > 0 || self in ['auto', 'cpu', 'gpu']",
    json!({"x-kubernetes-int-or-string": true}), json!("auto"), json!("many"))]
#[case("self > 0 || self in ['auto', 'cpu', 'gpu']",
    json!({"x-kubernetes-int-or-string": true}), json!(3), json!(0))]
#[case("[has(self.torch), has(self.mpi), has(self.jax)].filter(x, x).size() <= 1",
    open(), json!({"mpi": {}}), json!({"mpi": {}, "jax": {}}))]
#[case("!self.exists(c, c == 'node')",
    json!({"type": "array", "items": {"type": "string"}}), json!(["a"]), json!(["a", "node"]))]
#[case("!(has(self.torch) && has(self.mpi))",
    open(), json!({"torch": {}}), json!({"torch": {}, "mpi": {}}))]
#[case("!(has(self.nodes) && (has(self.torch) && has(self.torch.elastic)))",
    open(), json!({"nodes": 1, "torch": {}}), json!({"nodes": 1, "torch": {"elastic": {}}}))]
#[case("!(has(self.startup) && self.startup.order == 'InOrder' && self.jobs.exists(x, has(x.after)))",
    open(), json!({"startup": {"order": "InOrder"}, "jobs": [{}]}),
    json!({"startup": {"order": "InOrder"}, "jobs": [{"after": []}]}))]
#[case("self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
    open(), json!({"templates": [{"metadata": {"namespace": ""}}, {"metadata": {}}]}),
    json!({"templates": [{"metadata": {"namespace": "x"}}]}))]
#[case("has(self.lastUpdatedTime)", open(), json!({"lastUpdatedTime": "x"}), json!({}))]
#[case("self.replicas <= self.max || self.max == 0", open(), json!({"replicas": 2, "max": 3}),
    json!({"replicas": 4, "max": 3}))]
#[case("self.names.isSorted() && self.sizes.sum() == 3 && self.sizes.max() == 2 && self.sizes.min() == 1",
    open(), json!({"names": ["a", "b"], "sizes": [1, 2]}), json!({"names": ["b", "a"], "sizes": [1, 2]}))]
#[case("self.a.split('/').size() == 2 && self.a.lowerAscii() == self.a", open(), json!({"a": "x/y"}),
    json!({"a": "X/y"}))]
#[case("sets.contains(['a', 'b'], self)", json!({"type": "array", "items": {"type": "string"}}),
    json!(["a"]), json!(["c"]))]
#[case("self.a.find('[0-9]+') == '12'", open(), json!({"a": "x12y"}), json!({"a": "x1y"}))]
#[case("self.items.map(i, i.v).all(v, v > 0)", open(), json!({"items": [{"v": 1}]}),
    json!({"items": [{"v": 0}]}))]
#[case("self.__namespace__ == 'a' && self.x__dash__y == 1",
    json!({"type": "object", "properties": {
        "namespace": {"type": "string"}, "x-y": {"type": "integer"}}}),
    json!({"namespace": "a", "x-y": 1}), json!({"namespace": "b", "x-y": 1}))]
#[case("!has(self.namespace) || self.namespace == 'a'",
    json!({"type": "object", "properties": {"namespace": {"type": "string"}}}),
    json!({"namespace": "a"}), json!({"namespace": "b"}))]
#[case("self.l.all(i, !has(i.metadata.namespace) || size(i.metadata.namespace) == 0)",
    json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"namespace": {"type": "string"}}}}}}}}),
    json!({"l": [{"metadata": {}}]}), json!({"l": [{"metadata": {"namespace": "b"}}]}))]
#[case("quantity(self).isLessThan(quantity('2Gi')) && quantity(self).isInteger()", json!({"type": "string"}),
    json!("1500Mi"), json!("2.5Gi"))]
#[case("isQuantity(self) && quantity(self).add(quantity('1')).sub(1).compareTo(quantity('1k')) == 0",
    json!({"type": "string"}), json!("1000"), json!("1001"))]
#[case("quantity(self).asInteger() == 3 && quantity(self).sign() == 1", json!({"type": "string"}),
    json!("3000m"), json!("4"))]
#[case("isURL(self) && url(self).getHost() == 'a.b:80' && url(self).getHostname() == 'a.b'",
    json!({"type": "string"}), json!("https://u:p@a.b:80/x y?k=1&k=2"), json!("a.b"))]
#[case("url(self).getEscapedPath() == '/x%20y' && url(self).getQuery()['k'] == ['1', '2'] && url(self).getPort() == ''",
    json!({"type": "string"}), json!("http://a/x y?k=1&k=2"), json!("http://a/x?k=1"))]
#[case("isIP(self) && ip(self).family() == 4 && ip(self).isLoopback() && string(ip(self)) == self",
    json!({"type": "string"}), json!("127.0.0.1"), json!("::1"))]
#[case("ip.isCanonical(self) && ip(self).isGlobalUnicast()", json!({"type": "string"}),
    json!("2001:db8::1"), json!("2001:DB8::1"))]
#[case("isCIDR(self) && cidr(self).containsIP('10.1.2.3') && cidr(self).containsCIDR(cidr('10.1.0.0/16'))",
    json!({"type": "string"}), json!("10.0.0.0/8"), json!("10.1.2.0/24"))]
#[case("cidr(self).prefixLength() == 24 && string(cidr(self).masked()) == '10.1.2.0/24' && cidr(self).ip() == ip('10.1.2.3')",
    json!({"type": "string"}), json!("10.1.2.3/24"), json!("10.1.2.3/25"))]
#[case("self.findAll('[0-9]+').size() == 2 && self.findAll('[0-9]+', 1) == ['1']", json!({"type": "string"}),
    json!("1-2"), json!("12"))]
#[case("self.indexOf('b') == 1 && self.lastIndexOf('b') == 2 && self.indexOf('z') == -1",
    json!({"type": "array", "items": {"type": "string"}}), json!(["a", "b", "b"]), json!(["b"]))]
#[case("'%s-%d'.format([self.a, self.n]) == 'x-3' && [self.a, 'y'].join('/') == 'x/y'", open(),
    json!({"a": "x", "n": 3}), json!({"a": "x", "n": 4}))]
#[case("self.replace('a', 'b', 1).upperAscii() == 'BA' && self.charAt(0) == 'a' && self.substring(1) == 'a' && self.trim() == self",
    json!({"type": "string"}), json!("aa"), json!("ab"))]
#[case("self.all(k, k.startsWith('x') && self[k] > 0)",
    json!({"type": "object", "additionalProperties": {"type": "integer"}}), json!({"xa": 1}), json!({"xa": 0}))]
#[case("self.?a.orValue(1) == 1 && self.?b.hasValue()", open(), json!({"b": 2}), json!({"a": 2, "b": 2}))]
#[case("duration(self.d) <= duration('1h') && self.t < timestamp('2030-01-01T00:00:00Z')",
    json!({"type": "object", "properties": {"d": {"type": "string"}, "t": {"type": "string", "format": "date-time"}}}),
    json!({"d": "30m", "t": "2026-01-01T00:00:00Z"}), json!({"d": "2h", "t": "2026-01-01T00:00:00Z"}))]
#[case("self < duration('90m')", json!({"type": "string", "format": "duration"}), json!("1h29m"), json!("1h31m"))]
#[case("!format.dns1123Label().validate(self).hasValue() && format.named('uuid').hasValue()",
    json!({"type": "string"}), json!("a-b"), json!("A_b"))]
#[case("self.map(x, x * 2).filter(x, x > 2).sum() == 10 && self.exists_one(x, x == 1)",
    json!({"type": "array", "items": {"type": "integer"}}), json!([1, 2, 3]), json!([2, 3]))]
fn decides(#[case] rule: &str, #[case] property: Value, #[case] good: Value, #[case] bad: Value) {
    let rule = json!({"rule": rule, "message": "no"});
    assert_eq!(check(&property, &rule, &good, None), Vec::<String>::new());
    let errors = check(&property, &rule, &bad, None);
    assert!(
        errors.len() == 1 && errors[0].ends_with(": no"),
        "{errors:?}"
    );
}

#[test]
fn root_rules_see_the_name() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "message": "bad name"},
        {"rule": "size(self.metadata.name) <= 8", "message": "long name"},
    ]});
    let structural = Structural::compile(&schema).unwrap();
    let errors = |name: &str| -> Vec<String> {
        let object = json!({"metadata": {"name": name, "labels": {}}});
        structural
            .validate(&object, None)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(errors("good"), Vec::<String>::new());
    assert_eq!(
        errors("1bad"),
        ["<nil>: Invalid value: \"object\": bad name"]
    );
    assert_eq!(
        errors("much-too-long"),
        ["<nil>: Invalid value: \"object\": long name"]
    );
}

#[rstest]
#[case::same(json!({"a": 1}), Some(json!({"a": 1})), true)]
#[case::changed(json!({"a": 1}), Some(json!({"a": 2})), false)]
#[case::created(json!({"a": 1}), None, true)]
fn immutability_is_about_changes_only(
    #[case] new: Value,
    #[case] old: Option<Value>,
    #[case] is_fine: bool,
) {
    let rule = json!({"rule": "self == oldSelf", "message": "field is immutable"});
    let errors = check(&open(), &rule, &new, old.as_ref());
    let want: &[&str] = if is_fine {
        &[]
    } else {
        &["spec: Invalid value: \"object\": field is immutable"]
    };
    assert_eq!(errors, want);
}

#[test]
fn transition_rules_run_on_unchanged_values_too() {
    let rule = json!({"rule": "self > oldSelf", "message": "must grow"});
    let integer = json!({"type": "integer"});
    assert_eq!(
        check(&integer, &rule, &json!(2), Some(&json!(1))),
        Vec::<String>::new()
    );
    assert_eq!(check(&integer, &rule, &json!(1), Some(&json!(1))).len(), 1);
}

#[rstest]
#[case(json!(1), None, true)]
#[case(json!(0), None, false)]
#[case(json!(2), Some(json!(1)), true)]
#[case(json!(0), Some(json!(1)), false)]
fn optional_old_self(#[case] new: Value, #[case] old: Option<Value>, #[case] is_fine: bool) {
    let rule = json!({
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self > 0",
        "optionalOldSelf": true, "message": "no",
    });
    let errors = check(&json!({"type": "integer"}), &rule, &new, old.as_ref());
    assert_eq!(errors.is_empty(), is_fine, "{errors:?}");
}

#[test]
fn items_of_map_lists_are_compared_with_their_old_selves() {
    let property = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"},
            "v": {"type": "integer",
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}}}});
    let schema = json!({"type": "object", "properties": {"spec": property}});
    let structural = Structural::compile(&schema).unwrap();
    let old = json!({"spec": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]});
    let new =
        json!({"spec": [{"name": "b", "v": 3}, {"name": "a", "v": 1}, {"name": "c", "v": 9}]});
    let errors = structural.validate(&new, Some(&old));
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["spec[0].v: Invalid value: \"integer\": fixed"]);
}

#[rstest]
#[case::message(json!({"rule": "self.a > 1", "message": "too small"}),
    "spec: Invalid value: \"object\": too small")]
#[case::no_message(json!({"rule": "self.a > 1"}),
    "spec: Invalid value: \"object\": failed rule: self.a > 1")]
#[case::expression(json!({"rule": "self.a > 1", "messageExpression": "'a is ' + string(self.a)"}),
    "spec: Invalid value: \"object\": a is 1")]
#[case::broken_expression(json!({"rule": "self.a > 1", "messageExpression": "self.b", "message": "m"}),
    "spec: Invalid value: \"object\": m")]
#[case::forbidden(json!({"rule": "self.a > 1", "message": "m", "reason": "FieldValueForbidden"}),
    "spec: Forbidden: m")]
#[case::required(json!({"rule": "self.a > 1", "message": "m", "reason": "FieldValueRequired",
    "fieldPath": ".b"}), "spec.b: Required value: m")]
#[case::error(json!({"rule": "self.b > 1", "message": "m"}),
    "spec: Invalid value: \"object\": no such key: b evaluating rule: m")]
fn says_what_is_wrong(#[case] rule: Value, #[case] want: &str) {
    assert_eq!(check(&open(), &rule, &json!({"a": 1}), None), [want]);
}

/// Rules that would take for ever, or all memory.
#[rstest]
#[case::loops("self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))")]
#[case::late("self.exists(a, self.exists(b, self.exists(c, self.exists(d, a + b + c + d < 0))))")]
#[case::doubling(
    "[['x']].map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l)\
    .map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l)\
    .map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l)\
    .map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).map(l, l + l).size() > 0"
)]
#[case::replacing(
    "'a'.replace('', 'aaaaaaaaaaaaaaaa').replace('', 'aaaaaaaaaaaaaaaa').replace('', 'aaaaaaaaaaaaaaaa')\
    .replace('', 'aaaaaaaaaaaaaaaa').replace('', 'aaaaaaaaaaaaaaaa').replace('', 'aaaaaaaaaaaaaaaa')\
    .replace('', 'aaaaaaaaaaaaaaaa').replace('', 'aaaaaaaaaaaaaaaa').size() > 0"
)]
#[case::range("lists.range(1000000000000).size() > 0")]
#[case::distinct("lists.range(100000).distinct().size() > 0")]
fn no_rule_takes_for_ever(#[case] rule: &str) {
    let items = json!({"type": "array", "items": {"type": "integer"}});
    let list: Vec<_> = (0..200).collect();
    let began = std::time::Instant::now();
    let errors = check(&items, &json!({"rule": rule}), &json!(list), None);
    assert!(
        errors.len() == 1 && errors[0].contains("call cost exceeds limit for rule"),
        "{errors:?}"
    );
    assert!(began.elapsed() < std::time::Duration::from_mins(1));
}

#[rstest]
#[case::function("self.nonsense()")]
#[case::variable("other > 1")]
#[case::two_variables("self.all(k, v, v > 0)")]
fn what_cannot_run_is_refused_with_its_definition(#[case] rule: &str) {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    assert!(Structural::compile(&schema).is_err());
}

#[rstest]
#[case::few_parentheses(format!("{}true{}", "(".repeat(24), ")".repeat(24)), None)]
#[case::parentheses(format!("{}true{}", "(".repeat(90), ")".repeat(90)), None)]
#[case::more_parentheses(format!("{}true{}", "(".repeat(4000), ")".repeat(4000)), Some(""))]
#[case::chain(format!("self{} == 'a'", ".trim()".repeat(60)), None)]
#[case::longer_chain(format!("self{} == 'a'", ".trim()".repeat(1000)), Some("at most 200 times"))]
#[case::sum(format!("0{} >= 0", " + 1".repeat(150)), None)]
#[case::text(format!("self == '{}'", "x".repeat(20_000)), Some("at most 10000 characters"))]
fn depth_has_room_and_an_end(#[case] rule: String, #[case] refused: Option<&str>) {
    let schema = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    match (Structural::compile(&schema), refused) {
        (Ok(structural), None) => {
            let errors = structural.validate(&json!({"spec": "a"}), None);
            assert!(errors.is_empty(), "{errors:?}");
        }
        (Err(error), Some(text)) => {
            let mut said = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(one) = source {
                said = format!("{said}: {one}");
                source = one.source();
            }
            assert!(said.contains(text), "{said}");
        }
        (Ok(_), Some(_)) => panic!("not refused"),
        (Err(error), None) => panic!("refused: {error:?}"),
    }
}
