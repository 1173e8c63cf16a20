//! Scripted lives of a TrainJob.

use astrago_api::{JobSet, TrainJob};
use astrago_testkit::{Plane, eventually, runtime, train_job};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

const JOB: &str = "demo-node-0";

async fn running(job: astrago_testkit::TrainJobBuilder) -> Plane {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&job.build()).await;
    plane
}

fn reason(job: &TrainJob, kind: &str) -> (String, String) {
    let condition = job
        .conditions()
        .iter()
        .find(|condition| condition.type_ == kind)
        .expect("the condition");
    (condition.reason.clone(), condition.message.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_and_completes() {
    let plane = running(train_job("demo").nodes(2)).await;
    let first = plane.node.running(JOB, 0).await;
    let second = plane.node.running(JOB, 1).await;
    assert_eq!(
        first
            .spec
            .as_ref()
            .and_then(|spec| spec.hostname.as_deref()),
        Some("demo-node-0-0")
    );
    assert_eq!(
        second
            .spec
            .as_ref()
            .and_then(|spec| spec.subdomain.as_deref()),
        Some("demo")
    );
    plane
        .api::<Service>()
        .get("demo")
        .await
        .expect("the headless service");
    plane
        .api::<ConfigMap>()
        .get("demo-runtime-snapshot")
        .await
        .expect("the snapshot");
    let active = plane.until("is ready", "demo", |job: &TrainJob| {
        job.status
            .iter()
            .flat_map(|status| &status.jobs_status)
            .any(|jobs| jobs.ready == 1)
    });
    assert!(
        active.await.conditions().is_empty(),
        "a running job has no condition"
    );
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    let job = plane.until_condition("demo", "Complete").await;
    let want = (
        "AllJobsCompleted".to_string(),
        "jobset completed successfully".to_string(),
    );
    assert_eq!(reason(&job, "Complete"), want);
    let jobs = &job.status.expect("a status").jobs_status;
    assert_eq!((jobs[0].name.as_str(), jobs[0].succeeded), ("node", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_without_restarts_fails_the_job() {
    let plane = running(train_job("demo").nodes(2)).await;
    plane.node.running(JOB, 1).await;
    plane.node.fail(JOB, 0, 1).await;
    let job = plane.until_condition("demo", "Failed").await;
    assert_eq!(reason(&job, "Failed").0, "FailedJobs");
    // The survivor is stopped, and nothing starts again.
    eventually("the other node is stopped", || async {
        let pods = plane.list::<Pod>().await;
        let live = |pod: &&Pod| {
            pod.status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                == Some("Running")
        };
        match pods.iter().filter(live).count() {
            0 => Ok(()),
            count => Err(format!("{count} run")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_node_restarts_all_nodes_together_until_the_job_completes() {
    let plane = running(train_job("demo").nodes(2).max_restarts(2)).await;
    let before = plane.node.running(JOB, 1).await;
    plane.node.fail(JOB, 0, 137).await;
    let restarted = plane
        .until("was restarted", "demo", |set: &JobSet| set.restarts() == 1)
        .await;
    assert!(!restarted.is_finished());
    eventually("the survivor of the first attempt is gone", || async {
        let known = plane.api::<Pod>().get_opt(&before.name_any()).await;
        match known {
            Ok(None) => Ok(()),
            other => Err(format!(
                "{:?}",
                other.map(|pod| pod.map(|pod| pod.metadata))
            )),
        }
    })
    .await;
    let again = plane.node.running(JOB, 1).await;
    assert_ne!(again.uid(), before.uid());
    assert_eq!(
        again
            .labels()
            .get("jobset.sigs.k8s.io/restart-attempt")
            .map(String::as_str),
        Some("1")
    );
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    plane.until_condition("demo", "Complete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_keeps_failing_is_restarted_only_so_often() {
    let plane = running(train_job("demo").nodes(1).max_restarts(2)).await;
    for attempt in ["0", "1", "2"] {
        let pod = plane.node.fail(JOB, 0, 1).await;
        assert_eq!(pod.labels()["jobset.sigs.k8s.io/restart-attempt"], attempt);
    }
    let job = plane.until_condition("demo", "Failed").await;
    assert_eq!(reason(&job, "Failed").0, "ReachedMaxRestarts");
    let set = plane.api::<JobSet>().get("demo").await.expect("the set");
    assert_eq!(set.restarts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_held_and_let_go() {
    let plane = running(train_job("demo").nodes(2)).await;
    let before = plane.node.running(JOB, 0).await;
    plane
        .patch::<TrainJob>("demo", json!({ "spec": { "suspend": true } }))
        .await;
    plane.until_condition("demo", "Suspended").await;
    plane.until_none::<Pod>().await;
    plane
        .patch::<TrainJob>("demo", json!({ "spec": { "suspend": false } }))
        .await;
    let after = plane.node.running(JOB, 0).await;
    assert_ne!(before.uid(), after.uid());
    let resumed = plane.until("was resumed", "demo", |job: &TrainJob| {
        job.conditions()
            .iter()
            .any(|condition| condition.reason == "Resumed")
    });
    assert_eq!(resumed.await.conditions()[0].status, "False");
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    plane.until_condition("demo", "Complete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_created_held_has_no_pods_until_it_is_let_go() {
    let plane = running(train_job("demo").nodes(1).suspended()).await;
    plane.until_condition("demo", "Suspended").await;
    let set = plane
        .until("is held", "demo", |set: &JobSet| {
            !set.conditions().is_empty()
        })
        .await;
    assert!(set.is_suspended());
    assert!(plane.list::<Pod>().await.is_empty());
    plane
        .patch::<TrainJob>("demo", json!({ "spec": { "suspend": false } }))
        .await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_fails_the_job_and_stops_its_pods() {
    let plane = running(train_job("demo").nodes(1).deadline(60)).await;
    plane.node.running(JOB, 0).await;
    plane.clock.advance(61);
    let job = plane.until_condition("demo", "Failed").await;
    assert_eq!(reason(&job, "Failed").0, "DeadlineExceeded");
    plane.until_none::<Pod>().await;
    plane.until_gone::<JobSet>("demo").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ttl_removes_a_job_that_completed_and_all_it_owns() {
    let plane = running(train_job("demo").nodes(1).ttl(3600)).await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
    plane.clock.advance(3599);
    assert!(
        plane
            .api::<TrainJob>()
            .get_opt("demo")
            .await
            .expect("an answer")
            .is_some()
    );
    plane.clock.advance(2);
    plane.until_gone::<TrainJob>("demo").await;
    plane.until_none::<Pod>().await;
    plane.until_none::<Job>().await;
    plane.until_none::<JobSet>().await;
    plane.until_gone::<ConfigMap>("demo-runtime-snapshot").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ttl_of_the_runtime_removes_a_job_that_failed_while_nobody_was_there() {
    let plane = Plane::start().await;
    plane
        .create_cluster(&runtime("short").ttl(60).build())
        .await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").runtime("short").build())
        .await;
    plane.node.fail(JOB, 0, 3).await;
    plane.until_condition("demo", "Failed").await;
    plane.stop_controllers().await;
    plane.clock.advance(86_400);
    plane.run_controllers();
    plane.until_gone::<TrainJob>("demo").await;
    plane.until_none::<Pod>().await;
}

/// What was due for the one is not done to the next of that name, though the controllers crash after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ttl_of_a_job_does_not_remove_its_successor() {
    let plane = running(train_job("demo").nodes(1).ttl(60)).await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
    plane.clock.advance(61);
    plane.node.beat().await;
    plane.until_gone::<TrainJob>("demo").await;
    plane.until_none::<Pod>().await;
    plane
        .create(&train_job("demo").nodes(1).ttl(60).build())
        .await;
    let second = plane.node.running(JOB, 0).await;
    plane.crash_controllers().await;
    plane.clock.advance(3600);
    plane.node.beat().await;
    plane.run_controllers();
    // Another job goes all the way, so that whatever was due had its chance.
    plane.create(&train_job("other").nodes(1).build()).await;
    plane.node.succeed("other-node-0", 0).await;
    plane.until_condition("other", "Complete").await;
    assert_eq!(plane.node.running(JOB, 0).await.uid(), second.uid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_job_does_not_run_again_when_its_set_is_deleted() {
    let plane = running(train_job("demo").nodes(1)).await;
    plane.node.fail(JOB, 0, 1).await;
    plane.until_condition("demo", "Failed").await;
    plane.delete::<JobSet>("demo").await;
    plane.until_none::<Pod>().await;
    // A second job goes all the way meanwhile, so the first one had its chance.
    plane.create(&train_job("other").build()).await;
    plane.node.succeed("other-node-0", 0).await;
    let other = plane.until_condition("other", "Complete").await;
    assert!(other.is_complete());
    assert!(
        plane
            .api::<JobSet>()
            .get_opt("demo")
            .await
            .expect("an answer")
            .is_none()
    );
    assert!(
        plane
            .api::<TrainJob>()
            .get("demo")
            .await
            .expect("the job")
            .is_failed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_deleted_while_it_starts_leaves_nothing() {
    let plane = running(train_job("demo").nodes(2)).await;
    plane.until("exists", "demo", |_: &JobSet| true).await;
    plane.delete::<TrainJob>("demo").await;
    plane.until_gone::<TrainJob>("demo").await;
    plane.until_none::<JobSet>().await;
    plane.until_none::<Job>().await;
    plane.until_none::<Pod>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreground_deletion_waits_for_the_last_pod() {
    let plane = running(train_job("demo").nodes(2)).await;
    let pod = plane.node.running(JOB, 0).await.name_any();
    plane
        .patch::<Pod>(
            &pod,
            json!({ "metadata": { "finalizers": ["example.com/slow"] } }),
        )
        .await;
    let foreground = DeleteParams::foreground();
    let deleted = plane.api::<TrainJob>().delete("demo", &foreground).await;
    deleted.expect("a deletion");
    let told = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    plane.until("is told to go", &pod, told).await;
    for (what, there) in [
        ("TrainJob", plane.list::<TrainJob>().await.len()),
        ("JobSet", plane.list::<JobSet>().await.len()),
        ("Job", plane.list::<Job>().await.len()),
    ] {
        assert_eq!(there, 1, "{what}");
    }
    plane
        .patch::<Pod>(&pod, json!({ "metadata": { "finalizers": null } }))
        .await;
    plane.until_gone::<TrainJob>("demo").await;
    assert!(plane.list::<Pod>().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_runtime_does_not_reach_a_held_job() {
    let plane = running(train_job("demo").suspended()).await;
    plane.until("is there", "demo", |_: &JobSet| true).await;
    let runtimes = kube::Api::<astrago_api::ClusterTrainingRuntime>::all(plane.client.clone());
    let patch = json!({ "spec": { "mlPolicy": { "numNodes": 7 }, "template": { "metadata": { "labels": { "new": "yes" } } } } });
    let parameters = kube::api::PatchParams::default();
    runtimes
        .patch("torch", &parameters, &kube::api::Patch::Merge(patch))
        .await
        .expect("a changed runtime");
    plane
        .patch::<TrainJob>("demo", json!({ "spec": { "suspend": false } }))
        .await;
    plane.node.running(JOB, 0).await;
    let set = plane.api::<JobSet>().get("demo").await.expect("the set");
    assert!(!set.labels().contains_key("new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_training_waits_for_the_initializer() {
    let plane = Plane::start().await;
    plane
        .create_cluster(&runtime("data").initializer().build())
        .await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").runtime("data").build())
        .await;
    plane.node.running("demo-dataset-initializer-0", 0).await;
    assert!(
        plane
            .api::<Job>()
            .get_opt(JOB)
            .await
            .expect("an answer")
            .is_none()
    );
    plane.node.succeed("demo-dataset-initializer-0", 0).await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_its_runtime_and_says_so() {
    let plane = running(train_job("demo").runtime("later")).await;
    let waiting = plane.until("says what is missing", "demo", |job: &TrainJob| {
        job.annotations().contains_key("astrago.io/creation-error")
    });
    let error = waiting.await.annotations()["astrago.io/creation-error"].clone();
    assert!(
        error.contains("ClusterTrainingRuntime later does not exist"),
        "{error}"
    );
    plane.create_cluster(&runtime("later").build()).await;
    plane.node.running(JOB, 0).await;
    let job = plane.until("forgets the error", "demo", |job: &TrainJob| {
        !job.annotations().contains_key("astrago.io/creation-error")
    });
    assert!(job.await.conditions().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_be_planned_fails_with_the_reason() {
    let mut job = train_job("demo").build();
    job.spec.runtime_ref.kind = Some("Pipeline".into());
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&job).await;
    let job = plane.until_condition("demo", "Failed").await;
    let want = (
        "TrainingRuntimeNotSupported".to_string(),
        "unsupported runtime: Pipeline.trainer.kubeflow.org".into(),
    );
    assert_eq!(reason(&job, "Failed"), want);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_has_the_pods_that_it_selects_in_its_slice() {
    let plane = running(train_job("demo").nodes(2)).await;
    for index in 0..2 {
        let pod = plane.node.running(JOB, index).await.name_any();
        let patch = Patch::Merge(json!({ "status": { "podIP": format!("10.0.0.{index}") } }));
        let pods = plane.api::<Pod>();
        let patched = pods
            .patch_status(&pod, &PatchParams::default(), &patch)
            .await;
        patched.expect("an address");
    }
    let slices = plane.api::<EndpointSlice>();
    let until = async |want: &[&str]| {
        eventually("the slice has the pods", || async {
            // Changes of a moment are written together.
            plane.clock.advance(1);
            let slice = slices.get("demo-0").await;
            let slice = slice.map_err(|error| error.to_string())?;
            let pods = slice.endpoints.iter().flatten();
            let pods: Vec<_> = pods.filter_map(|it| it.hostname.clone()).collect();
            if pods == want {
                Ok(())
            } else {
                Err(format!("{pods:?}"))
            }
        })
        .await;
    };
    until(&["demo-node-0-0", "demo-node-0-1"]).await;
    plane.node.succeed(JOB, 0).await;
    until(&["demo-node-0-1"]).await;
    plane.delete::<TrainJob>("demo").await;
    plane.until_none::<EndpointSlice>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_takes_on_pods_that_it_selects_and_lets_others_go() {
    let plane = Plane::start().await;
    plane.run_controllers();
    let job = json!({ "metadata": { "name": "plain", "namespace": "default" }, "spec": { "parallelism": 1,
        "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "any" }] } } } });
    let job: Job = serde_json::from_value(job).expect("a job");
    plane.create(&job).await;
    let has_pod = || async { plane.list::<Pod>().await.pop().ok_or("no pod") };
    let name = eventually("a pod", has_pod).await.name_any();
    let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    let pods = plane.api::<Pod>();
    let orphaned = pods.patch(&name, &PatchParams::default(), &orphan).await;
    assert_eq!(orphaned.expect("a pod").owner_references(), []);
    let adopted = plane.until("is adopted", &name, |pod: &Pod| {
        !pod.owner_references().is_empty()
    });
    let owner = adopted.await.owner_references()[0].clone();
    assert_eq!(
        (owner.name.as_str(), owner.controller),
        ("plain", Some(true))
    );

    let unlabelled = Patch::Merge(
        json!({ "metadata": { "labels": { "batch.kubernetes.io/controller-uid": null,
        "batch.kubernetes.io/job-name": null, "controller-uid": null, "job-name": null } } }),
    );
    pods.patch(&name, &PatchParams::default(), &unlabelled)
        .await
        .expect("a pod");
    let released = plane.until("is let go", &name, |pod: &Pod| {
        pod.owner_references().is_empty()
    });
    assert!(released.await.metadata.deletion_timestamp.is_none());
}
