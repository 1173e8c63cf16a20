//! Owners, finalizers, namespaces and definitions, as they go.

use serde_json::{Value, json};

use crate::plane::{Plane, eventually, gadgets};

const MERGE: &str = "application/merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(plane: &Plane, name: &str, owners: &[&Value], finalizers: &[&str]) -> Value {
    let owners: Vec<_> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            })
        })
        .collect();
    let body = json!({
        "metadata": { "name": name, "ownerReferences": owners, "finalizers": finalizers },
    });
    let (code, created) = plane.post(MAPS, body).await;
    assert_eq!(code, 201, "{created}");
    created
}

async fn exists(plane: &Plane, name: &str) -> bool {
    plane.get(&format!("{MAPS}/{name}")).await.0 == 200
}

async fn gone(plane: &Plane, name: &str) {
    eventually(&format!("{name} is gone"), || async {
        !exists(plane, name).await
    })
    .await;
}

#[tokio::test]
async fn dependents_follow_their_last_owner() {
    let plane = Plane::start().await;
    let owner = create(&plane, "owner", &[], &[]).await;
    let second = create(&plane, "second", &[], &[]).await;
    let child = create(&plane, "child", &[&owner], &[]).await;
    create(&plane, "grandchild", &[&child], &[]).await;
    create(&plane, "shared", &[&owner, &second], &[]).await;

    let body = json!({ "propagationPolicy": "Background" });
    let (code, status) = plane.delete(&format!("{MAPS}/owner"), body).await;
    assert_eq!(
        (code, &status["status"]),
        (200, &json!("Success")),
        "{status}"
    );
    assert_eq!(status["details"]["uid"], owner["metadata"]["uid"]);
    gone(&plane, "child").await;
    gone(&plane, "grandchild").await;
    eventually("the shared object loses the dead owner", || async {
        let (_, shared) = plane.get(&format!("{MAPS}/shared")).await;
        shared["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 1)
    })
    .await;
}

#[tokio::test]
async fn foreground_waits_for_dependents_and_orphan_lets_them_live() {
    let plane = Plane::start().await;
    let owner = create(&plane, "owner", &[], &[]).await;
    create(&plane, "held", &[&owner], &["example.org/hold"]).await;
    let body = json!({ "propagationPolicy": "Foreground" });
    let (code, marked) = plane.delete(&format!("{MAPS}/owner"), body).await;
    assert_eq!(
        (code, &marked["metadata"]["finalizers"]),
        (200, &json!(["foregroundDeletion"]))
    );
    eventually("the dependent is marked", || async {
        let (_, held) = plane.get(&format!("{MAPS}/held")).await;
        held["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert!(exists(&plane, "owner").await, "the owner waits");
    let release = json!({ "metadata": { "finalizers": null } });
    let path = format!("{MAPS}/held");
    plane.request("PATCH", &path, MERGE, &release).await;
    gone(&plane, "held").await;
    gone(&plane, "owner").await;

    let owner = create(&plane, "owner", &[], &[]).await;
    create(&plane, "orphan", &[&owner], &[]).await;
    plane
        .delete(
            &format!("{MAPS}/owner"),
            json!({ "propagationPolicy": "Orphan" }),
        )
        .await;
    gone(&plane, "owner").await;
    let (code, orphan) = plane.get(&format!("{MAPS}/orphan")).await;
    assert_eq!(
        (code, &orphan["metadata"]["ownerReferences"]),
        (200, &Value::Null)
    );
}

#[tokio::test]
async fn a_cascade_goes_on_after_a_restart() {
    let plane = Plane::start().await;
    let owner = create(&plane, "owner", &[], &[]).await;
    for index in 0..40 {
        create(&plane, &format!("child-{index}"), &[&owner], &[]).await;
    }
    plane.delete(&format!("{MAPS}/owner"), json!({})).await;
    let plane = plane.restart().await;
    eventually("all children are gone", || async {
        let (_, maps) = plane.get(MAPS).await;
        let items = maps["items"].as_array().expect("a list");
        let mut names = items.iter().map(|map| map["metadata"]["name"].as_str());
        !names.any(|name| name.is_some_and(|name| name.starts_with("child-")))
    })
    .await;
}

#[tokio::test]
async fn a_namespace_takes_what_is_in_it_along() {
    let plane = Plane::start().await;
    plane
        .post(
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "team" } }),
        )
        .await;
    let path = "/api/v1/namespaces/team/configmaps";
    let (code, _) = plane
        .post(path, json!({ "metadata": { "name": "a" } }))
        .await;
    assert_eq!(code, 201);
    let held = json!({ "metadata": { "name": "b", "finalizers": ["example.org/hold"] } });
    plane.post(path, held).await;
    let (code, namespace) = plane.delete("/api/v1/namespaces/team", json!({})).await;
    assert_eq!(
        (code, &namespace["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let (code, refused) = plane
        .post(path, json!({ "metadata": { "name": "c" } }))
        .await;
    assert_eq!(code, 403, "{refused}");
    eventually("a is gone", || async {
        plane.get(&format!("{path}/a")).await.0 == 404
    })
    .await;
    eventually("the namespace says that b holds it", || async {
        let (_, namespace) = plane.get("/api/v1/namespaces/team").await;
        let conditions = namespace["status"]["conditions"].as_array().cloned();
        conditions.into_iter().flatten().any(|one| {
            one["type"] == "NamespaceFinalizersRemaining"
                && one["message"] == "objects have finalizers: example.org/hold (1)"
        })
    })
    .await;
    let release = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    plane
        .request(
            "PATCH",
            &format!("{path}/b"),
            "application/json-patch+json",
            &release,
        )
        .await;
    eventually("team is gone", || async {
        plane.get("/api/v1/namespaces/team").await.0 == 404
    })
    .await;
    let (code, _) = plane
        .post(path, json!({ "metadata": { "name": "c" } }))
        .await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn what_pods_use_outlives_them_when_their_namespace_goes() {
    let plane = Plane::start().await;
    let team = json!({ "metadata": { "name": "team" } });
    plane.post("/api/v1/namespaces", team).await;
    let path = |plural: &str| format!("/api/v1/namespaces/team/{plural}");
    let map = json!({ "metadata": { "name": "code" } });
    assert_eq!(plane.post(&path("configmaps"), map).await.0, 201);
    let pod = json!({
        "metadata": { "name": "pod", "finalizers": ["example.org/hold"] },
        "spec": { "containers": [{ "name": "main", "image": "any" }] },
    });
    assert_eq!(plane.post(&path("pods"), pod).await.0, 201);
    plane.delete("/api/v1/namespaces/team", json!({})).await;
    eventually("the namespace waits for its pod", || async {
        let (_, namespace) = plane.get("/api/v1/namespaces/team").await;
        namespace["status"]["conditions"][1]["message"] == "objects are left: pods (1)"
    })
    .await;
    assert_eq!(plane.get(&path("configmaps/code")).await.0, 200);
    let release = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    let kind = "application/json-patch+json";
    plane
        .request("PATCH", &path("pods/pod"), kind, &release)
        .await;
    eventually("team is gone", || async {
        plane.get("/api/v1/namespaces/team").await.0 == 404
    })
    .await;
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let plane = Plane::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, gadgets()).await;
    let path = "/apis/example.org/v1/namespaces/default/gadgets";
    let (code, made) = plane
        .post(path, json!({ "metadata": { "name": "g" } }))
        .await;
    assert_eq!(code, 201, "{made}");
    plane
        .delete(&format!("{definitions}/gadgets.example.org"), json!({}))
        .await;
    eventually("the definition is gone", || async {
        plane
            .get(&format!("{definitions}/gadgets.example.org"))
            .await
            .0
            == 404
    })
    .await;
    assert_eq!(plane.get(path).await.0, 404);
    plane.post(definitions, gadgets()).await;
    let (code, list) = plane.get(path).await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
}

#[tokio::test]
async fn events_go_an_hour_after_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |clock: &str| {
        let now: jiff::Timestamp = clock.parse().unwrap();
        let mut options = Plane::options(&directory);
        options.clock = std::sync::Arc::new(move || now);
        astrago_apiserver::Server::open(options).await.unwrap()
    };
    let event = |name: &str, time: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "default" },
            "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
            "reason": "Started", "message": "m", "type": "Normal", "lastTimestamp": time,
        })
    };
    let client = |server: &astrago_apiserver::Server| {
        let api = server.local(astrago_apiserver::Identity::admin());
        kube::Api::<k8s_openapi::api::core::v1::Event>::default_namespaced(kube::Client::new(
            api, "default",
        ))
    };
    let server = open("2026-01-01T10:00:00Z").await;
    for (name, time) in [
        ("old", "2026-01-01T09:50:00Z"),
        ("new", "2026-01-01T10:50:00Z"),
    ] {
        let event = serde_json::from_value(event(name, time)).unwrap();
        client(&server)
            .create(&kube::api::PostParams::default(), &event)
            .await
            .unwrap();
    }
    server.close().await;
    drop(server);
    let server = open("2026-01-01T11:10:00Z").await;
    let events = client(&server);
    eventually("the old event goes", || async {
        let found = events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let names: Vec<_> = found
            .items
            .iter()
            .filter_map(|event| event.metadata.name.as_deref())
            .collect();
        names == ["new"]
    })
    .await;
}

