//! What nobody should send, on every road: too deep, too large, of the wrong types.

use std::sync::Arc;

use astrago_apiserver::internals::{KindInfo, kinds};
use astrago_apiserver::store::{Action, Draft, Limits, Name, Options, Store, Write};
use astrago_apiserver::{Identity, Room, Server};
use serde_json::{Value, json};

use crate::plane::{Plane, eventually, gadgets};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GADGETS: &str = "/apis/example.org/v1/namespaces/default/gadgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
}

fn gadget(status: &Value) -> Value {
    json!({ "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "name": "g" }, "status": status })
}

/// A definition whose objects may hold anything anywhere.
fn open_gadgets() -> Value {
    let mut definition = gadgets();
    let version = &mut definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"] = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
    });
    definition
}

#[tokio::test]
async fn nothing_too_deep_gets_in_and_all_lists_go_on() {
    let plane = Plane::start().await;
    assert_eq!(plane.post(DEFINITIONS, open_gadgets()).await.0, 201);
    assert_eq!(plane.post(GADGETS, gadget(&json!({}))).await.0, 201);
    let (one, status) = (format!("{GADGETS}/g"), format!("{GADGETS}/g/status"));
    let deep = json!({ "x": nested(110) });
    let mut replaced = plane.get(&one).await.1;
    replaced["spec"] = deep.clone();
    let mut configuration = gadget(&json!({}));
    configuration["spec"] = deep.clone();
    let added = json!([{ "op": "add", "path": "/status", "value": deep }]);
    let owners = json!([
        { "op": "add", "path": "/metadata/ownerReferences", "value": [
            { "apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "x": nested(80) }] },
        { "op": "add", "path": format!("/metadata/ownerReferences/0/x{}/b", "/a".repeat(80)), "value": nested(80) },
    ]);
    let namespaces = "/api/v1/namespaces/default/finalize";
    let finalizers = json!({ "spec": { "finalizers": [nested(110)] } });
    let apply = format!("{one}?fieldManager=me");
    let mut other = configuration.clone();
    other["metadata"]["name"] = "other".into();
    for (method, path, media, body) in [
        ("POST", GADGETS, JSON, &other),
        ("PUT", &one, JSON, &replaced),
        ("PATCH", &one, MERGE, &json!({ "spec": deep })),
        ("PATCH", &one, JSON_PATCH, &owners),
        ("PATCH", &apply, APPLY, &configuration),
        ("PATCH", &status, MERGE, &json!({ "status": deep })),
        ("PATCH", &status, JSON_PATCH, &added),
        ("PUT", namespaces, JSON, &finalizers),
    ] {
        let (code, answer) = plane.request(method, path, media, body).await;
        assert!(
            code == 400 || code == 422,
            "{method} {path} {media}: {answer}"
        );
    }
    // Half of it is fine, and then no more goes below it.
    let half = json!([{ "op": "add", "path": "/status", "value": { "x": nested(60) } }]);
    assert_eq!(
        plane.request("PATCH", &status, JSON_PATCH, &half).await.0,
        200
    );
    let below = format!("/status/x{}/b", "/a".repeat(60));
    let second = json!([{ "op": "add", "path": below, "value": nested(60) }]);
    let (code, answer) = plane.request("PATCH", &status, JSON_PATCH, &second).await;
    assert_eq!(code, 422, "{answer}");
    let plane = plane.restart().await;
    assert_eq!(
        plane.get(GADGETS).await.1["items"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn nothing_too_large_gets_in() {
    let plane = Plane::start().await;
    let half = "x".repeat(1 << 20);
    let map = |name: &str, data: Value| json!({ "metadata": { "name": name }, "data": data });
    let (code, answer) = plane
        .post(MAPS, map("large", json!({ "a": half, "b": half })))
        .await;
    assert_eq!(
        (code, &answer["reason"]),
        (413, &json!("RequestEntityTooLarge")),
        "{answer}"
    );
    assert_eq!(
        plane.post(MAPS, map("half", json!({ "a": half }))).await.0,
        201
    );
    let path = format!("{MAPS}/half");
    let more = json!({ "data": { "b": half } });
    for media in [MERGE, STRATEGIC] {
        assert_eq!(plane.request("PATCH", &path, media, &more).await.0, 413);
    }
    let copies: Value = (0..24)
        .map(|index| json!({ "op": "copy", "from": "/data/a", "path": format!("/data/c{index}") }))
        .collect();
    let (code, answer) = plane.request("PATCH", &path, JSON_PATCH, &copies).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test]
async fn an_object_that_is_too_deep_already_stops_nothing() {
    let plane = Plane::start().await;
    plane
        .post(MAPS, json!({ "metadata": { "name": "fine" } }))
        .await;
    let Plane { server, directory } = plane;
    server.close().await;
    drop(server);
    let (store, pending) = Store::open(&Options {
        directory: directory.path().to_owned(),
        limits: Limits::default(),
        reserve: 0,
    })
    .expect("the store opens");
    pending.start(Box::new(|_, _| {})).expect("a writer");
    let owner = json!({ "uid": "u", "x": nested(200) });
    for resource in ["configmaps", "pods"] {
        let object = json!({ "apiVersion": "v1", "kind": "Any",
            "metadata": { "name": "deep", "namespace": "default", "uid": resource, "ownerReferences": [owner] } });
        let write = Write {
            resource: resource.into(),
            name: Name::new("default", "deep"),
            action: Action::Create(Draft::new(resource, &object)),
        };
        store.write(write).await.expect("a write");
    }
    store.close().await;
    drop(store);
    let server = Server::open(Plane::options(&directory))
        .await
        .expect("it opens");
    let plane = Plane { server, directory };
    let (code, list) = plane.get(MAPS).await;
    assert_eq!(
        (code, &list["items"][0]["metadata"]["name"]),
        (200, &json!("fine"))
    );
    assert_eq!(plane.get("/api/v1/pods").await.0, 200);
    let again = json!({ "metadata": { "name": "deep" } });
    assert_eq!(plane.post(MAPS, again).await.0, 201, "its name is free");
}

/// An object of a kind that is accepted as it is.
fn sample(info: &KindInfo) -> Value {
    let pod = json!({ "containers": [{ "name": "a", "image": "a:1", "env": [{ "name": "A", "value": "1" }],
        "resources": { "limits": { "cpu": "1" } }, "ports": [{ "containerPort": 1 }] }] });
    let mut job_pod = pod.clone();
    job_pod["restartPolicy"] = "Never".into();
    let mut object = match info.kind {
        "Pod" => json!({ "spec": pod }),
        "PodTemplate" => json!({ "template": { "metadata": {}, "spec": pod } }),
        "Job" => {
            json!({ "spec": { "template": { "metadata": { "labels": {} }, "spec": job_pod } } })
        }
        "Service" => json!({ "spec": { "ports": [{ "port": 1 }] } }),
        "PersistentVolumeClaim" => json!({ "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } } }),
        "Role" | "ClusterRole" => {
            json!({ "rules": [{ "verbs": ["get"], "resources": ["pods"], "apiGroups": [""] }] })
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            json!({ "subjects": [{ "kind": "User", "name": "x" }],
            "roleRef": { "kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io" } })
        }
        "PriorityClass" => json!({ "value": 1 }),
        "StorageClass" => json!({ "provisioner": "x" }),
        "EndpointSlice" => json!({ "addressType": "IPv4", "endpoints": [] }),
        "LimitRange" => {
            json!({ "spec": { "limits": [{ "type": "Container", "default": { "cpu": "1" } }] } })
        }
        "ResourceQuota" => json!({ "spec": { "hard": { "services": "100" } } }),
        "PodDisruptionBudget" => {
            json!({ "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } } })
        }
        "Event" if info.group.is_empty() => {
            json!({ "involvedObject": { "kind": "Pod", "name": "x", "namespace": "default" } })
        }
        "Event" => json!({ "regarding": { "kind": "Pod", "name": "x", "namespace": "default" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "x", "reason": "y",
            "reportingController": "a.b/c", "reportingInstance": "d" }),
        "CustomResourceDefinition" => gadgets(),
        _ => json!({}),
    };
    object["apiVersion"] = info.api_version().into();
    object["kind"] = info.kind.into();
    if info.kind != "CustomResourceDefinition" {
        object["metadata"] =
            json!({ "name": "x", "labels": { "a": "b" }, "annotations": { "a": "b" } });
    }
    object
}

/// Every place in a value, and some that it lacks.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    if at.matches('/').count() > 3 {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let at = format!("{at}/{}", name.replace('/', "~1"));
                places(value, &at, found);
                found.push(at);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().take(1).enumerate() {
                let at = format!("{at}/{index}");
                places(value, &at, found);
                found.push(at);
            }
        }
        _ => {}
    }
}

fn put(value: &mut Value, path: &str, wrong: &Value) {
    let mut place = value;
    for step in path.split('/').skip(1) {
        let step = step.replace("~1", "/");
        place = match place {
            Value::Array(list) => &mut list[step.parse::<usize>().expect("an index")],
            Value::Object(map) => map.entry(step).or_insert(Value::Null),
            other => {
                *other = json!({});
                other
                    .as_object_mut()
                    .expect("a map")
                    .entry(step)
                    .or_insert(Value::Null)
            }
        };
    }
    *place = wrong.clone();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_the_wrong_types_are_refused_or_taken_but_break_nothing() {
    let plane = Arc::new(Plane::start().await);
    let extra = [
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/metadata/ownerReferences/uid",
        "/metadata/managedFields",
        "/metadata/generateName",
        "/metadata/generation",
        "/metadata/deletionTimestamp",
        "/metadata/resourceVersion",
        "/spec",
        "/status",
        "/status/conditions",
        "/status/phase",
        "/spec/template/metadata/labels/x",
        "/data",
        "/stringData",
        "/spec/finalizers",
        "/aggregationRule/clusterRoleSelectors",
        "/spec/priorityClassName",
        "/spec/activeDeadlineSeconds",
        "/spec/terminationGracePeriodSeconds",
        "/spec/podFailurePolicy/rules",
        "/spec/initContainers",
        "/spec/selector",
    ];
    let wrong = [json!(-1), json!("x"), json!([{}]), json!({ "x": 1 })];
    // These make the ways of pods and claims longer.
    for name in ["LimitRange", "ResourceQuota", "PodDisruptionBudget"] {
        let info = kinds()
            .iter()
            .find(|info| info.kind == name)
            .expect("a kind");
        assert_eq!(
            plane.post(&collection(info), sample(info)).await.0,
            201,
            "{name}"
        );
    }
    for info in kinds() {
        let (path, object) = (collection(info), sample(info));
        let (code, answer) = plane.post(&path, object.clone()).await;
        assert!(matches!(code, 201 | 400 | 409), "{}: {answer}", info.kind);
        let mut found: Vec<String> = extra.map(str::to_owned).to_vec();
        places(&object, "", &mut found);
        for (index, at) in found.iter().enumerate() {
            // Deeper down every place gets one of them, in turn.
            let is_top = at.matches('/').count() < 2;
            let values = wrong.iter().enumerate();
            for (_, wrong) in values.filter(|(turn, _)| is_top || *turn == index % wrong.len()) {
                let mut confused = object.clone();
                put(&mut confused, at, wrong);
                throw(&plane, info, &path, at, &confused).await;
            }
        }
    }
    assert_eq!(plane.text("/readyz").await.0, 200);
}

fn collection(info: &KindInfo) -> String {
    let root = if info.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let place = if info.namespaced {
        "/namespaces/default"
    } else {
        ""
    };
    format!("{root}/{}{place}/{}", info.api_version(), info.plural)
}

/// Sends it every way there is; nothing is to be our own fault.
async fn throw(plane: &Plane, info: &KindInfo, path: &str, at: &str, confused: &Value) {
    let check = async |method: &str, path: &str, media: &str, body: &Value| {
        let (code, answer) = plane.request(method, path, media, body).await;
        let kind = info.kind;
        assert!(
            (200..500).contains(&code),
            "{kind} {at} {method} {path} {media} {body}: {code} {answer}"
        );
    };
    let mut anew = confused.clone();
    if anew["metadata"]["name"] == "x" {
        anew["metadata"]["name"] = "new".into();
    }
    check("POST", &format!("{path}?dryRun=All"), JSON, &anew).await;
    // Below that the roads have come together.
    let is_high = at.matches('/').count() < 2 || at.starts_with("/metadata/");
    if !info.is_stored() || !is_high {
        return;
    }
    let one = format!(
        "{path}/{}",
        sample(info)["metadata"]["name"].as_str().unwrap_or("x")
    );
    check("PUT", &format!("{one}?dryRun=All"), JSON, confused).await;
    check("PATCH", &format!("{one}?dryRun=All"), MERGE, confused).await;
    check("PATCH", &format!("{one}?dryRun=All"), STRATEGIC, confused).await;
    check(
        "PATCH",
        &format!("{one}?dryRun=All&fieldManager=me&force=true"),
        APPLY,
        confused,
    )
    .await;
    if info.has_subresource("status") {
        check("PUT", &format!("{one}/status?dryRun=All"), JSON, confused).await;
        check(
            "PATCH",
            &format!("{one}/status?dryRun=All"),
            MERGE,
            confused,
        )
        .await;
        check(
            "PATCH",
            &format!("{one}/status?dryRun=All&fieldManager=me&force=true"),
            APPLY,
            confused,
        )
        .await;
    }
}

#[tokio::test]
async fn numbers_out_of_all_proportion_break_nothing() {
    let plane = Plane::start().await;
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX,
        "containers": [{ "name": "a", "image": "a" }] } });
    assert_eq!(
        plane.post("/api/v1/namespaces/default/pods", pod).await.0,
        201
    );
    let path = "/api/v1/namespaces/default/pods/p";
    assert_eq!(
        plane
            .delete(
                &format!("{path}?gracePeriodSeconds={}", i64::MAX),
                Value::Null
            )
            .await
            .0,
        200
    );
    assert_eq!(
        plane
            .delete(path, json!({ "gracePeriodSeconds": i64::MAX }))
            .await
            .0,
        200
    );
    let watch = format!("{MAPS}?watch=true&timeoutSeconds={}", u64::MAX);
    let request = http::Request::get(watch)
        .body(axum::body::Body::empty())
        .expect("a request");
    let router = plane.server.local(Identity::admin());
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), 200);
}

#[tokio::test]
async fn a_namespace_holds_only_so_much() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Plane::options(&directory);
    options.room = Room {
        objects: 4,
        bytes: 100_000,
    };
    let server = Server::open(options).await.expect("the server opens");
    let plane = Plane { server, directory };
    let space = json!({ "metadata": { "name": "team" } });
    assert_eq!(plane.post("/api/v1/namespaces", space).await.0, 201);
    let maps = "/api/v1/namespaces/team/configmaps";
    eventually("the namespace has what it begins with", || async {
        plane.get(&format!("{maps}/kube-root-ca.crt")).await.0 == 200
    })
    .await;
    let map = |name: &str, size: usize| json!({ "metadata": { "name": name }, "data": { "a": "x".repeat(size) } });
    let (code, refused) = plane.post(maps, map("a", 100_000)).await;
    assert_eq!(code, 403);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("100000") && message.contains("astrago.io/max-bytes"),
        "{message}"
    );
    assert_eq!(plane.post(maps, map("a", 1)).await.0, 201);
    let mut codes = Vec::new();
    for name in ["b", "c", "d"] {
        codes.push(plane.post(maps, map(name, 1)).await.0);
    }
    assert_eq!(codes.last(), Some(&403), "{codes:?}");
    let patch = json!({ "metadata": { "annotations": { "astrago.io/max-objects": "10", "astrago.io/max-bytes": "1Mi" } } });
    plane
        .request("PATCH", "/api/v1/namespaces/team", MERGE, &patch)
        .await;
    assert_eq!(plane.post(maps, map("d", 100_000)).await.0, 201);
    plane.delete(&format!("{maps}/d"), json!({})).await;
    let back = json!({ "metadata": { "annotations": null } });
    plane
        .request("PATCH", "/api/v1/namespaces/team", MERGE, &back)
        .await;
    plane.delete(&format!("{maps}/b"), json!({})).await;
    plane.delete(&format!("{maps}/c"), json!({})).await;
    assert_eq!(
        plane.post(maps, map("e", 1)).await.0,
        201,
        "what is deleted makes room"
    );
}

async fn ask(
    plane: &Plane,
    who: &Identity,
    path: &str,
    accept: &str,
) -> http::Response<axum::body::Body> {
    let request = http::Request::get(path).header("accept", accept);
    let request = request.body(axum::body::Body::empty()).expect("a request");
    let answer = tower::ServiceExt::oneshot(plane.server.local(who.clone()), request).await;
    answer.expect("routers do not fail")
}

#[tokio::test]
async fn lists_and_watches_that_nobody_reads_hold_no_copies_and_count() {
    use http_body_util::BodyExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Plane::options(&directory);
    options.limits.requests = 3;
    let server = Server::open(options).await.expect("the server opens");
    let plane = Plane { server, directory };
    for number in 0..8 {
        let map = json!({ "metadata": { "name": format!("m{number}") }, "data": { "a": "x".repeat(900_000) } });
        assert_eq!(plane.post(MAPS, map).await.0, 201);
    }
    let admin = Identity::admin();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (path, accept, items) in [
        (MAPS.to_owned(), JSON, "items"),
        (format!("{MAPS}?includeObject=Object"), table, "rows"),
        (format!("{MAPS}?watch=true"), JSON, ""),
        (format!("{MAPS}?watch=true&resourceVersion=1"), JSON, ""),
    ] {
        let mut body = ask(&plane, &admin, &path, accept).await.into_body();
        let (mut read, mut largest) = (Vec::new(), 0);
        while read.len() < 8 * 900_000 {
            let frame = body.frame().await.expect("more").expect("a frame");
            let data = frame.into_data().expect("data");
            largest = largest.max(data.len());
            read.extend_from_slice(&data);
        }
        assert!(largest < 1_000_000, "{path}: {largest} bytes at once");
        if !items.is_empty() {
            let rest = body.collect().await.expect("the rest").to_bytes();
            read.extend_from_slice(&rest);
            let list: Value = serde_json::from_slice(&read).expect("a list");
            let count = list[items].as_array().map_or(0, Vec::len);
            assert!(count >= 8, "{path}: {count}");
        }
    }
    // They are under way until they are read.
    let ann = Identity::user("ann", &[]);
    let rights = json!({ "metadata": { "name": "ann" }, "subjects": [{ "kind": "User", "name": "ann" }],
        "roleRef": { "kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io" } });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(plane.post(bindings, rights).await.0, 201);
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(ask(&plane, &ann, MAPS, JSON).await);
    }
    assert!(unread.iter().all(|answer| answer.status() == 200));
    assert_eq!(ask(&plane, &ann, MAPS, JSON).await.status(), 429);
    drop(unread);
    assert_eq!(ask(&plane, &ann, MAPS, JSON).await.status(), 200);
}
