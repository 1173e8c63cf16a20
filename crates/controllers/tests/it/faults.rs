//! Crashes, lost nodes, deleted children, rival controllers.

use std::sync::Arc;
use std::time::Duration;

use astrago_api::{JobSet, TrainJob};
use astrago_controllers::report::Counter;
use astrago_controllers::{Election, Options};
use astrago_testkit::{Behaviour, FakeNode, Plane, eventually, train_job};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

const JOB: &str = "demo-node-0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_crash_go_on_where_they_were() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").nodes(2).max_restarts(1).build())
        .await;
    plane.until("exists", "demo", |_: &JobSet| true).await;
    plane.crash_controllers().await;
    plane.run_controllers();
    let first = plane.node.running(JOB, 0).await;
    plane.node.running(JOB, 1).await;
    plane.crash_controllers().await;
    plane.node.fail(JOB, 1, 9).await;
    plane.run_controllers();
    plane
        .until("was restarted", "demo", |set: &JobSet| set.restarts() == 1)
        .await;
    plane.crash_controllers().await;
    plane.run_controllers();
    eventually("the restarted pod runs", || async {
        let pod = plane.node.running(JOB, 0).await;
        if pod.uid() == first.uid() {
            Err("still the first")
        } else {
            Ok(())
        }
    })
    .await;
    plane.node.succeed(JOB, 0).await;
    plane.node.succeed(JOB, 1).await;
    plane.until_condition("demo", "Complete").await;
    let set = plane.api::<JobSet>().get("demo").await.expect("the set");
    assert_eq!(set.restarts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_comes_back_with_its_rank_after_it_is_gone() {
    let plane = Plane::start().await;
    plane.run_controllers();
    let mut runtime = astrago_testkit::runtime("patient").build();
    let spec = &mut runtime.spec.0.template.spec.replicated_jobs[0]
        .template
        .spec;
    spec.as_mut().expect("a spec").backoff_limit = Some(6);
    plane.create_cluster(&runtime).await;
    plane
        .create(&train_job("demo").runtime("patient").nodes(2).build())
        .await;
    let before = plane.node.running(JOB, 1).await;
    plane.delete::<Pod>(&before.name_any()).await;
    let after = plane.node.running(JOB, 1).await;
    assert_ne!(before.uid(), after.uid());
    let count = "batch.kubernetes.io/job-index-failure-count";
    assert_eq!(after.annotations()[count], "0");
    let job: Job = plane.api().get(JOB).await.expect("the job");
    assert_eq!(job.status.expect("a status").failed, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pod_is_replaced_after_the_back_off_and_not_before() {
    let plane = Plane::start().await;
    plane.run_controllers();
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": "plain", "namespace": "default" },
        "spec": {
            "completions": 1, "parallelism": 1, "completionMode": "Indexed", "backoffLimit": 3,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "b" }] } },
        },
    }))
    .expect("a valid job");
    plane.create(&job).await;
    plane.node.fail("plain", 0, 1).await;
    plane
        .until("counts the failure", "plain", |job: &Job| {
            job.status.as_ref().and_then(|status| status.failed) == Some(1)
        })
        .await;
    plane.clock.advance(9);
    assert_eq!(plane.list::<Pod>().await.len(), 1);
    plane.clock.advance(1);
    plane.node.succeed("plain", 0).await;
    let done = plane.until("is complete", "plain", |job: &Job| {
        let conditions = job
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|condition| condition.type_ == "Complete")
    });
    let status = done.await.status.expect("a status");
    assert_eq!(status.completed_indexes.as_deref(), Some("0"));
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_of_a_lost_node_fail_and_the_job_starts_elsewhere() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").nodes(1).max_restarts(1).build())
        .await;
    let before = plane.node.running(JOB, 0).await;
    plane.node.kill();
    let capacity = [("cpu", "8"), ("memory", "8Gi"), ("pods", "100")];
    let other = FakeNode::start(
        plane.client.clone(),
        plane.clock.clone(),
        "node-b",
        &capacity,
    )
    .await;
    plane.clock.advance(120);
    other.beat().await;
    let nodes = kube::Api::<Node>::all(plane.client.clone());
    eventually("the silent node is unknown", || async {
        let node = nodes
            .get("node-a")
            .await
            .map_err(|error| error.to_string())?;
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let ready = conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready");
        match ready {
            Some(ready) if ready.status == "Unknown" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Two minutes of silence do not cost a running training.
    let kept = plane
        .api::<Pod>()
        .get(&before.name_any())
        .await
        .expect("the pod");
    assert_eq!(
        kept.status.and_then(|status| status.phase).as_deref(),
        Some("Running")
    );
    plane.clock.advance(300);
    other.beat().await;
    plane
        .until("was restarted", "demo", |set: &JobSet| set.restarts() == 1)
        .await;
    let after = eventually("a new pod runs", || async {
        let pod = other.running(JOB, 0).await;
        if pod.uid() == before.uid() {
            Err("still the old one")
        } else {
            Ok(pod)
        }
    })
    .await;
    assert_eq!(
        after.spec.and_then(|spec| spec.node_name).as_deref(),
        Some("node-b")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_control_plane_after_a_long_pause_costs_no_pod() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&train_job("demo").nodes(1).build()).await;
    let before = plane.node.running(JOB, 0).await;
    plane.stop_controllers().await;
    plane.clock.advance(7200);
    plane.run_controllers();
    // Another job goes through, so the controllers have looked at everything.
    plane.node.beat().await;
    plane.create(&train_job("other").build()).await;
    plane.node.succeed("other-node-0", 0).await;
    plane.until_condition("other", "Complete").await;
    assert_eq!(plane.node.running(JOB, 0).await.uid(), before.uid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_service_and_a_deleted_set_come_back_while_the_job_runs() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane.create(&train_job("demo").nodes(1).build()).await;
    let before = plane.node.running(JOB, 0).await;
    let service = plane
        .api::<Service>()
        .get("demo")
        .await
        .expect("the service");
    plane.delete::<Service>("demo").await;
    plane
        .until("is back", "demo", |again: &Service| {
            again.uid() != service.uid()
        })
        .await;
    plane.delete::<JobSet>("demo").await;
    eventually("another pod runs", || async {
        let pod = plane.node.running(JOB, 0).await;
        if pod.uid() == before.uid() {
            Err("still the old one")
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_copies_only_one_works_and_the_other_takes_over() {
    let plane = Plane::start().await;
    let options = |identity: &str| Options {
        clock: Arc::new(plane.clock.clone()),
        election: Some(Election {
            namespace: "kube-system".into(),
            name: "astrago-controllers".into(),
            identity: identity.into(),
            duration: Duration::from_secs(5),
        }),
        ..Options::embedded()
    };
    let (first, second) = (options("first"), options("second"));
    let (ours, theirs) = (Arc::clone(&first.metrics), Arc::clone(&second.metrics));
    let leases = kube::Api::<Lease>::namespaced(plane.client.clone(), "kube-system");
    let held_by = async |identity: &str| {
        eventually(&format!("{identity} leads"), || async {
            let lease = leases
                .get_opt("astrago-controllers")
                .await
                .map_err(|error| error.to_string())?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity);
            if holder.as_deref() == Some(identity) {
                Ok(())
            } else {
                Err(format!("{holder:?}"))
            }
        })
        .await;
    };
    plane.run_controllers_with(first);
    held_by("first").await;
    let stop = tokio_util::sync::CancellationToken::new();
    let rival = tokio::spawn(astrago_controllers::run(
        plane.client.clone(),
        second,
        stop.clone(),
    ));
    plane.create(&train_job("demo").build()).await;
    plane.node.running(JOB, 0).await;
    assert!(ours.snapshot().contains_key(&Counter::Reconciles("job")));
    assert!(theirs.snapshot().is_empty());
    plane.crash_controllers().await;
    held_by("second").await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
    stop.cancel();
    rival.await.expect("an orderly end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_tell_the_story_and_are_folded() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").nodes(2).max_restarts(1).build())
        .await;
    plane.node.running(JOB, 1).await;
    plane.node.fail(JOB, 0, 1).await;
    plane
        .until("was restarted", "demo", |set: &JobSet| set.restarts() == 1)
        .await;
    for index in [0, 1] {
        plane.node.succeed(JOB, index).await;
    }
    plane.until_condition("demo", "Complete").await;
    let told = |kind: &'static str, reason: &'static str| {
        let plane = &plane;
        async move {
            eventually(&format!("{reason} of {kind}"), || async {
                let events = plane.list::<Event>().await;
                let found = events.iter().find(|event| {
                    event.reason.as_deref() == Some(reason)
                        && event.involved_object.kind.as_deref() == Some(kind)
                });
                let all: Vec<_> = events.iter().map(|event| event.reason.clone()).collect();
                found.cloned().ok_or_else(|| format!("{all:?}"))
            })
            .await
        }
    };
    told("Job", "SuccessfulCreate").await;
    told("Job", "BackoffLimitExceeded").await;
    told("JobSet", "RestartJobSetFailurePolicyAction").await;
    let complete = told("TrainJob", "AllJobsCompleted").await;
    assert_eq!(complete.involved_object.name.as_deref(), Some("demo"));
    assert_eq!(
        complete.involved_object.api_version.as_deref(),
        Some("trainer.kubeflow.org/v1alpha1")
    );
    assert!(complete.first_timestamp.is_some() && complete.count == Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_pods_never_start_can_be_deleted_and_made_again_under_its_name() {
    let plane = Plane::start().await;
    plane.node.behave(|_| Behaviour::Wait);
    plane.run_controllers();
    plane.create(&train_job("demo").nodes(2).build()).await;
    eventually("the pods are there", || async {
        match plane.list::<Pod>().await.len() {
            2 => Ok(()),
            count => Err(format!("{count} pods")),
        }
    })
    .await;
    let old: Vec<_> = plane.list::<Pod>().await.iter().map(Pod::uid).collect();
    plane.delete::<TrainJob>("demo").await;
    plane.node.behave(|_| Behaviour::Run);
    plane.create(&train_job("demo").nodes(1).build()).await;
    // The old pods have the same ranks: only when they are gone is it clear whose success is meant.
    eventually(
        "the new pod is there, and the old ones are gone",
        || async {
            let pods: Vec<_> = plane.list::<Pod>().await.iter().map(Pod::uid).collect();
            if pods.len() == 1 && !old.contains(&pods[0]) {
                Ok(())
            } else {
                Err(format!("{pods:?}"))
            }
        },
    )
    .await;
    plane.node.succeed(JOB, 0).await;
    plane.until_condition("demo", "Complete").await;
    let all = plane
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .expect("pods");
    assert_eq!(all.items.len(), 1);
}
