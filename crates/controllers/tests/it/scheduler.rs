//! The scheduler on a real API: pods in, bindings, conditions, events and quota status out.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use astrago_apiserver::{Identity, Server};
use astrago_controllers::Options;
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An API server with nodes and a namespace, on which the scheduler can be started and stopped.
struct Plane {
    client: Client,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    _server: Server,
    _directory: tempfile::TempDir,
}

impl Plane {
    async fn start(nodes: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = astrago_apiserver::Options::new(directory.path());
        let server = Server::open(options).await.unwrap();
        let client = Client::new(server.local(Identity::admin()), "team");
        let mut plane = Self {
            client,
            running: None,
            _server: server,
            _directory: directory,
        };
        for definition in astrago_api::crds() {
            create(&Api::all(plane.client.clone()), &definition).await;
        }
        let namespace = json!({ "metadata": { "name": "team" } });
        let _: Namespace = make(&Api::all(plane.client.clone()), namespace).await;
        for (index, cpus) in nodes.iter().enumerate() {
            plane.add_node(&format!("n{index}"), cpus).await;
        }
        plane.run();
        plane
    }

    fn run(&mut self) {
        let stop = CancellationToken::new();
        let options = Options {
            train_jobs: false,
            job_sets: false,
            jobs: false,
            nodes: false,
            ..Options::embedded()
        };
        let run = astrago_controllers::run(self.client.clone(), options, stop.clone());
        self.running = Some((stop, tokio::spawn(run)));
    }

    async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    async fn add_node(&self, name: &str, cpus: &str) {
        let api: Api<Node> = Api::all(self.client.clone());
        let _: Node = make(&api, json!({ "metadata": { "name": name } })).await;
        let status = json!({ "status": {
            "allocatable": { "cpu": cpus, "memory": "64Gi", "pods": "5000" },
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        let how = PatchParams::default();
        api.patch_status(name, &how, &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn add_pod(&self, name: &str, cpu: &str, gang: Option<(&str, usize)>) {
        let mut annotations = BTreeMap::new();
        if let Some((gang, size)) = gang {
            annotations.insert("astrago.io/gang", gang.to_owned());
            annotations.insert("astrago.io/gang-size", size.to_string());
        }
        let pod = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] },
        });
        let _: Pod = make(&self.api(), pod).await;
    }

    async fn end_pod(&self, name: &str) {
        let status = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
        self.api::<Pod>()
            .patch_status(name, &PatchParams::default(), &status)
            .await
            .unwrap();
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    async fn until<K>(&self, api: Api<K>, name: &str, what: impl Fn(&K) -> bool)
    where
        K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
    {
        let met = await_condition(api, name, |object: Option<&K>| object.is_some_and(&what));
        let met = tokio::time::timeout(Duration::from_mins(1), met).await;
        met.unwrap_or_else(|_| panic!("{name} did not get there in time"))
            .unwrap();
    }

    async fn until_bound(&self, pod: &str) {
        self.until(self.api(), pod, |pod: &Pod| node_of(pod).is_some())
            .await;
    }

    async fn until_waiting(&self, pod: &str, sentence: &str) {
        self.until(self.api(), pod, |pod: &Pod| {
            message_of(pod) == Some(sentence)
        })
        .await;
    }

    /// A pod is bound before anybody is told.
    async fn until_told(&self, pod: &str, reason: &str) {
        let told = async {
            let is_it = |event: &Event| {
                event.involved_object.name.as_deref() == Some(pod)
                    && event.reason.as_deref() == Some(reason)
            };
            while !self.events().await.iter().any(is_it) {
                tokio::task::yield_now().await;
            }
        };
        let told = tokio::time::timeout(Duration::from_mins(1), told).await;
        told.unwrap_or_else(|_| panic!("no event {reason} about {pod}"));
    }

    async fn events(&self) -> Vec<Event> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }

    async fn pods(&self) -> Vec<Pod> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }
}

async fn make<K: Clone + Debug + DeserializeOwned + Serialize>(api: &Api<K>, value: Value) -> K {
    create(api, &serde_json::from_value(value).unwrap()).await
}

