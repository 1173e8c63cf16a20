use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A template whose container mounts these volumes.
fn template(name: &str, replicas: i32, group: &str, mounts: &[&str]) -> Value {
    let mounts: Vec<_> = mounts
        .iter()
        .map(|name| json!({ "name": name, "mountPath": format!("/{name}") }))
        .collect();
    json!({ "name": name, "replicas": replicas, "groupName": group, "template": {
        "metadata": { "labels": { "of": "the job" }, "annotations": { "on": "the job" } },
        "spec": { "completions": 2, "template": {
            "metadata": { "labels": { "of": "the pod" }, "annotations": { "on": "the pod" } },
            "spec": { "containers": [{ "name": "node", "image": "i", "volumeMounts": mounts }] },
        } },
    } })
}

/// A set with its defaults: `a` once, `b` three times in a group of its own, `c` twice.
fn set(change: impl FnOnce(&mut Value)) -> JobSet {
    let mut value = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": "demo", "namespace": "ns", "uid": "set-1" },
        "spec": { "replicatedJobs": [
            template("a", 1, "default", &[]), template("b", 3, "x", &[]), template("c", 2, "default", &[]),
        ] },
    });
    change(&mut value);
    let mut set = serde_json::from_value(value).expect("a valid set");
    default_job_set(&mut set);
    set
}

fn pod(job: &Job) -> &PodSpec {
    let spec = job.spec.as_ref().expect("a Job");
    spec.template.spec.as_ref().expect("pods")
}

