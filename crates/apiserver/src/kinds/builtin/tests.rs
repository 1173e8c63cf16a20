use rstest::rstest;
use serde_json::{Value, json};

use super::{admit, find, kinds};

fn admitted(group: &str, kind: &str, mut object: Value) -> Value {
    admit(find(group, kind).unwrap(), &mut object, None).unwrap();
    object
}

fn errors(group: &str, kind: &str, mut object: Value, old: Option<&Value>) -> Vec<String> {
    let result = admit(find(group, kind).unwrap(), &mut object, old);
    result
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
}

fn simple_pod() -> Value {
    pod(&json!({"containers": [{"name": "a", "image": "busybox"}]}))
}

#[test]
fn every_kind_has_a_schema_and_a_plural_of_its_own() {
    let mut seen = Vec::new();
    for info in kinds() {
        super::schemas::structural(info);
        assert!(
            !seen.contains(&(info.group, info.plural)),
            "{}",
            info.plural
        );
        seen.push((info.group, info.plural));
    }
}

#[test]
fn a_pod_gets_kubernetes_defaults() {
    let pod = admitted("", "Pod", simple_pod());
    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        spec["containers"][0]["terminationMessagePath"],
        "/dev/termination-log"
    );
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
}

#[test]
fn quantities_become_canonical_strings() {
    let pod = admitted(
        "",
        "Pod",
        pod(&json!({"containers": [{"name": "a", "image": "b:1",
        "resources": {"limits": {"cpu": 2.0, "nvidia.com/gpu": 1, "memory": "1024Mi"},
            "requests": {"cpu": 0.5}}}]})),
    );
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        container["resources"]["limits"],
        json!({"cpu": "2", "nvidia.com/gpu": "1", "memory": "1Gi"})
    );
    assert_eq!(
        container["resources"]["requests"],
        json!({"cpu": "500m", "nvidia.com/gpu": "1", "memory": "1Gi"})
    );
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(pod["status"]["qosClass"], "Burstable");
}

#[test]
fn unknown_fields_are_named_and_nulls_are_nothing() {
    let mut object = pod(
        &json!({"containers": [{"name": "a", "image": "b", "colour": 1,
        "command": null}], "nodeName": null, "shape": "round"}),
    );
    let mut unknown = admit(find("", "Pod").unwrap(), &mut object, None).unwrap();
    unknown.sort();
    assert_eq!(unknown, ["spec.containers[0].colour", "spec.shape"]);
    assert_eq!(object["spec"].get("nodeName"), None);
}

#[rstest]
#[case::no_containers(json!({}), &["spec.containers: Required value"])]
#[case::no_image(json!({"containers": [{"name": "a"}]}), &["spec.containers[0].image: Required value"])]
#[case::no_name(json!({"containers": [{"image": "a"}]}), &["spec.containers[0].name: Required value"])]
#[case::twice(json!({"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "a"}]}),
    &["spec.containers[1].name: Duplicate value: \"a\""])]
#[case::no_volume(json!({"containers": [{"name": "a", "image": "a",
    "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]}),
    &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""])]
#[case::two_sources(json!({"containers": [{"name": "a", "image": "a"}],
    "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}),
    &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"])]
#[case::policy(json!({"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Sometimes"}),
    &["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""])]
#[case::over_limit(json!({"containers": [{"name": "a", "image": "a",
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}}]}),
    &["spec.containers[0].resources.requests: Invalid value: \"1500m\": must be less than or equal to cpu limit of 1"])]
#[case::wrong_type(json!({"containers": [{"name": "a", "image": 3}]}),
    &["spec.containers[0].image: Invalid value: \"integer\": spec.containers[0].image in body must be of type string: \"integer\""])]
#[case::quantity(json!({"containers": [{"name": "a", "image": "a",
    "resources": {"limits": {"memory": "lots"}}}]}),
    &["spec.containers[0].resources.limits[memory]: Invalid value: \"lots\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"])]
