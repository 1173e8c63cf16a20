//! Jobs that wait: for room, in their order, past each other only where nobody is delayed; and what a change of the
//! runtime means to those that run.

use astrago_api::{ClusterTrainingRuntime, JobSet, TrainJob};
use astrago_testkit::{Plane, eventually, runtime, train_job};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

/// Waits until every pod of a job says this while it waits.
async fn until_waiting(plane: &Plane, job: &str, sentence: &str) {
    eventually(&format!("{job} waits: {sentence}"), || async {
        let mut said = Vec::new();
        for pod in plane.list::<Pod>().await {
            if pod
                .labels()
                .get("jobset.sigs.k8s.io/jobset-name")
                .map(String::as_str)
                != Some(job)
            {
                continue;
            }
            let conditions = pod
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            said.extend(
                conditions
                    .into_iter()
                    .filter(|condition| condition.type_ == "PodScheduled")
                    .filter_map(|c| c.message),
            );
        }
        let all = !said.is_empty() && said.iter().all(|message| message.contains(sentence));
        if all {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_queue_by_priority_and_age_and_small_ones_pass_only_where_they_delay_nobody() {
    let plane = Plane::with_node(&[("cpu", "4"), ("memory", "64Gi"), ("pods", "100")]).await;
    plane.run_controllers();
    let urgent = json!({ "metadata": { "name": "urgent" }, "value": 10 });
    let urgent: PriorityClass = serde_json::from_value(urgent).unwrap();
    plane.create_cluster(&urgent).await;
    let class = |runtime: &mut serde_json::Value| {
        let pod = &mut runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
            ["template"]["spec"];
        pod["priorityClassName"] = json!("urgent");
    };
    plane
        .create_cluster(&runtime("express").change(class).build())
        .await;

    plane
        .create(&train_job("first").nodes(2).cpus(1).deadline(1000).build())
        .await;
    plane.node.running("first-node-0", 1).await;
    plane
        .create(&train_job("big").nodes(4).cpus(1).build())
        .await;
    until_waiting(&plane, "big", "needs 4 CPUs, 2 free").await;
    // It would be there when `first` must be over, and `big` can start.
    plane
        .create(&train_job("endless").nodes(1).cpus(1).build())
        .await;
    until_waiting(&plane, "endless", "1 job ahead").await;
    // This one is over by then.
    plane
        .create(&train_job("short").nodes(1).cpus(1).deadline(60).build())
        .await;
    plane.node.running("short-node-0", 0).await;
    // And this one goes before all that wait.
    plane
        .create(&train_job("now").nodes(4).cpus(1).runtime("express").build())
        .await;
    until_waiting(&plane, "big", "1 job ahead").await;
    plane.node.succeed("short-node-0", 0).await;
    plane.node.succeed("first-node-0", 0).await;
    plane.node.succeed("first-node-0", 1).await;
    for rank in 0..4 {
        plane.node.running("now-node-0", rank).await;
    }
    until_waiting(&plane, "big", "needs 4 CPUs, 0 free").await;
    for rank in 0..4 {
        plane.node.succeed("now-node-0", rank).await;
    }
    for rank in 0..4 {
        plane.node.succeed("big-node-0", rank).await;
    }
    plane.node.succeed("endless-node-0", 0).await;
    for job in ["first", "short", "now", "big", "endless"] {
        plane.until_condition(job, "Complete").await;
    }
}

/// The JobSets that there are, by name.
async fn made(plane: &Plane) -> Vec<String> {
    let sets = plane.list::<JobSet>().await;
    sets.iter().map(ResourceExt::name_any).collect()
}

/// Jobs are looked at by 16 workers, so that one may ask for its turn before those in front of it have.
const MOST_MADE: usize = 33 + 15;

/// A long queue costs little: what nobody could start yet is not made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_jobs_that_ask_for_the_same_the_first_are_made_and_all_have_their_turn() {
    let plane = Plane::with_node(&[("cpu", "2"), ("memory", "64Gi"), ("pods", "100")]).await;
    plane.run_controllers();
    let name = |number: usize| format!("job-{number:02}");
    for number in 0..60 {
        let job = train_job(&name(number)).nodes(2).cpus(1).build();
        plane.create(&job).await;
        if number == 0 {
            plane.node.running("job-00-node-0", 1).await;
        }
    }
    let first = || async {
        let made = made(&plane).await;
        let missing = (0..33).map(name).find(|name| !made.contains(name));
        missing.map_or(Ok(()), Err)
    };
    eventually("one runs and 32 wait with their objects", first).await;
    assert!(made(&plane).await.len() <= MOST_MADE);
    // Whoever asks for something else does not wait behind them, and nor does one that is more urgent.
    plane
        .create(&train_job("other").nodes(1).cpus(1).build())
        .await;
    let mut urgent = train_job("urgent").nodes(2).cpus(1).build();
    let annotations = urgent.annotations_mut();
    annotations.insert("astrago.io/priority".into(), "9".into());
    plane.create(&urgent).await;
    until_waiting(&plane, "other", "CPU").await;
    until_waiting(&plane, "urgent", "CPU").await;
    // A restart of the controllers knows who was made and waits.
    plane.stop_controllers().await;
    plane.run_controllers();
    for rank in 0..2 {
        plane.node.succeed("job-00-node-0", rank).await;
    }
    plane.node.running("urgent-node-0", 1).await;
    // Once a job that came after them all is made, they have been looked at.
    plane
        .create(&train_job("last").nodes(1).cpus(1).build())
        .await;
    until_waiting(&plane, "last", "CPU").await;
    assert!(made(&plane).await.len() <= MOST_MADE + 3);
    for rank in 0..2 {
        plane.node.succeed("urgent-node-0", rank).await;
    }
    for number in 1..60 {
        for rank in 0..2 {
            let job = format!("{}-node-0", name(number));
            plane.node.succeed(&job, rank).await;
        }
    }
    for job in ["other-node-0", "last-node-0"] {
        plane.node.succeed(job, 0).await;
    }
    for number in 0..60 {
        plane.until_condition(&name(number), "Complete").await;
    }
}

/// Jobs that are deleted or suspended while they wait hold up nobody behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_the_line_makes_room_for_those_behind() {
    let plane = Plane::with_node(&[("cpu", "1"), ("memory", "64Gi"), ("pods", "100")]).await;
    plane.run_controllers();
    let name = |number: usize| format!("job-{number:02}");
    for number in 0..60 {
        plane
            .create(&train_job(&name(number)).cpus(1).build())
            .await;
    }
    let until_made = |number: usize| {
        let plane = &plane;
        eventually("its turn", move || async move {
            let made = made(plane).await;
            if made.contains(&name(number)) {
                Ok(())
            } else {
                Err(format!("{made:?}"))
            }
        })
    };
    until_made(32).await;
    let jobs: Api<TrainJob> = plane.api();
    for number in 1..20 {
        let deleted = jobs.delete(&name(number), &DeleteParams::default()).await;
        deleted.unwrap();
        until_made(32 + number).await;
    }
    let suspend = Patch::Merge(json!({ "spec": { "suspend": true } }));
    for number in 20..25 {
        let (job, how) = (name(number), PatchParams::default());
        jobs.patch(&job, &how, &suspend).await.unwrap();
        until_made(32 + number).await;
    }
}

/// Suspended jobs are a line of their own: they hold up nobody, and whoever is resumed is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_job_costs_little_until_it_is_resumed() {
    let plane = Plane::with_node(&[("cpu", "2"), ("memory", "64Gi"), ("pods", "100")]).await;
    plane.run_controllers();
    let name = |number: usize| format!("held-{number:02}");
    for number in 0..60 {
        let mut job = train_job(&name(number)).nodes(2).cpus(1).build();
        job.spec.suspend = Some(true);
        plane.create(&job).await;
    }
    for number in 0..60 {
        plane.until_condition(&name(number), "Suspended").await;
    }
    assert!(made(&plane).await.len() <= MOST_MADE);
    plane
        .create(&train_job("free").nodes(2).cpus(1).build())
        .await;
    plane.node.running("free-node-0", 1).await;
    let jobs: Api<TrainJob> = Api::namespaced(plane.client.clone(), "default");
    let resume = Patch::Merge(json!({ "spec": { "suspend": false } }));
    let parameters = PatchParams::default();
    jobs.patch(&name(59), &parameters, &resume).await.unwrap();
    for rank in 0..2 {
        plane.node.succeed("free-node-0", rank).await;
    }
    for rank in 0..2 {
        plane.node.succeed("held-59-node-0", rank).await;
    }
    plane.until_condition(&name(59), "Complete").await;
}

/// What a tenant writes on their own job does not bring it before the jobs of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_counts_only_as_far_as_the_namespace_allows() {
    let plane = Plane::with_node(&[("cpu", "4"), ("memory", "64Gi"), ("pods", "100")]).await;
    let namespaces: Api<Namespace> = Api::all(plane.client.clone());
    let allow = |priority: &str| {
        let annotations = json!({ "astrago.io/max-priority": priority });
        Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
    };
    let how = PatchParams::default();
    namespaces
        .patch("default", &how, &allow("0"))
        .await
        .unwrap();
    plane.run_controllers();
    plane
        .create(&train_job("first").nodes(4).cpus(1).build())
        .await;
    plane.node.running("first-node-0", 3).await;
    plane
        .create(&train_job("older").nodes(4).cpus(1).build())
        .await;
    until_waiting(&plane, "older", "needs 4 CPUs, 0 free").await;
    let mut pushy = train_job("pushy").nodes(4).cpus(1).build();
    pushy
        .annotations_mut()
        .insert("astrago.io/priority".into(), "100".into());
    plane.create(&pushy).await;
    until_waiting(&plane, "pushy", "1 job ahead").await;
    eventually("the job's owner is told", || async {
        let told: Vec<_> = plane
            .list::<Event>()
            .await
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some("PriorityLowered"))
            .map(|event| (event.involved_object.name, event.message))
            .collect();
        let message = "priority 100 counts as 0: namespace default allows no more (its annotation astrago.io/max-priority)";
        if told == [(Some("pushy".to_owned()), Some(message.to_owned()))] {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
    // Once it is allowed, it counts at once.
    namespaces
        .patch("default", &how, &allow("100"))
        .await
        .unwrap();
    until_waiting(&plane, "older", "1 job ahead").await;
    for rank in 0..4 {
        plane.node.succeed("first-node-0", rank).await;
    }
    plane.node.running("pushy-node-0", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_restarted_has_the_runtime_that_it_began_with() {
    let plane = Plane::start().await;
    plane.run_controllers();
    plane
        .create(&train_job("demo").nodes(2).max_restarts(1).build())
        .await;
    let before = plane.node.running("demo-node-0", 0).await;
    let runtimes: Api<ClusterTrainingRuntime> = Api::all(plane.client.clone());
    let mut changed = runtimes.get("torch").await.unwrap();
    let pod = changed.spec.0.template.spec.replicated_jobs[0]
        .template
        .spec
        .as_mut()
        .unwrap();
    pod.template.spec.as_mut().unwrap().containers[0].image = Some("another:2".into());
    runtimes
        .replace("torch", &PostParams::default(), &changed)
        .await
        .unwrap();
    plane.node.fail("demo-node-0", 0, 1).await;
    plane
        .until("was restarted", "demo", |set: &JobSet| set.restarts() == 1)
        .await;
    let after = eventually("it runs again", || async {
        let pod = plane.node.running("demo-node-0", 0).await;
        if pod.uid() == before.uid() {
            Err("the old pod")
        } else {
            Ok(pod)
        }
    })
    .await;
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    assert_eq!(image(&after), image(&before));
    assert_ne!(image(&after).as_deref(), Some("another:2"));
    // Those that begin afterwards have the new one.
    let label = json!({ "metadata": { "labels": { "touched": "yes" } } });
    let touched: TrainJob = plane
        .api()
        .patch("demo", &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    assert!(touched.labels().contains_key("touched"));
    plane.create(&train_job("late").build()).await;
    let late = plane.node.running("late-node-0", 0).await;
    assert_eq!(image(&late).as_deref(), Some("another:2"));
}
