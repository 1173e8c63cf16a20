//! What is sent as it happens ends when its reader may no longer ask for it.

use astrago_apiserver::Identity;
use axum::body::BodyDataStream;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::plane::Plane;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn secret(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

async fn grant(plane: &Plane) {
    let binding = json!({
        "metadata": { "name": "ann" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    assert_eq!(plane.post(BINDINGS, binding).await.0, 201);
}

async fn watch(router: axum::Router, headers: &[(&str, &str)]) -> BodyDataStream {
    let mut request = http::Request::get(format!("{SECRETS}?watch=true"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(axum::body::Body::empty()).expect("a request");
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), 200);
    response.into_body().into_data_stream()
}

/// Reads until a name is seen.
async fn sees(stream: &mut BodyDataStream, name: &str) {
    let mut text = String::new();
    while !text.contains(name) {
        let frame = stream.next().await.expect("more").expect("a frame");
        text.push_str(&String::from_utf8_lossy(&frame));
    }
}

/// Everything until the end.
async fn rest(mut stream: BodyDataStream) -> String {
    let mut text = String::new();
    while let Some(frame) = stream.next().await {
        text.push_str(&String::from_utf8_lossy(&frame.expect("a frame")));
    }
    text
}

#[tokio::test]
async fn a_watch_ends_with_the_right_to_it() {
    let plane = Plane::start().await;
    grant(&plane).await;
    let mut stream = watch(plane.server.local(Identity::user("ann", &[])), &[]).await;
    plane.post(SECRETS, secret("before")).await;
    sees(&mut stream, "before").await;
    plane.delete(&format!("{BINDINGS}/ann"), json!({})).await;
    plane.post(SECRETS, secret("after")).await;
    assert_eq!(
        rest(stream).await,
        "",
        "nothing that came after it was taken"
    );
}

#[tokio::test]
async fn a_watch_ends_with_its_token() {
    use base64::Engine as _;
    let plane = Plane::start().await;
    grant(&plane).await;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let token = json!({
        "metadata": { "name": "ann" }, "type": "astrago.io/token",
        "data": { "user": encode("ann"), "token": encode("s3cret") },
    });
    let tokens = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(plane.post(tokens, token).await.0, 201);
    let headers = [("authorization", "Bearer s3cret")];
    let mut stream = watch(plane.server.router(), &headers).await;
    plane.post(SECRETS, secret("before")).await;
    sees(&mut stream, "before").await;
    plane.delete(&format!("{tokens}/ann"), json!({})).await;
    plane.post(SECRETS, secret("after")).await;
    assert_eq!(rest(stream).await, "");
}

#[tokio::test]
async fn other_changes_of_rights_leave_a_watch_alone() {
    let plane = Plane::start().await;
    grant(&plane).await;
    let admin = [
        ("authorization", "Bearer secret-token"),
        ("impersonate-user", "ann"),
    ];
    let mut stream = watch(plane.server.router(), &admin).await;
    let role = json!({ "metadata": { "name": "other" }, "rules": [] });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(plane.post(roles, role).await.0, 201);
    plane.post(SECRETS, secret("after")).await;
    sees(&mut stream, "after").await;
}