fn bad_pods_are_refused(#[case] spec: Value, #[case] want: &[&str]) {
    assert_eq!(errors("", "Pod", pod(&spec), None), want);
}

#[test]
fn a_pod_may_only_change_its_image() {
    let old = admitted("", "Pod", simple_pod());
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("other:1");
    admit(find("", "Pod").unwrap(), &mut new, Some(&old)).unwrap();
    new["spec"]["nodeName"] = json!("node-1");
    admit(find("", "Pod").unwrap(), &mut new, Some(&old)).unwrap();

    let bound = new.clone();
    new["spec"]["nodeName"] = json!("node-2");
    let found = errors("", "Pod", new, Some(&bound));
    assert!(
        found[0].starts_with("spec: Forbidden: pod updates may not change fields"),
        "{found:?}"
    );
    let mut new = bound.clone();
    new["spec"]["containers"][0]["command"] = json!(["sh"]);
    assert_eq!(errors("", "Pod", new, Some(&bound)).len(), 1);
}

#[rstest]
#[case::set(json!(null), json!(5), &[])]
#[case::lowered(json!(9), json!(5), &[])]
#[case::raised(json!(5), json!(9), &["spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"])]
#[case::dropped(json!(5), json!(null), &["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"])]
fn the_deadline_of_a_pod_may_be_set_and_lowered(
    #[case] before: Value,
    #[case] after: Value,
    #[case] want: &[&str],
) {
    let with = |deadline: &Value| {
        pod(
            &json!({"containers": [{"name": "a", "image": "b"}], "activeDeadlineSeconds": deadline}),
        )
    };
    let old = admitted("", "Pod", with(&before));
    if want.is_empty() {
        admit(find("", "Pod").unwrap(), &mut with(&after), Some(&old)).unwrap();
    } else {
        assert_eq!(errors("", "Pod", with(&after), Some(&old)), want);
    }
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "uid": "u-1"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "a", "image": "b"}]}}}})
}

#[test]
fn a_job_selects_its_pods_by_its_uid() {
    let job = admitted("batch", "Job", job());
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["batch.kubernetes.io/controller-uid"], "u-1");
    assert_eq!(labels["job-name"], "j");
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}});
    assert_eq!(job["spec"]["selector"], selector);
    assert_eq!(job["spec"]["backoffLimit"], 6);
    assert_eq!(job["spec"]["completions"], 1);
    assert_eq!(job["spec"]["suspend"], false);
}

#[test]
fn a_jobs_template_is_fixed_unless_it_waits() {
    let mut old = admitted("batch", "Job", job());
    let mut new = old.clone();
    new["spec"]["parallelism"] = json!(3);
    new["spec"]["suspend"] = json!(true);
    admit(find("batch", "Job").unwrap(), &mut new, Some(&old)).unwrap();
    new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    let want = ["spec.template: Invalid value: \"object\": field is immutable"];
    assert_eq!(errors("batch", "Job", new.clone(), Some(&old)), want);
    let mut other = old.clone();
    other["spec"]["completions"] = json!(2);
    let want = ["spec.completions: Invalid value: 2: field is immutable"];
    assert_eq!(errors("batch", "Job", other, Some(&old)), want);
    old["spec"]["suspend"] = json!(true);
    admit(find("batch", "Job").unwrap(), &mut new, Some(&old)).unwrap();
}

#[test]
fn a_job_must_end() {
    let mut job = job();
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let want = "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\"";
    assert_eq!(errors("batch", "Job", job, None), [want]);
}

