//! Parameters and preconditions of requests, as Kubernetes documents them.

use rstest::rstest;
use serde_json::{Value, json};

use crate::plane::{Plane, gadgets};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GADGETS: &str = "/apis/example.org/v1/namespaces/default/gadgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE: &str = "application/merge-patch+json";

fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "x" } }, "data": { "key": value } })
}

fn gadget(name: &str) -> Value {
    json!({ "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "name": name },
        "spec": { "size": 1, "replicas": 2 } })
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list");
    let name = |item: &Value| {
        item["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    items.iter().map(name).collect()
}

async fn with_maps(count: usize) -> Plane {
    let plane = Plane::start().await;
    for index in 0..count {
        let (code, _) = plane
            .post(MAPS, config_map(&format!("m{index}"), "1"))
            .await;
        assert_eq!(code, 201);
    }
    plane
}

#[tokio::test]
async fn pages_of_one_list_are_one_snapshot() {
    let plane = with_maps(5).await;
    let path = format!("{MAPS}?labelSelector=app=x&limit=2");
    let (_, first) = plane.get(&path).await;
    assert_eq!(names(&first), ["m0", "m1"]);
    assert!(first["metadata"]["remainingItemCount"].is_null());
    let (_, plain) = plane.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&plain), ["kube-root-ca.crt", "m0"]);
    assert_eq!(plain["metadata"]["remainingItemCount"], 4);
    plane.delete(&format!("{MAPS}/m3"), json!({})).await;
    plane.post(MAPS, config_map("m2b", "1")).await;
    let mut seen = Vec::new();
    let mut next = first["metadata"]["continue"].as_str().map(str::to_owned);
    while let Some(token) = next {
        let (code, page) = plane.get(&format!("{path}&continue={token}")).await;
        assert_eq!(code, 200);
        assert_eq!(
            page["metadata"]["resourceVersion"],
            first["metadata"]["resourceVersion"]
        );
        seen.extend(names(&page));
        next = page["metadata"]["continue"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn a_resource_version_is_a_floor_or_a_point_in_time() {
    let plane = with_maps(1).await;
    let (_, then) = plane.get(&format!("{MAPS}?labelSelector=app=x")).await;
    let version = then["metadata"]["resourceVersion"]
        .as_str()
        .expect("one")
        .to_owned();
    plane.post(MAPS, config_map("later", "1")).await;
    let list = async |query: &str| {
        plane
            .get(&format!("{MAPS}?labelSelector=app=x&{query}"))
            .await
    };
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let (_, exact) = list(&exact).await;
    assert_eq!(names(&exact), ["m0"]);
    assert_eq!(exact["metadata"]["resourceVersion"], *version);
    for query in [
        String::new(),
        "resourceVersion=0".to_owned(),
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    ] {
        assert_eq!(names(&list(&query).await.1), ["later", "m0"], "{query}");
    }
    for (query, code) in [
        ("resourceVersionMatch=Exact", 400),
        ("resourceVersion=0&resourceVersionMatch=Exact", 400),
        ("resourceVersion=x", 400),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 400),
        ("sendInitialEvents=true", 400),
        ("labelSelector=a%20b", 400),
        ("fieldSelector=spec.nonsense=1", 400),
    ] {
        assert_eq!(list(query).await.0, code, "{query}");
    }
}

#[tokio::test]
async fn a_dry_run_answers_and_changes_nothing() {
    let plane = with_maps(1).await;
    plane.post(DEFINITIONS, gadgets()).await;
    plane.post(GADGETS, gadget("g")).await;
    let before = plane.get(MAPS).await.1;
    let gadget_before = plane.get(&format!("{GADGETS}/g")).await.1;
    let one = format!("{MAPS}/m0");
    let patch = json!({ "data": { "key": "2" } });
    let json_patch = json!([{ "op": "remove", "path": "/data" }]);
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m0" },
        "data": { "other": "1" } });
    let scale = json!({ "spec": { "replicas": 9 } });
    let status = json!({ "status": { "phase": "x" } });
    for (method, path, media, body, code) in [
        (
            "POST",
            MAPS,
            "application/json",
            &config_map("new", "1"),
            201,
        ),
        ("PUT", &one, "application/json", &config_map("m0", "2"), 200),
        ("PATCH", &one, MERGE, &patch, 200),
        (
            "PATCH",
            &one,
            "application/strategic-merge-patch+json",
            &patch,
            200,
        ),
        (
            "PATCH",
            &one,
            "application/json-patch+json",
            &json_patch,
            200,
        ),
        ("DELETE", &one, "application/json", &Value::Null, 200),
        ("DELETE", MAPS, "application/json", &Value::Null, 200),
        ("PATCH", &format!("{GADGETS}/g/scale"), MERGE, &scale, 200),
        ("PATCH", &format!("{GADGETS}/g/status"), MERGE, &status, 200),
        (
            "DELETE",
            &format!("{GADGETS}/g"),
            "application/json",
            &Value::Null,
            200,
        ),
    ] {
        let (found, answer) = plane
            .request(method, &format!("{path}?dryRun=All"), media, body)
            .await;
        assert_eq!(found, code, "{method} {path} {media}: {answer}");
    }
    let apply = format!("{one}?dryRun=All&fieldManager=me");
    let media = "application/apply-patch+yaml";
    let (code, answer) = plane.request("PATCH", &apply, media, &applied).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["data"]["other"], "1");
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] });
    assert_eq!(plane.delete(&one, options).await.0, 200);
    assert_eq!(plane.get(MAPS).await.1["items"], before["items"]);
    assert_eq!(plane.get(&format!("{GADGETS}/g")).await.1, gadget_before);
    assert_eq!(
        plane
            .post(&format!("{MAPS}?dryRun=Some"), config_map("n", "1"))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn preconditions_hold_or_nothing_happens() {
    let plane = with_maps(1).await;
    let one = format!("{MAPS}/m0");
    let (_, object) = plane.get(&one).await;
    for wrong in [json!({ "uid": "other" }), json!({ "resourceVersion": "1" })] {
        let options = json!({ "preconditions": wrong });
        let (code, answer) = plane.delete(&one, options).await;
        assert_eq!(
            (code, &answer["reason"]),
            (409, &json!("Conflict")),
            "{answer}"
        );
    }
    let mut stale = object.clone();
    stale["data"]["key"] = "2".into();
    assert_eq!(
        plane
            .request("PUT", &one, "application/json", &stale)
            .await
            .0,
        200
    );
    stale["data"]["key"] = "3".into();
    assert_eq!(
        plane
            .request("PUT", &one, "application/json", &stale)
            .await
            .0,
        409
    );
    let patch = json!({ "metadata": { "resourceVersion": "1" }, "data": { "key": "3" } });
    assert_eq!(plane.request("PATCH", &one, MERGE, &patch).await.0, 409);
    let patch = json!({ "metadata": { "uid": "other" } });
    assert_eq!(plane.request("PATCH", &one, MERGE, &patch).await.0, 409);
    let right = json!({ "preconditions": { "uid": object["metadata"]["uid"] } });
    assert_eq!(plane.delete(&one, right).await.0, 200);
}

#[rstest]
#[case("Strict", 400, 0)]
#[case("Warn", 201, 1)]
#[case("Ignore", 201, 0)]
#[tokio::test]
async fn unknown_and_repeated_fields_are_treated_as_asked(
    #[case] validation: &str,
    #[case] code: u16,
    #[case] warnings: usize,
    #[values(r#""nonsense":1"#, r#""size":1,"size":2"#)] fields: &str,
) {
    let plane = Plane::start().await;
    plane.post(DEFINITIONS, gadgets()).await;
    let mut wrong = gadget("g");
    wrong["spec"] = json!({ "nonsense": 1 });
    let wrong = wrong.to_string().replace(r#""nonsense":1"#, fields);
    let request = http::Request::post(format!("{GADGETS}?fieldValidation={validation}"))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(wrong))
        .expect("a request");
    let router = plane.server.local(astrago_apiserver::Identity::admin());
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), code);
    assert_eq!(
        response.headers().get_all("warning").iter().count(),
        warnings
    );
}

