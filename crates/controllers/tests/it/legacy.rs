//! v1 jobs on a real API with a fake node: their lives from creation to TTL.

use astrago_api::legacy::{LegacyJobStatus, MPIJob, PyTorchJob, TFJob};
use astrago_testkit::{Behaviour, Plane, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better with json! in place"
)]
fn pytorch(name: &str, run_policy: Value, restart_policy: &str) -> PyTorchJob {
    let replica = json!({ "replicas": 1, "restartPolicy": restart_policy,
        "template": { "spec": { "containers": [{ "name": "pytorch", "image": "i" }] } } });
    let spec = json!({ "runPolicy": run_policy, "pytorchReplicaSpecs": { "Master": replica, "Worker": replica } });
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": name }, "spec": spec });
    serde_json::from_value(object).expect("a job")
}

fn is(status: Option<&LegacyJobStatus>, kind: &str) -> bool {
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

async fn until_job(plane: &Plane, name: &str, kind: &str) -> PyTorchJob {
    let what = format!("is {kind}");
    plane
        .until(&what, name, |job: &PyTorchJob| {
            is(job.status.as_ref(), kind)
        })
        .await
}

/// The pod of this name runs, and is not the one with the uid `not`.
async fn until_runs(plane: &Plane, name: &str, not: Option<&str>) -> Pod {
    plane
        .until("runs", name, |pod: &Pod| {
            pod.metadata.uid.as_deref() != not
                && pod.metadata.deletion_timestamp.is_none()
                && pod
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref())
                    == Some("Running")
        })
        .await
}

async fn end(plane: &Plane, name: &str, code: i32) -> Pod {
    let pod = until_runs(plane, name, None).await;
    let container = &pod.spec.as_ref().expect("a spec").containers[0].name;
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let patch = json!({ "metadata": { "uid": pod.uid() }, "status": { "phase": phase, "containerStatuses": [{
        "name": container, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": code } } }] } });
    let pods = plane.api::<Pod>();
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("a pod")
}

#[tokio::test]
async fn a_job_runs_and_succeeds_with_its_master_and_is_cleaned_up() {
    let plane = Plane::start().await;
    plane.run_controllers();
    let policy = json!({ "cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 60 });
    plane.create(&pytorch("demo", policy, "OnFailure")).await;
    let running = until_job(&plane, "demo", "Running").await;
    let status = running.status.expect("a status");
    assert_eq!(status.conditions[0].type_, "Created");
    assert_eq!(
        status.conditions[0].reason.as_deref(),
        Some("PyTorchJobCreated")
    );
    assert_eq!(
        plane
            .list::<Service>()
            .await
            .iter()
            .filter(|service| service.name_any().starts_with("demo-"))
            .count(),
        2
    );
    until_runs(&plane, "demo-worker-0", None).await;
    end(&plane, "demo-master-0", 0).await;
    let done = until_job(&plane, "demo", "Succeeded")
        .await
        .status
        .expect("a status");
    assert_eq!(
        done.conditions.last().expect("conditions").type_,
        "Succeeded"
    );
    assert!(done.completion_time.is_some());
    assert_eq!(done.replica_statuses["Worker"].active, 0);
    plane.clock.advance(11);
    plane.until_gone::<Pod>("demo-worker-0").await;
    plane.until_gone::<Service>("demo-master-0").await;
    assert!(
        plane
            .api::<Pod>()
            .get_opt("demo-master-0")
            .await
            .expect("an answer")
            .is_some()
    );
    plane.clock.advance(61);
    plane.until_gone::<PyTorchJob>("demo").await;
    plane.until_none::<Pod>().await;
}

#[tokio::test]
async fn a_killed_replica_is_made_anew_as_often_as_the_limit_says() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&pytorch("retry", json!({ "backoffLimit": 2 }), "ExitCode"))
        .await;
    let mut last = None;
    for restarts in 0..3 {
        let pod = until_runs(&plane, "retry-worker-0", last.as_deref()).await;
        last = pod.uid();
        let job = plane
            .api::<PyTorchJob>()
            .get("retry")
            .await
            .expect("the job");
        let status = job.status.expect("a status");
        let counted = status
            .replica_statuses
            .get("Worker")
            .map_or(0, |worker| worker.restarts);
        assert_eq!(counted, restarts);
        end(&plane, "retry-worker-0", 137).await;
    }
    let failed = until_job(&plane, "retry", "Failed")
        .await
        .status
        .expect("a status");
    let message = failed
        .conditions
        .last()
        .and_then(|condition| condition.message.clone());
    assert_eq!(
        message.as_deref(),
        Some("Job retry has failed because it has reached the specified backoff limit")
    );
    assert!(failed.completion_time.is_some());
    // A limit ends what runs, whatever cleanPodPolicy says; what ended stays to be looked at.
    plane.until_gone::<Pod>("retry-master-0").await;
    assert!(
        plane
            .api::<Pod>()
            .get_opt("retry-worker-0")
            .await
            .expect("an answer")
            .is_some()
    );
}

#[tokio::test]
async fn a_restart_is_counted_once_though_the_controllers_crash() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&pytorch("crash", json!({ "backoffLimit": 5 }), "ExitCode"))
        .await;
    let first = until_runs(&plane, "crash-worker-0", None).await;
    plane.crash_controllers().await;
    end(&plane, "crash-worker-0", 143).await;
    plane.run_controllers();
    until_job(&plane, "crash", "Restarting").await;
    plane.crash_controllers().await;
    plane.run_controllers();
    until_runs(&plane, "crash-worker-0", first.uid().as_deref()).await;
    let job = until_job(&plane, "crash", "Running").await;
    assert_eq!(
        job.status.expect("a status").replica_statuses["Worker"].restarts,
        1
    );
}

#[tokio::test]
async fn a_permanent_error_fails_the_job_and_an_invalid_one_never_starts() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&pytorch("broken", json!({}), "ExitCode"))
        .await;
    end(&plane, "broken-worker-0", 1).await;
    let failed = until_job(&plane, "broken", "Failed")
        .await
        .status
        .expect("a status");
    assert!(failed.completion_time.is_some());
    let message = failed
        .conditions
        .last()
        .and_then(|condition| condition.message.clone());
    assert_eq!(
        message.as_deref(),
        Some("PyTorchJob broken is failed because 1 Worker replica(s) failed.")
    );

    // A cluster may have the operator's own definitions, without our rules.
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client.clone());
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let path = "/spec/versions/0/schema/openAPIV3Schema";
    let patch = json!([{ "op": "replace", "path": path, "value": open }]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"));
    definitions
        .patch("pytorchjobs.kubeflow.org", &PatchParams::default(), &patch)
        .await
        .expect("a definition");
    let mut invalid = pytorch("invalid", json!({}), "Never");
    if let Some(master) = invalid.spec.pytorch_replica_specs.get_mut("Master") {
        master.replicas = Some(2);
    }
    plane.create(&invalid).await;
    let failed = until_job(&plane, "invalid", "Failed")
        .await
        .status
        .expect("a status");
    let message = failed.conditions[0].message.clone().unwrap_or_default();
    assert!(
        message.contains("spec.pytorchReplicaSpecs.Master.replicas"),
        "{message}"
    );
    eventually("the user is told", || async {
        let events = plane.list::<Event>().await;
        let told = events
            .iter()
            .any(|event| event.reason.as_deref() == Some("PyTorchJobFailedValidation"));
        told.then_some(()).ok_or("no event")
    })
    .await;
}

#[tokio::test]
async fn a_quiet_job_ends_at_its_deadline() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&pytorch(
            "late",
            json!({ "activeDeadlineSeconds": 30 }),
            "OnFailure",
        ))
        .await;
    until_job(&plane, "late", "Running").await;
    plane.clock.advance(31);
    until_job(&plane, "late", "Failed").await;
    plane.until_none::<Pod>().await;
}

