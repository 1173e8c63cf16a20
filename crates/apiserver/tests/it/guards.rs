//! What keeps the server in order: limits per user and body, the audit log, certificates, health.

use std::os::unix::fs::PermissionsExt as _;

use astrago_apiserver::{ExtraGroup, Identity, Limits, Server};
use serde_json::{Value, json};

use crate::plane::{Plane, eventually};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn limited(limits: Limits) -> Plane {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Plane::options(&directory);
    options.limits = limits;
    options.audit_log = Some(directory.path().join("audit.log"));
    let server = Server::open(options).await.expect("the server opens");
    Plane { server, directory }
}

async fn reader(plane: &Plane) -> Identity {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "ann" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io" }],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(plane.post(path, binding).await.0, 201);
    Identity::user("ann", &[])
}

#[tokio::test]
async fn a_user_has_only_so_many_watches_and_gets_them_back() {
    let plane = limited(Limits {
        requests: 10,
        watches: 2,
    })
    .await;
    let ann = reader(&plane).await;
    let watch = async || {
        let request = http::Request::get(format!("{MAPS}?watch=true"))
            .body(axum::body::Body::empty())
            .expect("a request");
        tower::ServiceExt::oneshot(plane.server.local(ann.clone()), request)
            .await
            .expect("routers do not fail")
    };
    let (first, second) = (watch().await, watch().await);
    assert_eq!(
        (first.status().as_u16(), second.status().as_u16()),
        (200, 200)
    );
    let refused = watch().await;
    assert_eq!(refused.status().as_u16(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    // Others and reads are not touched by it.
    assert_eq!(plane.get(&format!("{MAPS}?limit=1")).await.0, 200);
    assert_eq!(
        plane.request_as(&ann, "GET", MAPS, &Value::Null).await.0,
        200
    );
    drop(first);
    assert_eq!(watch().await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_body_may_have_three_mebibytes() {
    let plane = Plane::start().await;
    let mut large = config_map("large");
    large["data"] = json!({ "a": "x".repeat(3 << 20) });
    let (code, answer) = plane.post(MAPS, large).await;
    assert_eq!(code, 413, "{answer}");
    assert_eq!(answer["reason"], "RequestEntityTooLarge");
}

#[tokio::test]
async fn the_audit_log_names_who_wrote_what() {
    let plane = limited(Limits::default()).await;
    let ann = reader(&plane).await;
    plane
        .request_full(
            &ann,
            "POST",
            MAPS,
            &[("content-type", "application/json")],
            &config_map("a"),
        )
        .await;
    plane
        .request_as(&ann, "DELETE", "/api/v1/nodes/n", &Value::Null)
        .await;
    plane.get(MAPS).await;
    let path = plane.directory.path().join("audit.log");
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Value| line["user"] == "ann")
            .collect()
    };
    eventually("two lines of ann", async || lines().len() == 2).await;
    let lines = lines();
    assert_eq!(lines[0]["verb"], "create");
    assert_eq!(lines[0]["path"], MAPS);
    assert_eq!(lines[0]["code"], 201);
    assert_eq!(lines[1]["code"], 403, "refused attempts are on record, too");
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_says_who_one_is() {
    let Some(cluster) = crate::kubectl::Cluster::start().await else {
        return;
    };
    let server = &cluster.plane.server;
    let (certificate, key) = server
        .client_certificate("carol", &["trainers"])
        .expect("a certificate");
    let folder = cluster.plane.directory.path();
    std::fs::write(folder.join("carol.crt"), certificate).expect("a file");
    std::fs::write(folder.join("carol.key"), key).expect("a file");
    std::fs::write(folder.join("authority.crt"), server.ca_pem()).expect("a file");
    let line = format!(
        "--kubeconfig=/dev/null --server={} --certificate-authority={1}/authority.crt \
         --client-certificate={1}/carol.crt --client-key={1}/carol.key",
        cluster.url,
        folder.display()
    );
    let said = cluster.ok(&format!("{line} auth whoami")).await;
    assert!(
        said.contains("carol") && said.contains("trainers"),
        "{said}"
    );
    let refused = cluster.fails(&format!("{line} get pods")).await;
    assert!(
        refused.contains("User \"carol\" cannot list resource \"pods\""),
        "{refused}"
    );
}

#[tokio::test]
async fn health_version_and_metrics_answer() {
    let plane = Plane::start().await;
    for path in ["/readyz", "/livez", "/healthz"] {
        assert_eq!(plane.text(path).await, (200, "ok".to_owned()));
    }
    assert_eq!(plane.get("/version").await.1["major"], "1");
    plane.post(MAPS, config_map("a")).await;
    let metrics = plane.text("/metrics").await.1;
    assert!(metrics.contains("apiserver_request_total"), "{metrics}");
}

#[tokio::test]
async fn a_request_that_panics_is_answered_with_500_and_the_others_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Plane::options(&directory);
    let handler = async || -> &'static str { unreachable!("a bug") };
    options.extra_groups.push(ExtraGroup {
        group: "example.org".to_owned(),
        version: "v1".to_owned(),
        resources: Vec::new(),
        router: axum::Router::new().fallback(handler),
    });
    let server = Server::open(options).await.expect("the server opens");
    let plane = Plane { server, directory };
    for _ in 0..3 {
        let (code, answer) = plane.get("/apis/example.org/v1/bugs").await;
        assert_eq!(code, 500, "{answer}");
        assert_eq!(answer["kind"], "Status", "{answer}");
    }
    assert_eq!(plane.post(MAPS, config_map("a")).await.0, 201);
    assert_eq!(plane.text("/readyz").await.0, 200);
}
