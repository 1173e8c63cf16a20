//! kube-rs in process: `Api`, reflectors and `Controller`.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{Controller, controller::Action, reflector, watcher};
use serde_json::json;

use crate::plane::{Plane, gadgets};

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": value } }, "data": { "key": value },
    }))
    .expect("a config map")
}

#[tokio::test]
async fn objects_are_created_read_replaced_and_deleted() {
    let plane = Plane::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client());
    let created = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());

    let again = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert!(matches!(again, kube::Error::Api(status) if status.is_already_exists()));

    let patch = json!({ "data": { "key": "2", "more": "x" } });
    let patched = api
        .patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(patched.data.as_ref().unwrap()["more"], "x");

    let stale = api
        .replace("a", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));

    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_watch_sees_each_change_once_and_in_order() {
    let plane = Plane::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client());
    let start = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    for index in 0..50 {
        api.create(
            &PostParams::default(),
            &config_map(&format!("c{index}"), "x"),
        )
        .await
        .unwrap();
    }
    let events = api
        .watch(&WatchParams::default(), &start)
        .await
        .unwrap()
        .boxed();
    let names: Vec<_> = events
        .take(50)
        .map_ok(|event| match event {
            WatchEvent::Added(object) => object.metadata.name.unwrap(),
            other => panic!("unexpected {other:?}"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        names,
        (0..50).map(|index| format!("c{index}")).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_survives_a_restart() {
    let plane = Plane::start().await;
    let (code, definition) = plane
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            gadgets(),
        )
        .await;
    assert_eq!(code, 201, "{definition}");
    assert_eq!(definition["status"]["conditions"][1]["type"], "Established");
    let path = "/apis/example.org/v1/namespaces/default/gadgets";
    let gadget = json!({ "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "generateName": "g-" }, "spec": { "size": 1 } });
    let (code, created) = plane.post(path, gadget).await;
    assert_eq!(code, 201, "{created}");
    let name = created["metadata"]["name"].as_str().unwrap().to_owned();

    let plane = plane.restart().await;
    let (code, found) = plane.get(&format!("{path}/{name}")).await;
    assert_eq!((code, &found), (200, &created));

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.org", "v1", "Gadget"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(plane.client(), &kind);
    let status = json!({ "status": { "phase": "Good" }, "spec": { "size": 7 } });
    let updated = api
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(updated.data["status"]["phase"], "Good");
    assert_eq!(
        updated.data["spec"]["size"], 1,
        "the status subresource leaves the spec alone"
    );
    assert_eq!(updated.metadata.generation, Some(1));
}

#[tokio::test]
async fn a_definition_gets_no_name_that_another_of_its_group_has() {
    let plane = Plane::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(path, gadgets()).await;
    for (plural, group, served) in [
        ("tools", "example.org", "False"),
        ("gadgets", "elsewhere.org", "True"),
    ] {
        let mut definition = gadgets();
        definition["metadata"]["name"] = json!(format!("{plural}.{group}"));
        definition["spec"]["group"] = json!(group);
        definition["spec"]["names"] = json!({ "plural": plural, "kind": "Gadget" });
        let (code, made) = plane.post(path, definition).await;
        assert_eq!(code, 201, "{made}");
        let conditions = &made["status"]["conditions"];
        assert_eq!(conditions[0]["type"], "NamesAccepted");
        assert_eq!(conditions[0]["status"], served, "{conditions}");
        assert_eq!(conditions[1]["status"], served, "{conditions}");
    }
    // What it has itself is not taken.
    let all = json!({ "spec": { "names": { "shortNames": ["gad"] } } });
    let api: Api<DynamicObject> = Api::all_with(
        plane.client(),
        &ApiResource::erase::<CustomResourceDefinition>(&()),
    );
    let changed = api
        .patch(
            "gadgets.example.org",
            &PatchParams::default(),
            &Patch::Merge(&all),
        )
        .await
        .unwrap();
    assert_eq!(changed.data["status"]["conditions"][1]["status"], "True");
}

#[tokio::test]
async fn a_pod_gets_the_priority_of_its_class_and_is_bound_once() {
    let plane = Plane::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    plane
        .post(
            classes,
            json!({ "metadata": { "name": "urgent" }, "value": 1000 }),
        )
        .await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |class: &str| {
        json!({
            "metadata": { "name": "p" },
            "spec": { "priorityClassName": class, "containers": [{ "name": "c", "image": "i" }] },
        })
    };
    assert_eq!(plane.post(pods, pod("missing")).await.0, 403);
    let (code, made) = plane.post(pods, pod("urgent")).await;
    assert_eq!(
        (code, &made["spec"]["priority"]),
        (201, &json!(1000)),
        "{made}"
    );
    let binding = json!({ "target": { "kind": "Node", "name": "n1" } });
    let (code, answer) = plane
        .post(&format!("{pods}/p/binding"), binding.clone())
        .await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(
        plane.post(&format!("{pods}/p/binding"), binding).await.0,
        409
    );
    let (_, list) = plane
        .get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
        .await;
    assert_eq!(
        list["items"][0]["status"]["conditions"][0]["type"],
        "PodScheduled"
    );
    let (_, marked) = plane.delete(&format!("{pods}/p"), json!({})).await;
    assert_eq!(
        marked["metadata"]["deletionGracePeriodSeconds"], 30,
        "a node may be running it"
    );
    let (code, _) = plane
        .delete(&format!("{pods}/p"), json!({ "gracePeriodSeconds": 0 }))
        .await;
    assert_eq!(code, 200);
    assert_eq!(plane.get(&format!("{pods}/p")).await.0, 404);
}

#[tokio::test]
async fn a_reflector_and_a_controller_follow_the_server() {
    let plane = Plane::start().await;
    let api: Api<Pod> = Api::default_namespaced(plane.client());
    let pod = |name: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        }))
        .unwrap()
    };
    let (reader, writer) = reflector::store();
    let stream = reflector(
        writer,
        watcher(api.clone(), watcher::Config::default().streaming_lists()),
    );
    let reflecting = tokio::spawn(stream.for_each(|_| futures::future::ready(())));
    reader.wait_until_ready().await.unwrap();

    let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::new(api.clone(), watcher::Config::default()).run(
        move |pod: Arc<Pod>, _: Arc<()>| {
            let seen = seen.clone();
            async move {
                let _ = seen.send(pod.metadata.name.clone().unwrap_or_default());
                Ok::<_, std::io::Error>(Action::await_change())
            }
        },
        |_, _, _: Arc<()>| Action::requeue(Duration::from_secs(1)),
        Arc::new(()),
    );
    let controlling = tokio::spawn(controller.for_each(|_| futures::future::ready(())));
    api.create(&PostParams::default(), &pod("one"))
        .await
        .unwrap();
    let name = tokio::time::timeout(Duration::from_secs(10), seeing.recv())
        .await
        .unwrap();
    assert_eq!(name.as_deref(), Some("one"));
    assert_eq!(reader.state().len(), 1);
    reflecting.abort();
    controlling.abort();
}

