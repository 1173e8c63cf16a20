//! Pods that are ended on purpose: held jobs, deleted and evicted pods. None of that ends a job or costs it a restart.

use astrago_api::legacy::PyTorchJob;
use astrago_api::{JobSet, TrainJob};
use astrago_testkit::{Plane, train_job};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};

const JOB: &str = "demo-node-0";

async fn hold(plane: &Plane, hold: bool) {
    plane
        .patch::<TrainJob>("demo", json!({ "spec": { "suspend": hold } }))
        .await;
}

fn holds(job: &TrainJob, kind: &str, status: &str) -> bool {
    let found = astrago_api::conditions::find(job.conditions(), kind);
    found.is_some_and(|found| found.status == status)
}

/// What `kubectl get trainjob` shows as STATE.
async fn state(plane: &Plane) -> Option<String> {
    let request =
        http::Request::get("/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/demo")
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .expect("a request");
    let table: Value = plane.client.request(request).await.expect("a table");
    table["rows"][0]["cells"][1].as_str().map(str::to_owned)
}

#[rstest]
#[case::saves_and_ends_well(0)]
#[case::dies_of_the_signal(143)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_held_again_and_again_goes_on_and_completes(#[case] exit_code: i32) {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.node.stop_with(exit_code);
    plane
        .create(&train_job("demo").nodes(2).max_restarts(0).build())
        .await;
    for crash in [false, true] {
        let first = plane.node.running(JOB, 0).await;
        plane.node.running(JOB, 1).await;
        hold(&plane, true).await;
        if crash {
            plane.crash_controllers().await;
            plane.run_controllers();
        }
        plane
            .until("is held", "demo", |job: &TrainJob| {
                holds(job, "Suspended", "True") && !job.is_suspending()
            })
            .await;
        assert_eq!(state(&plane).await.as_deref(), Some("Suspended"));
        plane.until_none::<Pod>().await;
        hold(&plane, false).await;
        plane
            .until("goes on", "demo", |job: &TrainJob| {
                holds(job, "Suspended", "False")
            })
            .await;
        assert_eq!(state(&plane).await, None);
        let second = plane.node.running(JOB, 0).await;
        assert_ne!(first.uid(), second.uid());
    }
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    plane.until_condition("demo", "Complete").await;
    assert_eq!(state(&plane).await.as_deref(), Some("Complete"));
    let set: JobSet = plane.api().get("demo").await.expect("the set");
    assert_eq!(set.restarts(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_last_pod_ended_before_it_is_held_is_complete() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").nodes(1).max_restarts(0).build())
        .await;
    plane.node.running(JOB, 0).await;
    plane.stop_controllers().await;
    plane.node.succeed(JOB, 0).await;
    plane.clock.advance(1);
    hold(&plane, true).await;
    plane.run_controllers();
    plane.until_condition("demo", "Complete").await;
}

#[rstest]
#[case::ends_well(0)]
#[case::dies_of_the_signal(143)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_starts_the_gang_again_and_that_does_not_count(
    #[case] exit_code: i32,
) {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.node.stop_with(exit_code);
    plane
        .create(&train_job("demo").nodes(2).max_restarts(0).build())
        .await;
    let peer = plane.node.running(JOB, 0).await;
    let victim = plane.node.running(JOB, 1).await;
    plane.delete::<Pod>(&victim.name_any()).await;
    plane
        .until("is started again", "demo", |set: &JobSet| {
            set.restarts() == 1
        })
        .await;
    plane.until_gone::<Pod>(&peer.name_any()).await;
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    plane.until_condition("demo", "Complete").await;
    let set: JobSet = plane.api().get("demo").await.expect("the set");
    let status = set.status.expect("a status");
    assert_eq!(status.restarts_count_towards_max, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v1_job_is_held_and_goes_on_without_a_verdict() {
    let plane = Plane::start().await;
    let replica = json!({ "replicas": 1, "restartPolicy": "Never",
        "template": { "spec": { "containers": [{ "name": "pytorch", "image": "i" }] } } });
    let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "demo" },
        "spec": { "runPolicy": {}, "pytorchReplicaSpecs": { "Master": replica } } });
    let job: PyTorchJob = serde_json::from_value(job).expect("a job");
    plane.run_controllers();
    plane.node.stop_with(0);
    plane.create(&job).await;
    let runs = |not: Option<String>| {
        move |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            phase.as_deref() == Some("Running") && pod.uid() != not
        }
    };
    let first = plane.until("runs", "demo-master-0", runs(None)).await;
    let hold = |hold: bool| json!({ "spec": { "runPolicy": { "suspend": hold } } });
    plane.patch::<PyTorchJob>("demo", hold(true)).await;
    plane
        .until("is held", "demo", |job: &PyTorchJob| {
            let conditions = job.status.iter().flat_map(|status| &status.conditions);
            let mut held = conditions.filter(|found| found.type_ == "Suspended");
            held.any(|found| found.status == "True")
        })
        .await;
    plane.patch::<PyTorchJob>("demo", hold(false)).await;
    let again = runs(first.uid());
    plane.until("runs again", "demo-master-0", again).await;
    let ended = json!({ "status": { "phase": "Failed", "reason": "Evicted", "conditions": [
        { "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet" } ] } });
    let before: Pod = plane.api().get("demo-master-0").await.expect("the pod");
    plane
        .api::<Pod>()
        .patch_status(
            "demo-master-0",
            &PatchParams::default(),
            &Patch::Merge(ended),
        )
        .await
        .expect("the pod");
    let again = runs(before.uid());
    plane.until("runs once more", "demo-master-0", again).await;
    let job: PyTorchJob = plane.api().get("demo").await.expect("the job");
    let conditions = job.status.expect("a status").conditions;
    assert!(
        conditions
            .iter()
            .all(|found| !["Failed", "Succeeded"].contains(&found.type_.as_str()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_says_how_many_of_its_pods_may_go_now() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&train_job("demo").nodes(2).build()).await;
    let budget = json!({ "metadata": { "name": "budget" }, "spec": { "minAvailable": 1,
        "selector": { "matchLabels": { "jobset.sigs.k8s.io/jobset-name": "demo" } } } });
    let budget: PodDisruptionBudget = serde_json::from_value(budget).expect("a budget");
    plane.create(&budget).await;
    let allows = |count: i32| {
        move |budget: &PodDisruptionBudget| {
            let status = budget.status.as_ref();
            status.is_some_and(|status| status.disruptions_allowed == Some(count))
        }
    };
    plane.node.running(JOB, 0).await;
    plane.until("allows one", "budget", allows(1)).await;
    plane.node.succeed(JOB, 1).await;
    plane.until("allows none", "budget", allows(0)).await;
}
