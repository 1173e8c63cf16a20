//! The API on an in-process plane, and requests to it.

use std::sync::Arc;

use astrago_apiserver::Identity;
use astrago_rest::{Options, Rest};
use astrago_testkit::{Plane, eventually};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The administrator's token.
pub(crate) const ADMIN: &str = "token-of-the-administrator";

/// A REST API with its API server. Controllers run when the test starts them.
pub(crate) struct Site {
    pub(crate) plane: Plane,
    pub(crate) router: Router,
    /// Where pods report.
    pub(crate) reports: Router,
    rest: Rest,
    stop: CancellationToken,
    folder: TempDir,
}

/// An answer: its status, its body, and the body as JSON where it is.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl Fn(&mut Options)) -> Self {
        let plane = Plane::start().await;
        for runtime in astrago_plan::built_in_runtimes() {
            plane.create_cluster(runtime).await;
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "astrago.io/token",
            "metadata": { "name": "root", "namespace": "kube-system" },
            "stringData": { "user": "admin", "groups": "system:masters", "token": ADMIN },
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        plane.create(&secret).await;
        let folder = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let rest = serve(&plane, &folder, &stop, &change).await;
        Self {
            router: rest.router(),
            reports: rest.reports(),
            plane,
            rest,
            stop,
            folder,
        }
    }

    /// Ends the REST API; the rest of the plane goes on.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.rest.stopped().await;
    }

    /// Where the REST API keeps what remains of jobs.
    pub(crate) fn history(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Ends the REST API and restarts it on the same data.
    pub(crate) async fn restart_with(&mut self, change: impl Fn(&mut Options)) {
        self.stop().await;
        self.stop = CancellationToken::new();
        self.rest = serve(&self.plane, &self.folder, &self.stop, &change).await;
        self.router = self.rest.router();
    }

    /// Adds a user and returns their token.
    pub(crate) async fn user(&self, name: &str) -> String {
        let answer = self
            .post("/api/users", ADMIN, &json!({ "name": name }))
            .await
            .ok();
        answer["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Answer {
        self.request(Method::GET, path, token, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> Answer {
        self.request(Method::POST, path, token, Some(body), &[])
            .await
    }

    pub(crate) async fn delete(&self, path: &str, token: &str) -> Answer {
        self.request(Method::DELETE, path, token, None, &[]).await
    }

    /// A request with a token, or without one when it is empty.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let response = self.send(method, path, token, body, headers).await;
        let status = response.status();
        // What is sent as it happens has no end to wait for.
        let live = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind == "text/event-stream");
        let bytes = if live {
            bytes::Bytes::new()
        } else {
            response.into_body().collect().await.unwrap().to_bytes()
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer {
            status,
            json: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost");
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let request = request.body(body).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// A Kubernetes client of a user, as their kubectl would be.
    pub(crate) fn kube(&self, user: &str) -> Client {
        Client::new(
            self.plane.server().local(Identity::user(user, &[])),
            "default",
        )
    }

    /// The names of everything that a create request could have made, in all namespaces.
    pub(crate) async fn traces(&self) -> Vec<String> {
        let client = || self.plane.client.clone();
        let everything = ListParams::default();
        let jobs: Api<astrago_api::TrainJob> = Api::all(client());
        let maps: Api<ConfigMap> = Api::all(client());
        let claims: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> = Api::all(client());
        let namespaces: Api<Namespace> = Api::all(client());
        let mut names = Vec::new();
        let mut add = |kind: &str, name: String| names.push(format!("{kind}/{name}"));
        for job in jobs.list(&everything).await.unwrap() {
            add("trainjob", job.name_any());
        }
        for map in maps.list(&everything).await.unwrap() {
            add("configmap", map.name_any());
        }
        for claim in claims.list(&everything).await.unwrap() {
            add("claim", claim.name_any());
        }
        for namespace in namespaces.list(&everything).await.unwrap() {
            add("namespace", namespace.name_any());
        }
        names.sort();
        names
    }

    /// Waits until a GET answers with what `check` looks for.
    pub(crate) async fn until(
        &self,
        path: &str,
        token: &str,
        check: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(path, || async {
            let answer = self.get(path, token).await;
            if answer.status == StatusCode::OK && check(&answer.json) {
                Ok(answer.json)
            } else {
                Err(format!("{} {}", answer.status, answer.text))
            }
        })
        .await
    }
}

impl Answer {
    /// The body of an answer that must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json
    }

    /// The fields that a refusal names.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let fields = self.json["error"]["fields"].as_array();
        fields
            .into_iter()
            .flatten()
            .filter_map(|field| field["field"].as_str())
            .collect()
    }
}

async fn serve(
    plane: &Plane,
    folder: &TempDir,
    stop: &CancellationToken,
    change: impl Fn(&mut Options),
) -> Rest {
    let client = Client::new(
        plane.server().local(Identity::component("astrago")),
        "default",
    );
    let mut options = Options::new(client, folder.path());
    let clock = plane.clock.clone();
    options.clock = Arc::new(move || clock.now());
    // Time stands still here, so limits would never fill up again; the tests of limits set their own.
    options.limits = None;
    change(&mut options);
    Rest::start(options, stop.clone()).await.unwrap()
}

/// The request of the first form.
pub(crate) fn form_a(user: &str, namespace: &str) -> Value {
    json!({
        "user_id": user, "namespace": namespace, "framework": "pytorch",
        "training_code": "print('training')",
        "config": { "num_nodes": 2, "gpu_per_node": 0, "cpu_per_node": 1, "memory_per_node": "1Gi" },
    })
}

/// The request of the second form.
pub(crate) fn form_b(user: &str, namespace: &str) -> Value {
    json!({
        "user_id": user, "namespace": namespace, "framework": "tensorflow",
        "training_code": "print('training')", "image": "tensorflow/tensorflow:2.15.0", "num_nodes": 2,
        "cpu_request": "1", "cpu_limit": "2", "memory_request": "1Gi", "memory_limit": "2Gi", "gpu_count": 1,
        "command": "python3 /workspace/scripts/train.py",
        "env_vars": [{ "name": "EPOCHS", "value": "3" }],
        "volumes": [{ "name": "data", "pvc": "data", "mountPath": "/data", "readOnly": true }],
    })
}
