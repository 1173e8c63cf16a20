//! What the API server refuses of JobSets, and of changes to TrainJobs, by the rules in their definitions; and what
//! becomes of what was stored before there were rules.

use astrago_api::{JobSet, TrainJob};
use astrago_testkit::{Plane, train_job};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

fn template(name: &str) -> Value {
    json!({ "name": name, "template": { "spec": { "parallelism": 1, "completions": 1, "template": { "spec": {
        "containers": [{ "name": "node", "image": "i" }] } } } } })
}

fn set(place: &str, value: &Value) -> JobSet {
    let mut set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": "demo" },
        "spec": { "replicatedJobs": [template("data"), template("node")] },
    });
    let (parent, name) = place.rsplit_once('/').unwrap();
    set.pointer_mut(parent).unwrap()[name] = value.clone();
    serde_json::from_value(set).expect("the form of a set")
}

async fn problem(plane: &Plane, set: &JobSet) -> Option<String> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let error = plane.api::<JobSet>().create(&dry, set).await.err()?;
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!(status.code, 422, "{status:?}");
    Some(status.message.clone())
}

#[derive(serde::Deserialize)]
struct Cases {
    accepted: Vec<Case>,
    refused: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    place: String,
    value: Value,
    #[serde(default)]
    says: String,
}

/// The same table is put to kube-apiserver's own validation, by `tests/cluster/conformance/definitions`.
#[tokio::test]
async fn a_bad_set_is_refused_with_its_field() {
    let plane = Plane::start().await;
    let cases: Cases = serde_json::from_str(include_str!("job_set_admission.json")).unwrap();
    for Case { place, value, says } in cases.refused {
        let told = problem(&plane, &set(&place, &value)).await;
        assert!(
            told.as_ref().is_some_and(|told| told.contains(&says)),
            "{place} {value}: {told:?}"
        );
    }
    for Case { place, value, .. } in cases.accepted {
        assert_eq!(problem(&plane, &set(&place, &value)).await, None, "{place}");
    }
}

#[tokio::test]
async fn a_name_that_is_made_for_a_set_is_short_enough_for_its_pods() {
    let plane = Plane::start().await;
    for (prefix, want) in [
        ("d".repeat(43), None),
        ("d".repeat(44), Some("pod names generated")),
        ("d".repeat(52), Some("job names generated")),
    ] {
        let set = set("/metadata", &json!({ "generateName": prefix }));
        let told = problem(&plane, &set).await;
        let fits = match (&told, want) {
            (Some(told), Some(want)) => told.contains(want),
            (told, want) => told.is_none() && want.is_none(),
        };
        assert!(fits, "{}: {told:?}", prefix.len());
    }
}

/// As JobSet's webhook has it: what runs stays as it is, and what is held may be placed anew.
#[tokio::test]
async fn a_set_is_changed_only_where_its_jobs_can_follow() {
    let plane = Plane::start().await;
    let mut placed = template("node");
    placed["template"]["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let placed = json!({ "replicatedJobs": [template("data"), placed] });
    let mut gated = template("node");
    gated["template"]["spec"]["template"]["spec"]["schedulingGates"] =
        json!([{ "name": "acme.io/a" }]);
    let gated = json!({ "replicatedJobs": [template("data"), gated] });
    let mut stopped = placed.clone();
    stopped["suspend"] = json!(true);
    let renamed = json!({ "replicatedJobs": [template("data"), template("other")] });
    let mut scaled = template("node");
    scaled["template"]["spec"]["parallelism"] = json!(3);
    scaled["template"]["spec"]["completions"] = json!(3);
    let scaled = json!({ "replicatedJobs": [template("data"), scaled] });
    let more = json!({ "replicatedJobs": [template("data"), template("node"), template("more")] });
    let cases = [
        (false, json!({ "suspend": true }), ""),
        (false, json!({ "ttlSecondsAfterFinished": 5 }), ""),
        (false, placed.clone(), "spec.replicatedJobs"),
        (false, more, "spec.replicatedJobs"),
        (false, renamed, "spec.replicatedJobs"),
        (false, scaled, "spec.replicatedJobs"),
        (false, gated.clone(), "spec.replicatedJobs"),
        (true, gated, ""),
        (false, stopped, ""),
        (true, placed, ""),
        (
            true,
            json!({ "managedBy": "acme.io/other" }),
            "spec.managedBy",
        ),
        (
            true,
            json!({ "failurePolicy": { "maxRestarts": 9 } }),
            "spec.failurePolicy",
        ),
        (
            true,
            json!({ "successPolicy": { "operator": "Any" } }),
            "spec.successPolicy",
        ),
    ];
    let sets = plane.api::<JobSet>();
    for (number, (suspended, change, want)) in cases.into_iter().enumerate() {
        let name = format!("set-{number}");
        let old = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": name }, "spec": {
            "suspend": suspended, "managedBy": "acme.io/me", "replicatedJobs": [template("data"), template("node")],
            "failurePolicy": { "maxRestarts": 1 }, "successPolicy": { "operator": "All" } } });
        plane
            .create(&serde_json::from_value::<JobSet>(old).unwrap())
            .await;
        let patch = Patch::Merge(json!({ "spec": change }));
        let told = sets.patch(&name, &PatchParams::default(), &patch).await;
        let told = told.err().map_or(String::new(), |error| error.to_string());
        assert!(
            told.is_empty() == want.is_empty() && told.contains(want),
            "{change}, suspended {suspended}: {told}"
        );
    }
}

