//! A private server for each test.

use astrago_apiserver::{Identity, Options, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Plane {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Server::open(Self::options(&directory))
            .await
            .expect("the server opens");
        Self { server, directory }
    }

    pub(crate) fn options(directory: &TempDir) -> Options {
        let mut options = Options::new(directory.path());
        options.admin_tokens = vec!["secret-token".to_owned()];
        "kubelet-token".clone_into(&mut options.kubelet_token);
        options
    }

    /// Closes the server and opens its directory again.
    pub(crate) async fn restart(self) -> Self {
        self.server.close().await;
        let Self { server, directory } = self;
        drop(server);
        let server = Server::open(Self::options(&directory))
            .await
            .expect("the server opens again");
        Self { server, directory }
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.client_as(Identity::admin())
    }

    pub(crate) fn client_as(&self, identity: Identity) -> kube::Client {
        kube::Client::new(self.server.local(identity), "default")
    }

    /// One request of the administrator, without a client in between.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let headers = [("content-type", content_type)];
        self.request_full(&Identity::admin(), method, path, &headers, body)
            .await
    }

    /// One request of somebody.
    pub(crate) async fn request_as(
        &self,
        identity: &Identity,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        self.request_full(identity, method, path, &[], body).await
    }

    /// One request of somebody, with headers.
    pub(crate) async fn request_full(
        &self,
        identity: &Identity,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        send(
            self.server.local(identity.clone()),
            method,
            path,
            headers,
            body,
        )
        .await
    }

    /// A post of an empty object with a bearer token, as from outside.
    pub(crate) async fn request_with_token(&self, token: &str, path: &str) -> (u16, Value) {
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str())];
        send(self.server.router(), "POST", path, &headers, &json!({})).await
    }

    /// The answer to a get, as text.
    pub(crate) async fn text(&self, path: &str) -> (u16, String) {
        let request = http::Request::get(path)
            .body(axum::body::Body::empty())
            .expect("a request");
        let router = self.server.local(Identity::admin());
        let response = tower::ServiceExt::oneshot(router, request)
            .await
            .expect("routers do not fail");
        let code = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("a body");
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, "", &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.request("POST", path, "application/json", &body).await
    }

    pub(crate) async fn delete(&self, path: &str, body: Value) -> (u16, Value) {
        self.request("DELETE", path, "application/json", &body)
            .await
    }
}

async fn send(
    router: axum::Router,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(axum::body::Body::from(body))
        .expect("a valid request");
    let response = tower::ServiceExt::oneshot(router, request)
        .await
        .expect("routers do not fail");
    let code = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a whole body");
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Waits until `holds`, and fails with `what` when it does not within ten seconds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let within = tokio::time::timeout(std::time::Duration::from_secs(10), waiting).await;
    assert!(within.is_ok(), "{what}: not within ten seconds");
}

/// A definition whose objects may hold anything, with a status.
pub(crate) fn gadgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.example.org" },
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                }},
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "description": "What is wanted.",
                            "properties": {
                                "size": { "type": "integer", "minimum": 0, "description": "How big." },
                                "color": { "type": "string", "default": "grey" },
                                "replicas": { "type": "integer" },
                            },
                        },
                        "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    },
                }},
            }],
        },
    })
}