#[tokio::test]
async fn what_belongs_to_a_damaged_object_stays() {
    let plane = Plane::start().await;
    let owner = create(&plane, "owner", &[], &[]).await;
    create(&plane, "dependent", &[&owner], &[]).await;
    plane.server.close().await;
    let Plane { server, directory } = plane;
    drop(server);
    let path = directory.path().join("store.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The page may have been copied while the file grew.
    let places: Vec<usize> =
        memchr::memmem::find_iter(&bytes, br#""name":"owner","namespace":"#).collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place + 9] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let server = astrago_apiserver::Server::open(Plane::options(&directory))
        .await
        .unwrap();
    let plane = Plane { server, directory };
    assert!(!exists(&plane, "owner").await, "it is not served");
    // Garbage collection is at work: what has no owner because it was deleted does go.
    let other = create(&plane, "other", &[], &[]).await;
    create(&plane, "follower", &[&other], &[]).await;
    plane
        .delete("/api/v1/namespaces/default/configmaps/other", json!({}))
        .await;
    gone(&plane, "follower").await;
    assert!(exists(&plane, "dependent").await);
}

#[tokio::test]
async fn pods_outlive_a_job_unless_they_are_to_go_with_it() {
    let plane = Plane::start().await;
    let (jobs, pods) = (
        "/apis/batch/v1/namespaces/default/jobs",
        "/api/v1/namespaces/default/pods",
    );
    let containers = json!([{ "name": "a", "image": "a:1" }]);
    for (name, options) in [
        ("stays", json!({})),
        ("goes", json!({ "propagationPolicy": "Background" })),
    ] {
        let template = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
        let job = json!({ "metadata": { "name": name }, "spec": { "template": template } });
        let (code, job) = plane.post(jobs, job).await;
        assert_eq!(code, 201, "{job}");
        let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"] });
        let pod = json!({ "metadata": { "name": name, "ownerReferences": [owner] }, "spec": { "containers": containers } });
        assert_eq!(plane.post(pods, pod).await.0, 201);
        plane.delete(&format!("{jobs}/{name}"), options).await;
        eventually("the job is gone", || async {
            plane.get(&format!("{jobs}/{name}")).await.0 == 404
        })
        .await;
    }
    eventually("a pod goes with its job", || async {
        plane.get(&format!("{pods}/goes")).await.0 == 404
    })
    .await;
    let (code, pod) = plane.get(&format!("{pods}/stays")).await;
    assert_eq!(
        (code, &pod["metadata"]["ownerReferences"]),
        (200, &Value::Null)
    );
}

#[tokio::test]
async fn every_namespace_keeps_its_account_and_the_certificate_of_the_server() {
    let plane = Plane::start().await;
    let (code, _) = plane
        .post(
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "new" } }),
        )
        .await;
    assert_eq!(code, 201);
    for namespace in ["kube-system", "new"] {
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        let map = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        let is_there = || async {
            let (_, map) = plane.get(&map).await;
            let has_account = plane.get(&account).await.0 == 200;
            has_account && map["data"] == json!({ "ca.crt": plane.server.ca_pem() })
        };
        eventually("both are there", is_there).await;
        for path in [&account, &map] {
            assert_eq!(plane.delete(path, Value::Null).await.0, 200);
            eventually("it is there again", is_there).await;
        }
        let patch = json!({ "data": { "ca.crt": "another", "more": "" } });
        let patched = plane.request("PATCH", &map, MERGE, &patch);
        assert_eq!(patched.await.0, 200);
        eventually("it is as it was", is_there).await;
    }
}

#[tokio::test]
async fn owners_in_a_circle_do_not_wait_for_each_other() {
    for names in [&["one", "two", "three"][..], &["one"]] {
        let plane = Plane::start().await;
        let first = create(&plane, "zero", &[], &[]).await;
        let mut last = first;
        for name in names {
            last = create(&plane, name, &[&last], &[]).await;
        }
        let owner = json!({ "metadata": { "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
            "name": last["metadata"]["name"], "uid": last["metadata"]["uid"],
        }] } });
        let path = format!("{MAPS}/zero");
        assert_eq!(plane.request("PATCH", &path, MERGE, &owner).await.0, 200);
        let foreground = json!({ "propagationPolicy": "Foreground" });
        for name in ["zero", names[0]] {
            plane
                .delete(&format!("{MAPS}/{name}"), foreground.clone())
                .await;
        }
        for name in names.iter().chain(&["zero"]) {
            gone(&plane, name).await;
        }
    }
}