#[test]
fn secrets_take_plain_text_and_keep_their_type() {
    let secret = json!({"metadata": {"name": "s"}, "data": {"a": "YQ=="},
        "stringData": {"a": "new", "b": "c"}});
    let secret = admitted("", "Secret", secret);
    assert_eq!(secret["data"], json!({"a": "bmV3", "b": "Yw=="}));
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret.get("stringData"), None);
    let mut new = secret.clone();
    new["type"] = json!("kubernetes.io/tls");
    let want = ["type: Invalid value: \"kubernetes.io/tls\": field is immutable"];
    assert_eq!(errors("", "Secret", new, Some(&secret)), want);
    let bad = json!({"metadata": {"name": "s"}, "data": {"a": "hunter2!"}});
    let found = errors("", "Secret", bad, None);
    assert!(!found[0].contains("hunter2"), "{found:?}");
}

#[test]
fn immutable_config_maps_stay() {
    let old = json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "1"}});
    let new = json!({"metadata": {"name": "c"}, "data": {"a": "2"}});
    let want = [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ];
    assert_eq!(errors("", "ConfigMap", new, Some(&old)), want);
}

#[rstest]
#[case("", "Service", json!({"spec": {"ports": [{"port": 80}]}}))]
#[case("", "Service", json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}))]
#[case("", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}}}}))]
#[case("", "Event", json!({"involvedObject": {}, "reason": "R", "message": "M",
    "eventTime": "2026-01-01T00:00:00.000000Z"}))]
#[case("coordination.k8s.io", "Lease", json!({"spec": {"leaseDurationSeconds": 10,
    "renewTime": "2026-01-01T00:00:00.123456Z"}}))]
#[case("rbac.authorization.k8s.io", "RoleBinding", json!({
    "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}))]
#[case("", "Node", json!({"status": {"capacity": {"cpu": 4, "memory": "8Gi"}}}))]
#[case("apiextensions.k8s.io", "CustomResourceDefinition", json!({"metadata": {"name": "as.a.b"}, "spec": {"group": "a.b",
    "names": {"kind": "A", "plural": "as"}, "scope": "Namespaced", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true, "default": {"a": 1}}}}}}]}}))]
fn good_objects_pass(#[case] group: &str, #[case] kind: &str, #[case] mut object: Value) {
    if object["metadata"].is_null() {
        object["metadata"] = json!({"name": "x"});
    }
    let before = object.clone();
    let unknown = admit(find(group, kind).unwrap(), &mut object, None).unwrap();
    assert_eq!(unknown, Vec::<String>::new());
    let once = object.clone();
    admit(find(group, kind).unwrap(), &mut object, Some(&once)).unwrap();
    assert_eq!(object, once, "admission changed {before}");
}

fn job_with(change: impl FnOnce(&mut Value)) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "uid": "u"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}},
    });
    change(&mut job["spec"]);
    job
}

fn with_rule(rule: &Value) -> Value {
    job_with(|spec| spec["podFailurePolicy"] = json!({"rules": [rule]}))
}

#[rstest]
#[case::restart(job_with(|spec| {
    spec["podFailurePolicy"] = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "x", "status": "True"}]}]});
    spec["template"]["spec"]["restartPolicy"] = "OnFailure".into();
}), "only \"Never\" is supported")]
#[case::selector(job_with(|spec| spec["selector"] = json!({"matchLabels": {"app": "x"}})), "spec.selector")]
#[case::stale_selector(
    job_with(|spec| spec["selector"] = json!({"matchLabels": {"controller-uid": "other"}})), "spec.selector")]
#[case::manual(job_with(|spec| spec["manualSelector"] = true.into()), "spec.selector: Required")]
#[case::mismatch(job_with(|spec| {
    spec["manualSelector"] = true.into();
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
}), "does not match template `labels`")]
#[case::indexed(job_with(|spec| {
    spec["completionMode"] = "Indexed".into();
    spec["parallelism"] = 2.into();
}), "spec.completions: Required")]
#[case::negative(job_with(|spec| spec["completions"] = (-1).into()), "spec.completions")]
#[case::per_index(job_with(|spec| spec["backoffLimitPerIndex"] = 1.into()), "requires indexed completion mode")]
#[case::failed_indexes(job_with(|spec| {
    spec["completionMode"] = "Indexed".into();
    spec["completions"] = 2.into();
    spec["maxFailedIndexes"] = 1.into();
}), "spec.backoffLimitPerIndex: Required")]
#[case::replacement(job_with(|spec| spec["podReplacementPolicy"] = "Soon".into()), "spec.podReplacementPolicy")]
#[case::success(job_with(|spec| spec["successPolicy"] = json!({"rules": [{"succeededCount": 1}]})),
    "spec.successPolicy")]