/// As after an upgrade: the definition had no rules when the objects were stored.
async fn without_rules(plane: &Plane, plural: &str) {
    let name = if plural == "jobsets" {
        "jobsets.jobset.x-k8s.io"
    } else {
        "trainjobs.trainer.kubeflow.org"
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client.clone());
    let found = definitions.get(name).await.expect("the definition");
    let mut versions = serde_json::to_value(found.spec.versions).expect("versions");
    versions[0]["schema"] = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let patch = Patch::Merge(json!({ "spec": { "versions": versions } }));
    definitions
        .patch(name, &PatchParams::default(), &patch)
        .await
        .expect("the definition");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_and_cannot_be_planned_has_failed_and_says_why() {
    let plane = Plane::start().await;
    without_rules(&plane, "jobsets").await;
    without_rules(&plane, "trainjobs").await;
    plane
        .create(&set("/spec/replicatedJobs/1/replicas", &json!(i32::MAX)))
        .await;
    plane
        .create(&train_job("huge").nodes(i32::MAX).build())
        .await;
    plane.run_controllers();
    let failed = |conditions: &[Condition], field: &str| {
        let failed = astrago_api::conditions::find(conditions, "Failed");
        failed.is_some_and(|failed| failed.message.contains(field))
    };
    plane
        .until("has failed", "demo", |set: &JobSet| {
            failed(set.conditions(), "spec.replicatedJobs[1].replicas")
        })
        .await;
    plane
        .until("has failed", "huge", |job: &TrainJob| {
            failed(job.conditions(), "spec.trainer.numNodes")
        })
        .await;
    assert!(plane.list::<Job>().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_to_the_runtime_are_refused_while_the_job_runs() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&train_job("demo").nodes(1).build()).await;
    plane.node.running("demo-node-0", 0).await;
    let selector = json!({ "nodeSelector": { "disk": "ssd" } });
    let overrides = json!([{ "targetJobs": [{ "name": "node" }], "spec": selector }]);
    let patches = json!([{ "manager": "acme.io/me", "trainingRuntimeSpec": { "template": { "spec": {
        "replicatedJobs": [{ "name": "node", "template": { "spec": { "template": { "spec": selector } } } }] } } } }]);
    let jobs = plane.api::<TrainJob>();
    let change = async |spec: Value| {
        let patch = Patch::Merge(json!({ "spec": spec }));
        jobs.patch("demo", &PatchParams::default(), &patch).await
    };
    for (field, value) in [
        ("podTemplateOverrides", overrides),
        ("runtimePatches", patches),
    ] {
        let refused = change(json!({ field: value })).await.expect_err(field);
        let kube::Error::Api(status) = refused else {
            panic!("{refused}")
        };
        let want = format!(
            "spec.{field}: Forbidden: {field} can only be modified when the TrainJob is suspended"
        );
        assert!(
            status.code == 422 && status.message.contains(&want),
            "{}",
            status.message
        );
        change(json!({ field: value, "suspend": true }))
            .await
            .expect(field);
        change(json!({ "suspend": false })).await.expect(field);
    }
}
