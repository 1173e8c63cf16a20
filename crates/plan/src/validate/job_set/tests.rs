use astrago_api::MOST_PODS;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn template(name: &str) -> Value {
    json!({
        "name": name, "replicas": 2,
        "template": { "spec": {
            "parallelism": 2, "completions": 2, "completionMode": "Indexed",
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "node", "image": "i" }] } },
        } },
    })
}

/// A good set, with something laid over its `spec`.
fn set(change: impl FnOnce(&mut Value)) -> JobSet {
    let mut set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": "demo", "namespace": "ns" },
        "spec": { "replicatedJobs": [template("data"), template("node")] },
    });
    change(&mut set);
    serde_json::from_value(set).expect("the form of a set")
}

fn fields(set: &JobSet) -> Vec<String> {
    let errors = validate_job_set(set).err().into_iter().flatten();
    errors.map(|error| error.field).collect()
}

#[test]
fn a_good_set_is_taken() {
    let good = set(|set| {
        let spec = &mut set["spec"];
        spec["replicatedJobs"][1]["dependsOn"] = json!([{ "name": "data", "status": "Ready" }]);
        spec["successPolicy"] = json!({ "operator": "Any", "targetReplicatedJobs": ["node"] });
        spec["failurePolicy"] = json!({ "maxRestarts": 3, "restartStrategy": "BlockingRecreate", "rules": [
            { "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"], "targetReplicatedJobs": ["node"] },
            { "name": "again", "action": "RestartJobSetAndIgnoreMaxRestarts",
              "onJobFailureMessagePatterns": ["exit code 13[67]$"] },
        ] });
        spec["coordinator"] = json!({ "replicatedJob": "node", "jobIndex": 1, "podIndex": 1 });
        spec["network"] = json!({ "subdomain": "sub" });
        spec["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    });
    assert_eq!(validate_job_set(&good), Ok(()));
}

#[rstest]
#[case::depends_on_what_is_not_there("/replicatedJobs/1/dependsOn", json!([{ "name": "no", "status": "Ready" }]),
    "spec.replicatedJobs[1].dependsOn[0].name")]
#[case::depends_on_a_later_one("/replicatedJobs/0/dependsOn", json!([{ "name": "node", "status": "Ready" }]),
    "spec.replicatedJobs[0].dependsOn[0].name")]
#[case::depends_on_itself("/replicatedJobs/1/dependsOn", json!([{ "name": "node", "status": "Ready" }]),
    "spec.replicatedJobs[1].dependsOn[0].name")]
#[case::there_twice("/replicatedJobs/1/name", json!("data"), "spec.replicatedJobs[1].name")]
#[case::not_a_name("/replicatedJobs/1/name", json!("No_Name"), "spec.replicatedJobs[1].name")]
#[case::long_job_names("/replicatedJobs/1/name", json!("n".repeat(57)), "spec.replicatedJobs[1].name")]
#[case::long_pod_names("/replicatedJobs/1/name", json!("n".repeat(50)), "spec.replicatedJobs[1].name")]
#[case::bad_group("/replicatedJobs/1/groupName", json!("1st"), "spec.replicatedJobs[1].groupName")]
#[case::pods_that_never_end("/replicatedJobs/1/template/spec/template/spec/restartPolicy", json!("Always"),
    "spec.replicatedJobs[1].template.spec.template.spec.restartPolicy")]
#[case::too_many_replicas("/replicatedJobs/1/replicas", json!(i32::MAX), "spec.replicatedJobs[1].replicas")]
#[case::negative_replicas("/replicatedJobs/1/replicas", json!(-1), "spec.replicatedJobs[1].replicas")]
#[case::too_many_pods("/replicatedJobs/1/template/spec/parallelism", json!(i32::MAX),
    "spec.replicatedJobs[1].template.spec.parallelism")]
#[case::too_many_completions("/replicatedJobs/1/template/spec/completions", json!(i32::MAX),
    "spec.replicatedJobs[1].template.spec.completions")]
#[case::too_many_all_together("/replicatedJobs/1/replicas", json!(MOST_PODS / 2), "spec.replicatedJobs[1].replicas")]
#[case::bad_subdomain("/network", json!({ "subdomain": "Sub.Domain" }), "spec.network.subdomain")]
#[case::long_subdomain("/network", json!({ "subdomain": "s".repeat(64) }), "spec.network.subdomain")]
#[case::bad_manager("/managedBy", json!("somebody"), "spec.managedBy")]
#[case::long_manager("/managedBy", json!(format!("acme.io/{}", "x".repeat(60))), "spec.managedBy")]
#[case::unknown_success_target("/successPolicy", json!({ "operator": "All", "targetReplicatedJobs": ["no"] }),
    "spec.successPolicy.targetReplicatedJobs[0]")]
#[case::unknown_failure_target("/failurePolicy",
    json!({ "rules": [{ "name": "a", "action": "FailJobSet", "targetReplicatedJobs": ["no"] }] }),
    "spec.failurePolicy.rules[0].targetReplicatedJobs[0]")]