#[tokio::test]
async fn bodies_of_the_wrong_shape_are_refused_and_nothing_breaks() {
    let plane = Plane::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, gadgets()).await;
    let gadgets = "/apis/example.org/v1/namespaces/default/gadgets";
    let (code, _) = plane
        .post(gadgets, json!({ "metadata": { "name": "g" } }))
        .await;
    assert_eq!(code, 201);
    let shapes = [
        json!("text"),
        json!(7),
        json!([]),
        json!([{}]),
        json!(true),
        json!({ "x": [null] }),
    ];
    let collections = [
        definitions,
        gadgets,
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/api/v1/namespaces/default/pods/none/binding",
    ];
    for shape in &shapes {
        for path in collections {
            for body in [
                shape.clone(),
                json!({ "metadata": shape }),
                json!({ "metadata": { "name": "x", "labels": shape, "finalizers": shape } }),
                json!({ "metadata": { "name": "x" }, "spec": shape, "roleRef": shape, "subjects": shape }),
                json!({ "metadata": { "name": "x" }, "spec": { "names": shape, "versions": shape } }),
            ] {
                let (code, answer) = plane.post(path, body.clone()).await;
                assert!(code < 500, "{path} {body}: {code} {answer}");
                if code == 201 && path != definitions {
                    plane.delete(&format!("{path}/x"), json!({})).await;
                }
            }
        }
        for (path, kind) in [
            (format!("{gadgets}/g"), "application/merge-patch+json"),
            (format!("{gadgets}/g/scale"), "application/merge-patch+json"),
            (
                format!("{gadgets}/g/status"),
                "application/merge-patch+json",
            ),
            (
                format!("{gadgets}/g?fieldManager=m"),
                "application/apply-patch+yaml",
            ),
            (format!("{gadgets}/g"), "application/json-patch+json"),
            (
                "/api/v1/namespaces/default".to_owned(),
                "application/strategic-merge-patch+json",
            ),
        ] {
            for body in [
                shape.clone(),
                json!({ "spec": shape }),
                json!({ "metadata": shape }),
            ] {
                let (code, answer) = plane.request("PATCH", &path, kind, &body).await;
                assert!(code < 500, "{path} {body}: {code} {answer}");
            }
        }
        let (code, answer) = plane
            .delete(&format!("{gadgets}/none"), shape.clone())
            .await;
        assert!(code < 500, "{code} {answer}");
    }
    assert_eq!(plane.get("/readyz").await.0, 200);
}
