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
#[case::unknown_coordinator("/coordinator", json!({ "replicatedJob": "no" }), "spec.coordinator.replicatedJob")]
#[case::coordinators_job("/coordinator", json!({ "replicatedJob": "node", "jobIndex": 2 }), "spec.coordinator.jobIndex")]
#[case::coordinators_pod("/coordinator", json!({ "replicatedJob": "node", "podIndex": 2 }), "spec.coordinator.podIndex")]
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