#[tokio::test]
async fn a_held_job_has_no_pods_and_starts_anew() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&pytorch("held", json!({ "suspend": true }), "OnFailure"))
        .await;
    let held = until_job(&plane, "held", "Suspended").await;
    assert!(held.status.expect("a status").start_time.is_none());
    assert!(plane.list::<Pod>().await.is_empty());
    let resume = json!({ "spec": { "runPolicy": { "suspend": false } } });
    let _: PyTorchJob = plane.patch("held", resume).await;
    until_job(&plane, "held", "Running").await;
    let pause = json!({ "spec": { "runPolicy": { "suspend": true } } });
    let _: PyTorchJob = plane.patch("held", pause).await;
    until_job(&plane, "held", "Suspended").await;
    plane.until_none::<Pod>().await;
    plane.until_gone::<Service>("held-master-0").await;
}

#[tokio::test]
async fn a_tensorflow_job_without_a_chief_ends_with_its_first_worker() {
    let plane = Plane::start().await;
    plane.run_controllers();
    let replica = |count: i32| json!({ "replicas": count, "template": { "spec": { "containers": [{ "name": "tensorflow", "image": "i" }] } } });
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": { "name": "tf" },
        "spec": { "tfReplicaSpecs": { "PS": replica(1), "worker": replica(2) } } });
    let job: TFJob = serde_json::from_value(object).expect("a job");
    let created = plane.create(&job).await;
    assert_eq!(
        serde_json::to_value(created.spec.run_policy).expect("JSON"),
        json!({ "suspend": false })
    );
    end(&plane, "tf-worker-1", 0).await;
    end(&plane, "tf-worker-0", 0).await;
    plane
        .until("has succeeded", "tf", |job: &TFJob| {
            is(job.status.as_ref(), "Succeeded")
        })
        .await;
}

#[tokio::test]
async fn an_mpi_job_gets_its_files_and_key_and_ends_with_its_launcher() {
    let plane = Plane::start().await;
    plane.node.behave(|_| Behaviour::Run);
    plane.run_controllers();
    let replica = |count: i32| json!({ "replicas": count, "template": { "spec": { "containers": [{ "name": "mpi", "image": "i" }] } } });
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": { "name": "mpi" },
        "spec": { "slotsPerWorker": 2, "mpiReplicaSpecs": { "Launcher": replica(1), "Worker": replica(2) } } });
    let job: MPIJob = serde_json::from_value(object).expect("a job");
    plane.create(&job).await;
    plane
        .until("runs", "mpi", |job: &MPIJob| {
            is(job.status.as_ref(), "Running")
        })
        .await;
    let config = plane
        .api::<ConfigMap>()
        .get("mpi-config")
        .await
        .expect("a config");
    assert_eq!(
        config.data.expect("data")["hostfile"],
        "mpi-worker-0 slots=2\nmpi-worker-1 slots=2\n"
    );
    let secret = plane
        .api::<Secret>()
        .get("mpi-ssh-auth")
        .await
        .expect("a secret");
    assert!(secret.data.expect("data").contains_key("ssh-privatekey"));
    end(&plane, "mpi-launcher", 0).await;
    plane
        .until("has succeeded", "mpi", |job: &MPIJob| {
            is(job.status.as_ref(), "Succeeded")
        })
        .await;
    plane.until_gone::<Pod>("mpi-worker-0").await;
}
