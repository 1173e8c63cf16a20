use std::os::unix::net::UnixListener;
use std::path::Path;

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;

use super::*;
use crate::control::{self, Channel, ContainerStats, Response, Stats, Usage};

/// Answers requests for numbers; each answer has used a tenth of a second more.
fn supervise(listener: UnixListener) {
    std::thread::spawn(move || {
        for (count, connection) in (1..).zip(listener.incoming()) {
            let mut channel = Channel::new(connection.unwrap());
            let (request, _) = channel.receive::<control::Request>().unwrap().unwrap();
            assert_eq!(request, control::Request::Stats);
            let usage = Usage {
                cpu_nanoseconds: Some(count * 100_000_000),
                working_set_bytes: Some(64 << 20),
                ..Usage::default()
            };
            let container = ContainerStats {
                name: "main".into(),
                usage,
            };
            let stats = Stats {
                pod: Usage::default(),
                containers: vec![container],
            };
            // A caller that lost patience is no concern of this test.
            let _ = channel.send(&Response::Stats(stats), &[]);
        }
    });
}

/// An API server that knows one pod and one node.
fn cluster() -> kube::Client {
    let pod = json!({"metadata": {"name": "job-0", "namespace": "team", "uid": "uid-0",
        "labels": {"app": "job"}}});
    let node = json!({"metadata": {"name": "machine"}});
    let of = |kind: &str, item: &Value| json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": [item]});
    let (pods, nodes) = (of("PodList", &pod), of("NodeList", &node));
    let router = Router::new()
        .route("/api/v1/pods", get(move || async { Json(pods) }))
        .route(
            "/api/v1/namespaces/team/pods/job-0",
            get(move || async { Json(pod) }),
        )
        .route("/api/v1/nodes", get(move || async { Json(nodes) }));
    kube::Client::new(router, "default")
}

async fn request(router: &Router, path: &str) -> (u16, Value) {
    let request = Request::get(format!("/apis/metrics.k8s.io/v1beta1{path}"));
    let request = request.body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn pod(data_dir: &Path, uid: &str) -> UnixListener {
    let folder = crate::layout::pods(data_dir).join(uid);
    std::fs::create_dir_all(&folder).unwrap();
    control::listen(&folder).unwrap()
}

#[tokio::test]
async fn pods_and_nodes_show_what_they_use() {
    let directory = tempfile::tempdir().unwrap();
    supervise(pod(directory.path(), "uid-0"));
    // A pod whose supervisor died must not hinder the others.
    drop(pod(directory.path(), "uid-1"));
    let collector = Collector::new(directory.path(), "machine");
    let router = router(collector.clone());
    assert_eq!(request(&router, "/pods").await.0, 503);
    collector.connect(cluster());

    // The first request only begins the measurement of a pod that was never asked before.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let list = loop {
        let (status, list) = request(&router, "/pods?labelSelector=app%3Djob").await;
        assert_eq!(status, 200);
        if list["items"][0].is_object() {
            break list;
        }
        assert!(std::time::Instant::now() < deadline, "{list}");
    };
    let item = &list["items"][0];
    assert_eq!(item["metadata"]["name"], "job-0");
    assert_eq!(item["metadata"]["labels"]["app"], "job");
    assert_eq!(item["containers"][0]["usage"]["memory"], "65536Ki");
    let cpu = item["containers"][0]["usage"]["cpu"].as_str().unwrap();
    assert!(
        cpu.trim_end_matches('n').parse::<u64>().unwrap() > 0,
        "{cpu}"
    );

    let (status, one) = request(&router, "/namespaces/team/pods/job-0").await;
    assert_eq!((status, &one["kind"]), (200, &json!("PodMetrics")));
    let (status, nodes) = request(&router, "/nodes").await;
    assert_eq!(
        (status, &nodes["items"][0]["metadata"]["name"]),
        (200, &json!("machine"))
    );
    let (status, missing) = request(&router, "/nodes/other").await;
    assert_eq!((status, &missing["reason"]), (404, &json!("NotFound")));
}