#[tokio::test]
async fn replicas_are_scaled_through_their_subresource() {
    let plane = Plane::start().await;
    plane.post(DEFINITIONS, gadgets()).await;
    plane.post(GADGETS, gadget("g")).await;
    let path = format!("{GADGETS}/g/scale");
    let (_, mut scale) = plane.get(&path).await;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(
        plane
            .request("PUT", &path, "application/json", &scale)
            .await
            .0,
        200
    );
    assert_eq!(
        plane
            .request("PUT", &path, "application/json", &scale)
            .await
            .0,
        409,
        "stale"
    );
    let patch = json!({ "spec": { "replicas": -1 } });
    assert_eq!(plane.request("PATCH", &path, MERGE, &patch).await.0, 422);
    let stored = plane.get(&format!("{GADGETS}/g")).await.1;
    assert_eq!(stored["spec"]["replicas"], 5);
    assert_eq!(stored["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_pod_that_is_bound_is_what_its_user_asked_for() {
    let plane = Plane::start().await;
    let pod = json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(plane.post(pods, pod).await.0, 201);
    let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } });
    let (code, answer) = plane.post(&format!("{pods}/p/binding"), binding).await;
    assert_eq!(code, 201, "{answer}");
    let bound = plane.get(&format!("{pods}/p")).await.1;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["generation"], 1);
}