#[case::unknown_reason("/failurePolicy",
    json!({ "rules": [{ "name": "a", "action": "FailJobSet", "onJobFailureReasons": ["Bad"] }] }),
    "spec.failurePolicy.rules[0].onJobFailureReasons")]
#[case::no_pattern("/failurePolicy",
    json!({ "rules": [{ "name": "a", "action": "FailJobSet", "onJobFailureMessagePatterns": ["("] }] }),
    "spec.failurePolicy.rules[0].onJobFailureMessagePatterns")]
#[case::bad_rule_name("/failurePolicy", json!({ "rules": [{ "name": "1a", "action": "FailJobSet" }] }),
    "spec.failurePolicy.rules[0].name")]
#[case::rule_name_twice("/failurePolicy",
    json!({ "rules": [{ "name": "a", "action": "FailJobSet" }, { "name": "a", "action": "FailJobSet" }] }),
    "spec.failurePolicy.rules[1].name")]
#[case::restart_of_one_job("/failurePolicy", json!({ "rules": [{ "name": "a", "action": "RestartJob" }] }),
    "spec.failurePolicy.rules[0].action")]
#[case::restart_in_place("/failurePolicy", json!({ "restartStrategy": "InPlaceRestart" }),
    "spec.failurePolicy.restartStrategy")]
#[case::long_rule_name("/failurePolicy", json!({ "rules": [{ "name": "a".repeat(129), "action": "FailJobSet" }] }),
    "spec.failurePolicy.rules[0].name")]
#[case::rule_name_with_a_bad_end("/failurePolicy", json!({ "rules": [{ "name": "a:", "action": "FailJobSet" }] }),
    "spec.failurePolicy.rules[0].name")]
#[case::restart_of_one_job_that_is_not_counted("/failurePolicy",
    json!({ "rules": [{ "name": "a", "action": "RestartJobAndIgnoreMaxRestarts" }] }),
    "spec.failurePolicy.rules[0].action")]
#[case::unknown_coordinator("/coordinator", json!({ "replicatedJob": "no" }), "spec.coordinator.replicatedJob")]
#[case::coordinators_job("/coordinator", json!({ "replicatedJob": "node", "jobIndex": 2 }), "spec.coordinator.jobIndex")]
#[case::coordinators_pod("/coordinator", json!({ "replicatedJob": "node", "podIndex": 2 }), "spec.coordinator.podIndex")]
#[case::coordinators_job_below_zero("/coordinator", json!({ "replicatedJob": "node", "jobIndex": -1 }),
    "spec.coordinator.jobIndex")]
#[case::claim_that_nobody_mounts("/volumeClaimPolicies", json!([{ "templates": [{ "metadata": { "name": "v" } }] }]),
    "spec.volumeClaimPolicies[0].templates[0].metadata.name")]
fn what_the_webhook_refuses_is_refused_with_its_field(
    #[case] place: &str,
    #[case] value: Value,
    #[case] want: &str,
) {
    let bad = set(|set| {
        let (parent, name) = place.rsplit_once('/').expect("a place");
        let parent = set["spec"].pointer_mut(parent).expect("a parent");
        parent[name] = value;
    });
    assert_eq!(fields(&bad), [want]);
}

#[test]
fn an_order_and_dependencies_exclude_each_other() {
    let bad = set(|set| {
        set["spec"]["startupPolicy"] = json!({ "startupPolicyOrder": "InOrder" });
        set["spec"]["replicatedJobs"][1]["dependsOn"] =
            json!([{ "name": "data", "status": "Ready" }]);
    });
    assert_eq!(fields(&bad), ["spec.replicatedJobs[1].dependsOn"]);
}

#[test]
fn exclusive_placement_is_refused_and_not_ignored() {
    let key = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    let own = set(|set| set["metadata"]["annotations"] = json!({ key: "rack" }));
    assert_eq!(fields(&own), [format!("metadata.annotations[{key}]")]);
    let of_a_template = set(|set| {
        set["spec"]["replicatedJobs"][0]["template"]["metadata"] =
            json!({ "annotations": { key: "rack" } });
    });
    let want = format!("spec.replicatedJobs[0].template.metadata.annotations[{key}]");
    assert_eq!(fields(&of_a_template), [want]);
}

/// Names of sets, with the name of the template and the subdomain, of which the address of a coordinator is made.
#[rstest]
#[case::of_the_set("d".repeat(50), "n", "subdomain")]
#[case::of_the_template("demo".into(), &"n".repeat(47), "subdomain")]
#[case::of_the_subdomain("demo".into(), "n", &"s".repeat(54))]
fn the_address_of_a_coordinator_is_a_label(
    #[case] name: String,
    #[case] of_template: &str,
    #[case] subdomain: &str,
) {
    let bad = set(|set| {
        set["metadata"]["name"] = json!(name);
        let mut template = template(of_template);
        template["template"]["spec"]["completionMode"] = json!("Indexed");
        set["spec"]["replicatedJobs"] = json!([template]);
        set["spec"]["coordinator"] = json!({ "replicatedJob": of_template });
        set["spec"]["network"] = json!({ "subdomain": subdomain });
    });
    assert_eq!(fields(&bad), ["spec.coordinator"]);
}