async fn create<K: Clone + Debug + DeserializeOwned + Serialize>(api: &Api<K>, object: &K) -> K {
    api.create(&PostParams::default(), object).await.unwrap()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn message_of(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    (scheduled.status == "False").then_some(scheduled.message.as_deref()?)
}

#[tokio::test]
async fn a_gang_is_bound_when_its_last_pod_is_there() {
    let mut plane = Plane::start(&["4"]).await;
    plane.add_pod("a-0", "1", Some(("a", 2))).await;
    plane.add_pod("single", "1", None).await;
    plane.until_bound("single").await;
    let first: Pod = plane.api().get("a-0").await.unwrap();
    assert_eq!(node_of(&first), None, "its gang is not whole");
    plane.add_pod("a-1", "1", Some(("a", 2))).await;
    plane.until_bound("a-0").await;
    plane.until_bound("a-1").await;
    plane.stop().await;
}

#[tokio::test]
async fn who_waits_is_told_why_and_starts_when_there_is_room() {
    let mut plane = Plane::start(&["4"]).await;
    plane.add_pod("first", "3", None).await;
    plane.until_bound("first").await;
    plane.add_pod("second", "2", None).await;
    plane.until_waiting("second", "needs 2 CPUs, 1 free").await;
    let told: Pod = plane.api().get("second").await.unwrap();
    let want = r#"{"code":"shortage","parameters":{"free":"1","needed":"2","resource":"cpu"}}"#;
    assert_eq!(
        told.metadata.annotations.unwrap()["astrago.io/waiting"],
        want
    );
    plane.add_pod("third", "4", None).await;
    plane
        .until_waiting("third", "needs 4 CPUs, 1 free; 1 job ahead")
        .await;
    plane.add_pod("huge", "9", None).await;
    plane
        .until_waiting(
            "huge",
            "needs 9 CPUs, but the largest node has 4: can never fit",
        )
        .await;
    plane.end_pod("first").await;
    plane.until_bound("second").await;
    plane.until_waiting("third", "needs 4 CPUs, 2 free").await;
    plane
        .api::<Pod>()
        .delete("second", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    plane.until_told("third", "Scheduled").await;
    // Stopping writes the last events.
    plane.stop().await;
    let events = plane.events().await;
    let told = |pod: &str, reason: &str| {
        let about = |event: &&Event| event.involved_object.name.as_deref() == Some(pod);
        events
            .iter()
            .filter(about)
            .filter(|event| event.reason.as_deref() == Some(reason))
            .count()
    };
    assert_eq!(told("second", "FailedScheduling"), 1);
    assert_eq!(
        told("third", "FailedScheduling"),
        1,
        "a change of numbers is not told again"
    );
    assert_eq!(told("third", "Scheduled"), 1);
}

#[tokio::test]
async fn a_quota_lets_jobs_wait_and_shows_what_is_used() {
    let mut plane = Plane::start(&["16"]).await;
    let quota = json!({ "metadata": { "name": "limits" }, "spec": { "hard": { "requests.cpu": "3", "pods": "9" } } });
    let _: ResourceQuota = make(&plane.api(), quota).await;
    let used = |cpu: &'static str, pods: &'static str| {
        move |quota: &ResourceQuota| {
            let used = quota
                .status
                .as_ref()
                .and_then(|status| status.used.as_ref());
            used.is_some_and(|used| used["requests.cpu"].0 == cpu && used["pods"].0 == pods)
        }
    };
    plane.until(plane.api(), "limits", used("0", "0")).await;
    plane.add_pod("a", "2", None).await;
    plane.until_bound("a").await;
    plane.until(plane.api(), "limits", used("2", "1")).await;
    plane.add_pod("b", "2", None).await;
    plane
        .until_waiting("b", "needs 2 CPUs, 1 left in quota limits")
        .await;
    plane.end_pod("a").await;
    plane.until_bound("b").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_claim_is_bound_and_a_pod_waits_for_it() {
    let mut plane = Plane::start(&["4"]).await;
    let pod = json!({ "metadata": { "name": "reader" }, "spec": {
        "containers": [{ "name": "c", "image": "i" }],
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    let _: Pod = make(&plane.api(), pod).await;
    plane
        .until_waiting(
            "reader",
            "waits for volume claim data, which does not exist",
        )
        .await;
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "5Gi" } } } });
    let _: PersistentVolumeClaim = make(&plane.api(), claim).await;
    plane.until_bound("reader").await;
    let bound = |claim: &PersistentVolumeClaim| {
        let status = claim.status.as_ref();
        status.is_some_and(|status| {
            status.phase.as_deref() == Some("Bound")
                && status
                    .capacity
                    .as_ref()
                    .is_some_and(|capacity| capacity["storage"].0 == "5Gi")
        })
    };
    plane.until(plane.api(), "data", bound).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_claim_stays_while_a_pod_uses_it() {
    let mut plane = Plane::start(&["4"]).await;
    let claims: Api<PersistentVolumeClaim> = plane.api();
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "5Gi" } } } });
    let _: PersistentVolumeClaim = make(&claims, claim).await;
    let is_kept = |claim: &PersistentVolumeClaim| {
        claim.metadata.finalizers.as_deref() == Some(&["kubernetes.io/pvc-protection".to_owned()])
    };
    plane.until(plane.api(), "data", is_kept).await;
    let pod = json!({ "metadata": { "name": "reader" }, "spec": {
        "containers": [{ "name": "c", "image": "i" }],
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    let _: Pod = make(&plane.api(), pod).await;
    plane.until_bound("reader").await;
    claims
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    let deleted = |claim: &PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_some();
    plane.until(plane.api(), "data", deleted).await;
    let pods: Api<Pod> = plane.api();
    pods.delete(
        "reader",
        &DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        },
    )
    .await
    .unwrap();
    let gone = await_condition(claims, "data", |claim: Option<&PersistentVolumeClaim>| {
        claim.is_none()
    });
    let gone = tokio::time::timeout(Duration::from_mins(1), gone).await;
    gone.expect("the claim goes with its last pod").unwrap();
    plane.stop().await;
}

/// The scheduler is stopped at any moment in the middle of its bindings, again and again. In the end
/// no gang is bound in part and no node has more than it can hold.
#[tokio::test]
async fn a_restart_at_any_moment_leaves_no_gang_in_part() {
    let mut plane = Plane::start(&["7", "6"]).await;
    plane.stop().await;
    for gang in 0..10 {
        for index in 0..3 {
            plane
                .add_pod(
                    &format!("g{gang}-{index}"),
                    "1",
                    Some((&format!("g{gang}"), 3)),
                )
                .await;
        }
    }
    for seen in 1..=4 {
        plane.run();
        let api: Api<Pod> = plane.api();
        // Some pod of this gang is bound: the pass may be anywhere.
        let name = format!("g{}-0", seen - 1);
        let bound = await_condition(api, &name, |pod: Option<&Pod>| {
            pod.is_some_and(|pod| node_of(pod).is_some())
        });
        tokio::time::timeout(Duration::from_mins(1), bound)
            .await
            .unwrap()
            .unwrap();
        let (stop, task) = plane.running.take().unwrap();
        // Not even an orderly end.
        task.abort();
        stop.cancel();
        let _ = task.await;
    }
    plane.run();
    plane.until_waiting("g4-0", "needs 3 CPUs, 1 free").await;
    plane.stop().await;
    let mut gangs: BTreeMap<String, usize> = BTreeMap::new();
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    for pod in plane.pods().await {
        if let Some(node) = node_of(&pod) {
            let name = pod.metadata.name.clone().unwrap();
            *gangs
                .entry(name.split('-').next().unwrap().to_owned())
                .or_default() += 1;
            *load.entry(node.to_owned()).or_default() += 1;
        }
    }
    assert!(gangs.values().all(|pods| *pods == 3), "{gangs:?}");
    assert_eq!(gangs.len(), 4);
    assert!(load["n0"] <= 7 && load["n1"] <= 6, "{load:?}");
}

/// How long it takes until gangs that come at once are bound. `ASTRAGO_BENCH_GANGS=1000` for the
/// real thing.
#[tokio::test]
async fn many_gangs_at_once_are_bound_soon() {
    let gangs: usize = std::env::var("ASTRAGO_BENCH_GANGS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(50);
    let mut plane = Plane::start(&["4000"]).await;
    let start = Instant::now();
    for gang in 0..gangs {
        for index in 0..2 {
            plane
                .add_pod(
                    &format!("g{gang}-{index}"),
                    "1",
                    Some((&format!("g{gang}"), 2)),
                )
                .await;
        }
    }
    let created = start.elapsed();
    plane.until_bound(&format!("g{}-1", gangs - 1)).await;
    plane.until_bound(&format!("g{}-0", gangs - 1)).await;
    let bound = start.elapsed();
    println!("{gangs} gangs of 2 pods: created after {created:?}, all bound after {bound:?}");
    plane.stop().await;
    assert!(plane.pods().await.iter().all(|pod| node_of(pod).is_some()));
}