#[tokio::test]
async fn all_served_versions_show_the_same_objects() {
    let plane = Plane::start().await;
    let mut definition = gadgets();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    beta["deprecated"] = true.into();
    let mut unserved = beta.clone();
    unserved["name"] = "v1alpha1".into();
    unserved["served"] = false.into();
    let versions = definition["spec"]["versions"]
        .as_array_mut()
        .expect("versions");
    versions.extend([beta, unserved]);
    assert_eq!(plane.post(DEFINITIONS, definition).await.0, 201);
    let old = GADGETS.replace("/v1/", "/v1beta1/");
    let mut object = gadget("g");
    object["apiVersion"] = "example.org/v1beta1".into();
    let (code, made) = plane.post(&old, object).await;
    assert_eq!(
        (code, &made["apiVersion"]),
        (201, &json!("example.org/v1beta1"))
    );
    let stored = plane.get(&format!("{GADGETS}/g")).await.1;
    assert_eq!(stored["apiVersion"], "example.org/v1");
    assert_eq!(stored["metadata"]["uid"], made["metadata"]["uid"]);
    let patch = json!({ "spec": { "size": 4 } });
    plane
        .request("PATCH", &format!("{GADGETS}/g"), MERGE, &patch)
        .await;
    let list = plane.get(&old).await.1;
    assert_eq!(list["items"][0]["spec"]["size"], 4);
    assert_eq!(list["items"][0]["apiVersion"], "example.org/v1beta1");
    let unserved = GADGETS.replace("/v1/", "/v1alpha1/");
    assert_eq!(plane.get(&unserved).await.0, 404);
    let status = plane
        .get(&format!("{DEFINITIONS}/gadgets.example.org"))
        .await
        .1;
    assert_eq!(status["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn a_watch_may_begin_with_what_is_there() {
    use futures::StreamExt as _;
    let plane = with_maps(2).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&labelSelector=app=x";
    let request = http::Request::get(format!("{MAPS}?{query}"))
        .body(axum::body::Body::empty())
        .expect("a request");
    let router = plane.server.local(astrago_apiserver::Identity::admin());
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("an answer");
    let mut frames = response.into_body().into_data_stream();
    let mut text = String::new();
    let end = "k8s.io/initial-events-end";
    while !text.contains(end) {
        let frame = frames.next().await.expect("more").expect("a frame");
        text.push_str(&String::from_utf8_lossy(&frame));
    }
    plane.post(MAPS, config_map("m9", "1")).await;
    while !text.contains("m9") {
        let frame = frames.next().await.expect("more").expect("a frame");
        text.push_str(&String::from_utf8_lossy(&frame));
    }
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(kinds, ["ADDED", "ADDED", "BOOKMARK", "ADDED"]);
}

#[tokio::test]
async fn selectors_name_the_fields_of_an_event_as_its_group_does() {
    let plane = Plane::start().await;
    let (core, new) = ("/api/v1", "/apis/events.k8s.io/v1");
    let event = json!({ "metadata": { "name": "e" }, "eventTime": "2026-01-01T00:00:00.000000Z", "note": "hello",
        "reason": "r", "type": "Normal", "action": "a", "reportingController": "c", "reportingInstance": "i",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" } });
    let path = format!("{new}/namespaces/default/events");
    let (code, made) = plane.post(&path, event).await;
    assert_eq!(code, 201, "{made}");
    for (group, selector, want) in [
        (
            new,
            "reportingController=c,regarding.name=p,reason=r",
            Some(1),
        ),
        (new, "reportingController!=c", Some(0)),
        (new, "reportingComponent=c", None),
        (new, "involvedObject.name=p", None),
        (core, "reportingComponent=c,involvedObject.name=p", Some(1)),
        (core, "reportingController=c", None),
    ] {
        let query = selector.replace('=', "%3D");
        let (code, list) = plane
            .get(&format!("{group}/events?fieldSelector={query}"))
            .await;
        let found = (code == 200).then(|| list["items"].as_array().map_or(0, Vec::len));
        assert_eq!(found, want, "{group} {selector}: {list}");
    }
}

#[tokio::test]
async fn objects_show_the_defaults_that_their_definition_gained() {
    let plane = Plane::start().await;
    plane.post(DEFINITIONS, gadgets()).await;
    let (_, old) = plane.post(GADGETS, gadget("old")).await;
    let shape = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape";
    for default in ["round", "square"] {
        let path = format!("{DEFINITIONS}/gadgets.example.org");
        let patch = json!([{ "op": "add", "path": shape, "value": { "type": "string", "default": default } }]);
        let (code, answer) = plane
            .request("PATCH", &path, "application/json-patch+json", &patch)
            .await;
        assert_eq!(code, 200, "{answer}");
        let name = format!("made-{default}");
        plane.post(GADGETS, gadget(&name)).await;
    }
    let shape = |object: &Value| object["spec"]["shape"].clone();
    let (_, list) = plane.get(GADGETS).await;
    let shapes: Vec<_> = list["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(shape)
        .collect();
    assert_eq!(shapes, ["round", "square", "square"]);
    let (_, shown) = plane.get(&format!("{GADGETS}/old")).await;
    assert_eq!(shape(&shown), "square");
    assert_eq!(shown["metadata"], old["metadata"], "nothing was written");
}

#[rstest::rstest]
#[case::unknown(
    "metadata: {name: g, colour: 1}\nspec: {nonsense: 1}",
    &[".metadata.colour: field not declared in schema", ".spec.nonsense: field not declared in schema"]
)]
#[case::twice("metadata:\n  name: g\nspec:\n  size: 1\n  size: 2", &["line 7: key \"size\" already set in map"])]
#[tokio::test]
async fn a_configuration_with_wrong_fields_is_not_applied(
    #[case] rest: &str,
    #[case] want: &[&str],
) {
    let plane = Plane::start().await;
    plane.post(DEFINITIONS, gadgets()).await;
    let body = format!("apiVersion: example.org/v1\nkind: Gadget\n{rest}\n");
    let path = format!("{GADGETS}/g?fieldManager=me&fieldValidation=Strict");
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(axum::body::Body::from(body))
        .expect("a request");
    let router = plane.server.local(astrago_apiserver::Identity::admin());
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), 400);
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await;
    let status: Value = serde_json::from_slice(&bytes.expect("a body")).expect("a status");
    let message = status["message"].as_str().expect("a message");
    for part in want {
        assert!(message.contains(part), "{message}");
    }
}
