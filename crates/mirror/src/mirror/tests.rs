use std::sync::Mutex;

use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;

fn by_app(pod: &Pod) -> Vec<String> {
    pod.metadata
        .labels
        .iter()
        .flatten()
        .map(|(_, value)| value.clone())
        .collect()
}

fn pod(name: &str, version: u64, app: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            namespace: Some("ns".into()),
            name: Some(name.into()),
            resource_version: Some(version.to_string()),
            labels: Some([("app".to_string(), app.to_string())].into()),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}

fn guard(pod: Pod) -> Readable<Pod> {
    Readable(Ok(pod))
}

async fn feed(mirror: &Mirror<Pod>, events: Vec<Event<Readable<Pod>>>) {
    mirror
        .follow(stream::iter(events.into_iter().map(Ok)))
        .await;
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect()
}

#[tokio::test]
async fn objects_are_found_by_index_and_leave_it_when_they_change() {
    let mirror = Mirror::new(by_app);
    feed(
        &mirror,
        vec![
            Event::Init,
            Event::InitApply(guard(pod("a", 1, "red"))),
            Event::InitApply(guard(pod("b", 2, "red"))),
            Event::InitDone,
            Event::Apply(guard(pod("b", 3, "blue"))),
        ],
    )
    .await;
    mirror.ready().await;
    assert_eq!(names(&mirror.find("red")), ["a"]);
    assert_eq!(names(&mirror.find("blue")), ["b"]);
    feed(&mirror, vec![Event::Delete(guard(pod("b", 4, "blue")))]).await;
    assert!(mirror.find("blue").is_empty());
}

#[tokio::test]
async fn a_relist_removes_what_it_does_not_name_and_keeps_what_we_wrote_meanwhile() {
    let mirror = Mirror::new(by_app);
    feed(
        &mirror,
        vec![
            Event::Init,
            Event::InitApply(guard(pod("a", 1, "red"))),
            Event::InitApply(guard(pod("b", 2, "red"))),
            Event::InitDone,
            Event::Init,
            Event::InitApply(guard(pod("b", 2, "red"))),
        ],
    )
    .await;
    mirror.observe(pod("c", 9, "red"));
    feed(&mirror, vec![Event::InitDone]).await;
    assert_eq!(names(&mirror.find("red")), ["b", "c"]);
}

#[tokio::test]
async fn our_own_writes_are_seen_at_once_and_told_once() {
    let mirror = Mirror::new(by_app);
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    mirror.subscribe(move |change: &Change<Pod>| {
        log.lock().expect("not poisoned").push(change.new.is_some());
    });
    feed(&mirror, vec![Event::Init, Event::InitDone]).await;
    mirror.observe(pod("a", 5, "red"));
    assert_eq!(names(&mirror.find("red")), ["a"]);
    feed(&mirror, vec![Event::Apply(guard(pod("a", 5, "red")))]).await;
    assert_eq!(*told.lock().expect("not poisoned"), [true]);
}

#[tokio::test]
async fn an_answer_that_arrives_after_the_deletion_does_not_bring_the_object_back() {
    let mirror = Mirror::new(by_app);
    feed(
        &mirror,
        vec![
            Event::Init,
            Event::InitDone,
            Event::Apply(guard(pod("a", 5, "red"))),
            Event::Delete(guard(pod("a", 6, "red"))),
        ],
    )
    .await;
    mirror.observe(pod("a", 5, "red"));
    assert!(mirror.all().is_empty());
}

#[tokio::test]
async fn a_late_deletion_of_the_predecessor_leaves_the_successor() {
    let mirror = Mirror::new(by_app);
    feed(&mirror, vec![Event::Init, Event::InitDone]).await;
    mirror.observe(pod("a", 9, "red"));
    feed(&mirror, vec![Event::Delete(guard(pod("a", 6, "red")))]).await;
    assert_eq!(names(&mirror.all()), ["a"]);
}

#[tokio::test]
async fn a_listener_that_comes_late_is_told_of_all_that_is_known() {
    let mirror = Mirror::new(by_app);
    mirror.observe(pod("a", 1, "red"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    mirror.subscribe(move |change: &Change<Pod>| {
        let pod = change.latest().expect("a pod");
        log.lock()
            .expect("not poisoned")
            .push(ObjectKey::of(&**pod).name);
    });
    mirror.observe(pod("b", 2, "red"));
    assert_eq!(*told.lock().expect("not poisoned"), ["a", "b"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_hides_no_other_and_stays_as_it_was_until_it_is_gone() {
    let unreadable = |name: &str, version: u64| -> Readable<Pod> {
        serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Pod", "spec": 1,
            "metadata": { "namespace": "ns", "name": name, "resourceVersion": version.to_string() } }))
        .expect("the guard takes whatever has metadata")
    };
    let mirror = Mirror::new(by_app);
    let start = vec![
        Event::Init,
        Event::InitApply(unreadable("newer", 1)),
        Event::InitApply(guard(pod("known", 2, "red"))),
        Event::InitDone,
        Event::Apply(unreadable("known", 3)),
        Event::Init,
        Event::InitApply(unreadable("known", 3)),
        Event::InitDone,
    ];
    feed(&mirror, start).await;
    assert_eq!(names(&mirror.all()), ["known"]);
    feed(&mirror, vec![Event::Delete(unreadable("known", 4))]).await;
    assert!(mirror.all().is_empty());
}

#[test]
fn a_namespace_is_not_its_neighbour() {
    let mirror = Mirror::new(by_app);
    for (namespace, version) in [("n", 1), ("ns", 2), ("ns-2", 3)] {
        let mut pod = pod("a", version, "red");
        pod.metadata.namespace = Some(namespace.into());
        mirror.observe(pod);
    }
    assert_eq!(mirror.in_namespace("ns").len(), 1);
}