fn json_of(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

#[rstest]
#[case::success("/spec/successPolicy/operator", json!("All"))]
#[case::order("/spec/startupPolicy/startupPolicyOrder", json!("AnyOrder"))]
#[case::host_names("/spec/network/enableDNSHostnames", json!(true))]
#[case::not_ready("/spec/network/publishNotReadyAddresses", json!(true))]
#[case::completion_mode("/spec/replicatedJobs/0/template/spec/completionMode", json!("Indexed"))]
#[case::restart_policy("/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy", json!("OnFailure"))]
#[case::strategy("/spec/failurePolicy/restartStrategy", json!("Recreate"))]
#[case::name_of_a_rule("/spec/failurePolicy/rules/1/name", json!("failurePolicyRule1"))]
#[case::retention("/spec/volumeClaimPolicies/0/retentionPolicy/whenDeleted", json!("Delete"))]
#[case::manager("/spec/managedBy", Value::Null)]
fn what_is_not_said_is_filled_in(#[case] place: &str, #[case] want: Value) {
    let set = json_of(&set(|set| {
        set["spec"]["failurePolicy"] = json!({ "rules": [
            { "name": "first", "action": "FailJobSet" }, { "action": "RestartJobSet" },
        ] });
        set["spec"]["volumeClaimPolicies"] = json!([{ "templates": [] }]);
    }));
    assert_eq!(
        set.pointer(place),
        Some(&want).filter(|want| !want.is_null())
    );
    let rules = &set["spec"]["failurePolicy"]["rules"];
    assert_eq!(rules[0]["name"], "first");
}

#[rstest]
#[case::success("/successPolicy", json!({ "operator": "Any", "targetReplicatedJobs": ["a"] }))]
#[case::order("/startupPolicy", json!({ "startupPolicyOrder": "InOrder" }))]
#[case::network("/network", json!({ "enableDNSHostnames": false, "publishNotReadyAddresses": false }))]
#[case::completion_mode("/replicatedJobs/0/template/spec/completionMode", json!("NonIndexed"))]
#[case::restart_policy("/replicatedJobs/0/template/spec/template/spec/restartPolicy", json!("Never"))]
#[case::manager("/managedBy", json!("acme.io/me"))]
fn what_is_said_stays(#[case] place: &str, #[case] said: Value) {
    let set = set(|set| {
        let (parent, name) = place.rsplit_once('/').expect("a place");
        set["spec"].pointer_mut(parent).expect("a parent")[name] = said.clone();
    });
    assert_eq!(json_of(&set.spec).pointer(place), Some(&said));
}

#[test]
fn each_job_knows_its_place_among_all_and_in_its_group() {
    let jobs = jobs_of(&set(|_| {}), 4);
    let places: Vec<_> = jobs
        .iter()
        .map(|job| {
            let label = |name: &str| job.labels()[name].as_str();
            [
                job.metadata.name.as_deref().unwrap_or_default(),
                label(labels::JOB_INDEX),
                label(labels::REPLICATED_JOB_REPLICAS),
                label(labels::JOB_GLOBAL_INDEX),
                label(labels::GLOBAL_REPLICAS),
                label(labels::GROUP_NAME),
                label(labels::JOB_GROUP_INDEX),
                label(labels::GROUP_REPLICAS),
                label(labels::RESTART_ATTEMPT),
            ]
        })
        .collect();
    let want = [
        ["demo-a-0", "0", "1", "0", "6", "default", "0", "3", "4"],
        ["demo-b-0", "0", "3", "1", "6", "x", "0", "3", "4"],
        ["demo-b-1", "1", "3", "2", "6", "x", "1", "3", "4"],
        ["demo-b-2", "2", "3", "3", "6", "x", "2", "3", "4"],
        ["demo-c-0", "0", "2", "4", "6", "default", "1", "3", "4"],
        ["demo-c-1", "1", "2", "5", "6", "default", "2", "3", "4"],
    ];
    assert_eq!(places, want);
}

#[test]
fn jobs_and_pods_carry_the_same_marks_beside_their_own() {
    let jobs = jobs_of(&set(|_| {}), 0);
    let job = &jobs[1];
    let spec = job.spec.as_ref().expect("a Job");
    let of_the_pod = spec.template.metadata.as_ref().expect("metadata");
    let marks = |own: &str, given: Option<&BTreeMap<String, String>>, key: &str| {
        let mut given = given.cloned().unwrap_or_default();
        assert_eq!(given.remove(key).as_deref(), Some(own));
        given
    };
    let want = marks("the job", job.metadata.labels.as_ref(), "of");
    assert_eq!(
        marks("the job", job.metadata.annotations.as_ref(), "on"),
        want
    );
    assert_eq!(marks("the pod", of_the_pod.labels.as_ref(), "of"), want);
    assert_eq!(
        marks("the pod", of_the_pod.annotations.as_ref(), "on"),
        want
    );
    assert_eq!(want[labels::JOBSET_NAME], "demo");
    assert_eq!(want[labels::JOBSET_UID], "set-1");
    assert_eq!(want[labels::REPLICATED_JOB_NAME], "b");
    // The digest of `ns/demo-b-0`.
    assert_eq!(want[labels::JOB_KEY], job_key("ns", "demo-b-0"));
    assert_eq!(want[labels::JOB_KEY].len(), 40);
    assert_eq!(want.get(labels::COORDINATOR), None);
    let owner = &job.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!(
        (owner.name.as_str(), owner.controller),
        ("demo", Some(true))
    );
}

#[rstest]
#[case::first_pod(json!({ "replicatedJob": "c" }), "demo-c-0-0.demo")]
#[case::another(json!({ "replicatedJob": "b", "jobIndex": 2, "podIndex": 1 }), "demo-b-2-1.demo")]
fn everybody_knows_the_coordinator(#[case] coordinator: Value, #[case] want: &str) {
    let set = set(|set| set["spec"]["coordinator"] = coordinator);
    for job in jobs_of(&set, 0) {
        let spec = job.spec.as_ref().expect("a Job");
        let pods = spec.template.metadata.as_ref().expect("metadata");
        let own = &job.metadata;
        for marks in [
            &own.labels,
            &own.annotations,
            &pods.labels,
            &pods.annotations,
        ] {
            assert_eq!(marks.as_ref().expect("marks")[labels::COORDINATOR], want);
        }
    }
}

#[rstest]
#[case::by_default(json!({}), Some(("demo", true)))]
#[case::a_name_of_its_own(json!({ "subdomain": "sub" }), Some(("sub", true)))]
#[case::only_ready_ones(json!({ "publishNotReadyAddresses": false }), Some(("demo", false)))]
#[case::no_names(json!({ "enableDNSHostnames": false }), None)]
fn pods_are_found_below_a_headless_service(
    #[case] network: Value,
    #[case] want: Option<(&str, bool)>,
) {
    let set = set(|set| set["spec"]["network"] = network);
    let service = service_of(&set);
    let found = service.as_ref().map(|service| {
        let spec = service.spec.as_ref().expect("a Service");
        assert_eq!(spec.cluster_ip.as_deref(), Some("None"));
        let selector = spec.selector.as_ref().expect("a selector");
        assert_eq!(selector[labels::JOBSET_NAME], "demo");
        assert!(service.metadata.owner_references.is_some());
        (
            service.metadata.name.as_deref().unwrap_or_default(),
            spec.publish_not_ready_addresses.unwrap_or_default(),
        )
    });
    assert_eq!(found, want);
    for job in jobs_of(&set, 0) {
        assert_eq!(pod(&job).subdomain.as_deref(), want.map(|(name, _)| name));
    }
}

#[rstest]
#[case(true)]
#[case(false)]
fn jobs_are_held_as_the_set_is(#[case] suspend: bool) {
    let set = set(|set| set["spec"]["suspend"] = json!(suspend));
    let held = jobs_of(&set, 0)
        .into_iter()
        .filter_map(|job| job.spec?.suspend);
    assert_eq!(held.collect::<Vec<_>>(), [suspend; 6]);
}

#[test]
fn claims_are_made_as_their_templates_say_and_go_with_the_set_unless_they_stay() {
    let set = set(|set| {
        let claim = |name: &str| {
            json!({ "metadata": { "name": name, "labels": { "l": "1" }, "annotations": { "a": "1" } },
                    "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } } })
        };
        set["spec"]["volumeClaimPolicies"] = json!([
            { "templates": [claim("data"), claim("logs")] },
            { "templates": [claim("model")], "retentionPolicy": { "whenDeleted": "Retain" } },
        ]);
    });
    let claims: Vec<_> = volume_claims_of(&set)
        .into_iter()
        .map(|claim| {
            let spec = claim.spec.as_ref().expect("a claim");
            assert_eq!(
                spec.access_modes.as_deref(),
                Some(&["ReadWriteMany".to_owned()][..])
            );
            assert_eq!(
                (
                    claim.labels()["l"].as_str(),
                    claim.annotations()["a"].as_str()
                ),
                ("1", "1")
            );
            assert_eq!(claim.labels()[labels::JOBSET_NAME], "demo");
            (claim.name_any(), claim.metadata.owner_references.is_some())
        })
        .collect();
    let want = [
        ("data-demo", true),
        ("logs-demo", true),
        ("model-demo", false),
    ];
    assert_eq!(claims, want.map(|(name, owned)| (name.to_owned(), owned)));
}

#[test]
fn a_claim_is_a_volume_of_the_pods_that_mount_it() {
    let set = set(|set| {
        let own = json!([{ "name": "own", "emptyDir": {} }]);
        let first =
            json!([{ "name": "first", "volumeMounts": [{ "name": "model", "mountPath": "/m" }] }]);
        set["spec"]["replicatedJobs"] = json!([
            template("none", 1, "default", &[]),
            template("one", 1, "default", &["data", "own"]),
            template("init", 1, "default", &["logs"]),
        ]);
        let pod =
            |index: usize| format!("/spec/replicatedJobs/{index}/template/spec/template/spec");
        set.pointer_mut(&pod(1)).expect("a pod")["volumes"] = own;
        set.pointer_mut(&pod(2)).expect("a pod")["initContainers"] = first;
        let claim = |name: &str| json!({ "metadata": { "name": name } });
        set["spec"]["volumeClaimPolicies"] = json!([
            { "templates": [claim("data"), claim("model")] },
            { "templates": [claim("logs")], "retentionPolicy": { "whenDeleted": "Retain" } },
        ]);
    });
    let volumes = |job: &Job| -> Vec<(String, Option<String>)> {
        let volumes = pod(job).volumes.iter().flatten();
        let source = |volume: &Volume| {
            let claim = volume.persistent_volume_claim.as_ref();
            claim.map(|claim| claim.claim_name.clone())
        };
        volumes
            .map(|volume| (volume.name.clone(), source(volume)))
            .collect()
    };
    let jobs = jobs_of(&set, 0);
    let claim = |name: &str| (name.to_owned(), Some(format!("{name}-demo")));
    assert_eq!(volumes(&jobs[0]), []);
    assert_eq!(volumes(&jobs[1]), [("own".to_owned(), None), claim("data")]);
    assert_eq!(volumes(&jobs[2]), [claim("model"), claim("logs")]);
}