#[rstest]
#[case::no_completions(json!({ "parallelism": 1, "completionMode": "Indexed" }))]
#[case::not_indexed(json!({ "completions": 2, "completionMode": "NonIndexed" }))]
fn a_coordinator_is_a_pod_with_an_index(#[case] job: Value) {
    let bad = set(|set| {
        set["spec"]["replicatedJobs"][1]["template"]["spec"] = job;
        set["spec"]["coordinator"] = json!({ "replicatedJob": "node" });
    });
    assert_eq!(fields(&bad), ["spec.coordinator.replicatedJob"]);
}

#[rstest]
#[case::a_letter_that_names_have_not("de_mo".into(), "Indexed", &["spec.replicatedJobs[0].name"])]
#[case::long_job_names("d".repeat(61), "Indexed", &["spec.replicatedJobs[0].name"])]
#[case::long_pod_names("d".repeat(52), "Indexed", &["spec.replicatedJobs[0].name"])]
#[case::as_long_as_may_be("d".repeat(51), "Indexed", &[])]
#[case::pods_without_an_index("d".repeat(52), "NonIndexed", &[])]
fn the_name_of_a_set_is_short_enough_for_its_pods(
    #[case] name: String,
    #[case] mode: &str,
    #[case] want: &[&str],
) {
    let set = set(|set| {
        set["metadata"]["name"] = json!(name);
        set["spec"]["replicatedJobs"] = json!([template("n")]);
        set["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = json!(mode);
    });
    assert_eq!(fields(&set), want);
}

/// What each of the templates `a`, `b` and `c` depends on.
#[rstest]
#[case::all_on_the_first([&[][..], &["a"], &["a"]], &[])]
#[case::one_after_the_other([&[][..], &["a"], &["b"]], &[])]
#[case::on_both([&[][..], &[], &["a", "b"]], &[])]
#[case::the_second_on_the_third([&[][..], &["c"], &[]], &["spec.replicatedJobs[1].dependsOn[0].name"])]
#[case::one_of_two_stands_later([&[][..], &["a", "c"], &[]], &["spec.replicatedJobs[1].dependsOn[1].name"])]
#[case::the_first_on_nothing_before([&["b"][..], &[], &[]], &["spec.replicatedJobs[0].dependsOn[0].name"])]
fn what_a_template_depends_on_stands_before_it(
    #[case] depends: [&[&str]; 3],
    #[case] want: &[&str],
) {
    let set = set(|set| {
        let templates = ["a", "b", "c"].iter().zip(depends).map(|(name, depends)| {
            let wanted = depends
                .iter()
                .map(|name| json!({ "name": name, "status": "Ready" }));
            let mut template = template(name);
            template["dependsOn"] = wanted.collect();
            template
        });
        set["spec"]["replicatedJobs"] = templates.collect();
    });
    assert_eq!(fields(&set), want);
}

#[test]
fn a_set_without_templates_is_taken() {
    let empty = set(|set| set["spec"]["replicatedJobs"] = json!([]));
    assert_eq!(validate_job_set(&empty), Ok(()));
}

const CLAIM: &str = "spec.volumeClaimPolicies[0].templates[0].metadata.name";
const SECOND: &str = "spec.volumeClaimPolicies[1].templates[0].metadata.name";
const VOLUME: &str = "spec.replicatedJobs[0].template.spec.template.spec.volumes[0].name";

/// Two claims, of which the pods of the first template mount whatever is called as one of them.
#[rstest]
#[case::both_are_mounted(["v", "w"], "containers", json!({}), &[])]
#[case::by_an_init_container(["v", "w"], "initContainers", json!({}), &[])]
#[case::twice(["v", "v"], "containers", json!({}), &[SECOND])]
#[case::upper_case(["V", "w"], "containers", json!({}), &[CLAIM])]
#[case::long(["v234567890v234567890v234567890v234567890v234567890v23456789", "w"], "containers", json!({}), &[CLAIM])]
#[case::nobody_mounts_them(["v", "w"], "none", json!({}), &[CLAIM, SECOND])]
#[case::a_volume_has_the_name(["v", "w"], "containers", json!([{ "name": "w", "emptyDir": {} }]), &[VOLUME])]
fn claims_are_mounted_under_names_of_their_own(
    #[case] claims: [&str; 2],
    #[case] containers: &str,
    #[case] volumes: Value,
    #[case] want: &[&str],
) {
    let set = set(|set| {
        let mounts = claims.map(|name| json!({ "name": name, "mountPath": format!("/{name}") }));
        let mounting = json!([{ "name": "mounting", "volumeMounts": mounts }]);
        let pod = &mut set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
        if containers != "none" {
            pod[containers] = mounting;
        }
        if volumes.is_array() {
            pod["volumes"] = volumes;
        }
        set["spec"]["volumeClaimPolicies"] = claims
            .map(|name| json!({ "templates": [{ "metadata": { "name": name } }] }))
            .into();
    });
    assert_eq!(fields(&set), want);
}