#[case::action(with_rule(&json!({"action": "Cry", "onExitCodes": {"operator": "In", "values": [1]}})), "rules[0].action")]
#[case::fail_index(with_rule(&json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}})),
    "requires the backoffLimitPerIndex")]
#[case::neither(with_rule(&json!({"action": "FailJob"})), "specifying one of")]
#[case::both(with_rule(&json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]},
    "onPodConditions": [{"type": "x", "status": "True"}]})), "specifying both")]
#[case::zero(with_rule(&json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}})),
    "must not be 0")]
#[case::order(with_rule(&json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [2, 1]}})),
    "must be ordered")]
#[case::container(
    with_rule(&json!({"action": "FailJob", "onExitCodes": {"containerName": "z", "operator": "In", "values": [1]}})),
    "onExitCodes.containerName")]
#[case::manager(job_with(|spec| spec["managedBy"] = "me".into()), "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path")]
#[case::long_manager(job_with(|spec| spec["managedBy"] = format!("acme.io/{}", "m".repeat(60)).into()), "spec.managedBy: Too long")]
#[case::long_name(with_name(&"j".repeat(62), 11), "will not able to create pod with invalid DNS label: must be no more than 63 characters")]
#[case::name_with_dots(
    with_name("a.b", 1),
    "will not able to create pod with invalid DNS label"
)]
#[case::indexes(
    with_indexes("0-a", 1),
    "error parsing succeededIndexes: cannot convert string to integer for index: \"a\""
)]
#[case::large_index(
    with_indexes("0,5", 1),
    "error parsing succeededIndexes: too large index: \"5\""
)]
#[case::indexes_without_order(
    with_indexes("2,1", 1),
    "error parsing succeededIndexes: non-increasing order"
)]
#[case::index_twice(
    with_indexes("1-2,2", 1),
    "error parsing succeededIndexes: non-increasing order"
)]
#[case::more_than_indexes(
    with_indexes("0,2-3", 4),
    "succeededCount: Invalid value: 4: must be less than or equal to 3"
)]
#[case::pod(job_with(|spec| spec["template"]["spec"]["containers"][0]["livenessProbe"] = json!({})),
    "spec.template.spec.containers[0].livenessProbe: Required value: must specify a handler type")]
fn jobs_are_refused_as_upstream(#[case] job: Value, #[case] want: &str) {
    let errors = errors("batch", "Job", job, None);
    assert!(
        errors.iter().any(|error| error.contains(want)),
        "{errors:?}"
    );
}

fn with_name(name: &str, completions: i64) -> Value {
    let mut job = job_with(|spec| {
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = completions.into();
    });
    job["metadata"]["name"] = name.into();
    job
}

fn with_indexes(indexes: &str, count: i64) -> Value {
    let mut job = with_name("x", 5);
    let rule = json!({"succeededIndexes": indexes, "succeededCount": count});
    job["spec"]["successPolicy"] = json!({"rules": [rule]});
    job
}

#[test]
fn unusual_jobs_that_are_right_are_taken() {
    for job in [
        with_name(&"j".repeat(61), 10),
        with_indexes("0,2-4", 4),
        with_indexes("3", 1),
        job_with(|spec| spec["managedBy"] = "acme.io/queue/one".into()),
    ] {
        admitted("batch", "Job", job);
    }
}

/// Of an object with one field set.
#[rstest]
#[case::tls("", "Secret", "/type", json!("kubernetes.io/tls"), "data[tls.crt]: Required value")]
#[case::login("", "Secret", "/type", json!("kubernetes.io/dockerconfigjson"), "data[.dockerconfigjson]: Required value")]
#[case::target("", "Service", "/spec", json!({"ports": [{"port": 80, "targetPort": "A_B"}]}),
    "spec.ports[0].targetPort: Invalid value: \"A_B\"")]
#[case::port_name("", "Service", "/spec", json!({"ports": [{"port": 80, "name": "a.b"}]}), "spec.ports[0].name: Invalid value: \"a.b\"")]
#[case::elsewhere("", "Service", "/spec", json!({"type": "ExternalName"}), "spec.externalName: Required value")]
#[case::affinity("", "Service", "/spec", json!({"ports": [{"port": 80}], "sessionAffinity": "Mine"}), "spec.sessionAffinity: Unsupported value")]
#[case::percent("policy", "PodDisruptionBudget", "/spec", json!({"minAvailable": "half"}), "spec.minAvailable: Invalid value: \"half\": a valid percent string")]
#[case::all("policy", "PodDisruptionBudget", "/spec", json!({"maxUnavailable": "101%"}), "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%")]
#[case::fewer("policy", "PodDisruptionBudget", "/spec", json!({"maxUnavailable": -1}), "spec.maxUnavailable: Invalid value: -1")]
#[case::both("policy", "PodDisruptionBudget", "/spec", json!({"minAvailable": 1, "maxUnavailable": 1}), "spec: Invalid value")]
#[case::reserved("scheduling.k8s.io", "PriorityClass", "/metadata", json!({"name": "system-mine"}), "metadata.name: Forbidden")]
#[case::highest("scheduling.k8s.io", "PriorityClass", "/value", json!(1_000_000_001), "value: Forbidden: maximum allowed value")]
#[case::preempts("scheduling.k8s.io", "PriorityClass", "/preemptionPolicy", json!("Always"), "preemptionPolicy: Unsupported value")]
fn small_objects_are_refused_as_upstream(
    #[case] group: &str,
    #[case] kind: &str,
    #[case] place: &str,
    #[case] value: Value,
    #[case] want: &str,
) {
    let mut object = json!({"metadata": {"name": "x"}});
    if kind == "PriorityClass" {
        object["value"] = json!(1);
    }
    object[&place[1..]] = value;
    let errors = errors(group, kind, object, None);
    assert!(
        errors.iter().any(|error| error.starts_with(want)),
        "{errors:?}"
    );
}

#[test]
fn jobs_that_say_it_right_are_taken() {
    let policy = json!({"rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "a", "operator": "In", "values": [1, 42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]});
    let job = admitted(
        "batch",
        "Job",
        job_with(|spec| spec["podFailurePolicy"] = policy),
    );
    let want = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
    assert_eq!(job["spec"]["selector"], want);
}

#[test]
fn sysctls_have_names_of_the_kernel() {
    let names = [
        "foo-",
        "kernel.shmmax",
        "net/ipv4/tcp_syncookies",
        "net.ipv4.tcp_syncookies",
        "bar..",
        "Up",
        "",
    ];
    let sysctls: Vec<_> = names.map(|name| json!({"name": name, "value": "1"})).into();
    let pod = pod(&json!({
        "containers": [{"name": "a", "image": "busybox"}], "securityContext": {"sysctls": sysctls},
    }));
    let wrong: Vec<_> = errors("", "Pod", pod, None)
        .iter()
        .map(|error| error.split(": ").take(2).collect::<Vec<_>>().join(": "))
        .collect();
    let at = |index: u8, what: &str| format!("spec.securityContext.sysctls[{index}].name: {what}");
    let want = [
        at(0, "Invalid value"),
        at(3, "Duplicate value"),
        at(4, "Invalid value"),
        at(5, "Invalid value"),
        at(6, "Required value"),
    ];
    assert_eq!(wrong, want);
}
