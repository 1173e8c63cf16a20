//! Who may do what, for every operation of the document. An operation without a case here fails.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site, form_a};

/// Who an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Everybody, with or without a token.
    Anyone,
    /// Whoever has a token; what they see is their own.
    Users,
    /// Those who may use the namespace, and administrators.
    Namespace,
    /// The same, but what the test asks for is turned down once the right was checked.
    InVain,
    /// Administrators.
    Administrators,
}

/// A case: the operation, who it is for, the query, and the body. `{job}`, `{token}` and `{webhook}` stand
/// for things of kim's that are made for each request.
type Case = (&'static str, For, &'static str, Option<fn() -> Value>);

const OWN: &str = "?namespace=user-kim";

fn create_body() -> Value {
    form_a("kim", "user-kim")
}

fn cases() -> Vec<Case> {
    use For::{Administrators, Anyone, InVain, Namespace, Users};
    vec![
        (
            "POST /api/trainjob/create",
            Namespace,
            "",
            Some(create_body),
        ),
        (
            "POST /api/trainjob/preview",
            Namespace,
            "",
            Some(create_body),
        ),
        ("POST /api/fit", Namespace, "", Some(create_body)),
        ("GET /api/trainjob/{name}/status", Namespace, OWN, None),
        ("GET /api/trainjob/{name}/logs", Namespace, OWN, None),
        ("DELETE /api/trainjob/{name}", Namespace, OWN, None),
        ("GET /api/trainjobs", Users, "", None),
        ("GET /api/trainjobs/stream", Users, "", None),
        ("GET /api/trainjobs/{name}", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/events", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/metrics", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/usage", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/manifest", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/clone", Namespace, OWN, None),
        ("GET /api/trainjobs/{name}/logs", Namespace, OWN, None),
        (
            "GET /api/trainjobs/{name}/logs/search",
            Namespace,
            "?namespace=user-kim&q=x",
            None,
        ),
        (
            "GET /api/trainjobs/{name}/logs/download",
            Namespace,
            OWN,
            None,
        ),
        (
            "GET /api/trainjobs/{name}/logs/stream",
            Namespace,
            OWN,
            None,
        ),
        ("GET /api/trainjobs/{name}/logs/page", Namespace, OWN, None),
        (
            "GET /api/trainjobs/{name}/logs/attempts",
            Namespace,
            OWN,
            None,
        ),
        ("GET /api/trainjobs/{name}/code", Namespace, OWN, None),
        // No WebSocket.
        ("GET /api/trainjobs/{name}/exec", InVain, OWN, None),
        (
            "GET /api/trainjobs/{name}/port-forward",
            InVain,
            "?namespace=user-kim&port=80",
            None,
        ),
        // No node of ours runs it.
        ("GET /api/trainjobs/{name}/stacks", InVain, OWN, None),
        // JSON is not an archive.
        ("POST /api/snapshots", InVain, OWN, Some(|| json!({}))),
        ("GET /api/snapshots/{digest}", InVain, OWN, None),
        ("POST /api/trainjobs/{name}/suspend", Namespace, OWN, None),
        ("POST /api/trainjobs/{name}/resume", Namespace, OWN, None),
        ("POST /api/trainjobs/{name}/restart", Namespace, OWN, None),
        (
            "PUT /api/trainjobs/{name}/notes",
            Namespace,
            OWN,
            Some(|| json!({ "note": "better", "tags": ["sweep"] })),
        ),
        ("GET /api/cluster", Users, "", None),
        ("GET /api/nodes", Users, "", None),
        ("GET /api/nodes/{name}/usage", Users, "", None),
        ("GET /api/queue", Users, "", None),
        ("GET /api/priorities", Users, "", None),
        ("GET /api/runtimes", Users, "", None),
        ("GET /api/runtimes/{name}", Users, "", None),
        ("GET /api/runtimes/{name}/manifest", Users, "", None),
        (
            "POST /api/runtimes/{name}/copy",
            Administrators,
            "",
            Some(|| json!({ "name": "{unique}" })),
        ),
        (
            "PUT /api/runtimes/{name}/max-restarts",
            Administrators,
            "",
            Some(|| json!({ "max_restarts": 3 })),
        ),
        ("GET /api/namespaces", Users, "", None),
        // Users may only have namespaces of their own name.
        (
            "POST /api/namespaces",
            Administrators,
            "",
            Some(|| json!({ "name": "{unique}" })),
        ),
        ("GET /api/namespaces/{name}/quota", Namespace, "", None),
        (
            "PUT /api/namespaces/{name}/quota",
            Administrators,
            "",
            Some(|| json!({ "hard": { "requests.cpu": "8" } })),
        ),
        ("GET /api/volumes", Namespace, OWN, None),
        (
            "POST /api/volumes",
            Namespace,
            "",
            Some(|| json!({ "namespace": "user-kim", "name": "{unique}", "size": "1Gi" })),
        ),
        ("GET /api/secrets", Namespace, OWN, None),
        (
            "POST /api/secrets",
            Namespace,
            "",
            Some(
                || json!({ "namespace": "user-kim", "name": "kimjob-secret", "data": { "k": "v" } }),
            ),
        ),
        (
            "POST /api/apply",
            Namespace,
            OWN,
            Some(|| {
                json!({ "apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": { "name": "kimjob-map", "namespace": "user-kim" } })
            }),
        ),
        ("GET /api/webhooks", Namespace, OWN, None),
        (
            "POST /api/webhooks",
            Namespace,
            OWN,
            Some(|| json!({ "url": "https://kimjob.example.com/" })),
        ),
        ("DELETE /api/webhooks/{id}", Namespace, "", None),
        ("POST /api/webhooks/{id}/test", Namespace, "", None),
        ("GET /api/version", Anyone, "", None),
        ("GET /metrics", Administrators, "", None),
        ("GET /api/whoami", Users, "", None),
        ("GET /api/session", Anyone, "", None),
        (
            "POST /api/session",
            Anyone,
            "",
            Some(|| json!({ "token": ADMIN })),
        ),
        ("DELETE /api/session", Anyone, "", None),
        ("GET /api/users", Administrators, "", None),
        (
            "POST /api/users",
            Administrators,
            "",
            Some(|| json!({ "name": "{unique}" })),
        ),
        ("DELETE /api/users/{name}", Administrators, "", None),
        ("GET /api/audit", Administrators, "", None),
        ("GET /api/tokens", Users, "", None),
        (
            "POST /api/tokens",
            Users,
            "",
            Some(|| json!({ "name": "one more" })),
        ),
        ("DELETE /api/tokens/{id}", Namespace, "", None),
    ]
}

/// The operations of the document, as `GET /api/…`.
async fn operations(site: &Site) -> BTreeSet<String> {
    let document = site.get("/api/openapi.json", "").await.ok();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, operations)| {
            let methods = operations.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect()
}

/// A site where kim has things, and what has been made for single requests.
struct Walk {
    site: Site,
    kim: String,
    made: std::cell::Cell<usize>,
}

impl Walk {
    /// The path of an operation, with something of kim's that exists in the place of its parameter.
    async fn path(&self, operation: &str) -> String {
        let number = self.made.get();
        self.made.set(number + 1);
        let path = operation.split_once(' ').unwrap().1;
        if path.contains("/trainjob") && path.contains("{name}") {
            let name = format!("kimjob{number}");
            let mut form = create_body();
            form["name"] = json!(name);
            self.site
                .post("/api/trainjob/create", &self.kim, &form)
                .await
                .ok();
            let status = format!("/api/trainjob/{name}/status{OWN}");
            self.site.until(&status, &self.kim, |_| true).await;
            return path.replace("{name}", &name);
        }
        let replacement = match path {
            "/api/snapshots/{digest}" => {
                return format!("/api/snapshots/sha256:{}", "0".repeat(64));
            }
            "/api/nodes/{name}/usage" => "node-a".to_owned(),
            "/api/runtimes/{name}"
            | "/api/runtimes/{name}/manifest"
            | "/api/runtimes/{name}/copy"
            | "/api/runtimes/{name}/max-restarts" => "pytorch-simple".to_owned(),
            "/api/namespaces/{name}/quota" => "user-kim".to_owned(),
            "/api/users/{name}" => {
                let name = format!("guest{number}");
                self.site.user(&name).await;
                name
            }
            "/api/tokens/{id}" => {
                let body = json!({ "name": "kimjob" });
                let made = self.site.post("/api/tokens", &self.kim, &body).await.ok();
                made["id"].as_str().unwrap().to_owned()
            }
            "/api/webhooks/{id}" | "/api/webhooks/{id}/test" => {
                // Nothing listens there, and a test tells so.
                let body = json!({ "url": "https://kimjob.invalid/" });
                let path = format!("/api/webhooks{OWN}");
                let made = self.site.post(&path, &self.kim, &body).await.ok();
                made["id"].as_str().unwrap().to_owned()
            }
            _ => return path.to_owned(),
        };
        path.replace("{name}", &replacement)
            .replace("{id}", &replacement)
    }

    async fn call(&self, (operation, _, query, body): &Case, token: &str) -> (StatusCode, String) {
        let path = self.path(operation).await;
        let method: Method = operation.split_once(' ').unwrap().0.parse().unwrap();
        let unique = format!("kimjob-{}", self.made.get());
        let body = body.map(|body| {
            let text = body().to_string().replace("{unique}", &unique);
            serde_json::from_str::<Value>(&text).unwrap()
        });
        let answer = self
            .site
            .request(method, &format!("{path}{query}"), token, body.as_ref(), &[])
            .await;
        (answer.status, answer.text)
    }
}

#[tokio::test]
async fn every_operation_is_only_for_whom_it_is_for() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let known = operations(&site).await;
    let cases = cases();
    let covered: BTreeSet<String> = cases.iter().map(|case| case.0.to_owned()).collect();
    let missing: Vec<_> = known.difference(&covered).collect();
    assert!(missing.is_empty(), "operations without a case: {missing:?}");
    let stale: Vec<_> = covered.difference(&known).collect();
    assert!(stale.is_empty(), "cases without an operation: {stale:?}");

    let walk = Walk {
        site,
        kim: kim.clone(),
        made: std::cell::Cell::new(0),
    };
    let mut wrong = Vec::new();
    for case in &cases {
        let (operation, whom) = (case.0, case.1);
        let callers = [
            ("nobody", ""),
            ("an intruder", "guessed"),
            ("lee", &lee),
            ("kim", &kim),
            ("admin", ADMIN),
        ];
        for (who, token) in callers {
            let (status, text) = walk.call(case, token).await;
            let allowed = match (whom, who) {
                (For::Anyone, _) => status.is_success(),
                (_, "nobody" | "an intruder") => status == StatusCode::UNAUTHORIZED,
                (For::Administrators, "lee" | "kim") | (For::InVain, "lee") => {
                    status == StatusCode::FORBIDDEN
                }
                (For::Namespace, "lee") => {
                    matches!(status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
                }
                (For::InVain, _) => matches!(
                    status,
                    StatusCode::BAD_REQUEST
                        | StatusCode::CONFLICT
                        | StatusCode::NOT_FOUND
                        | StatusCode::UNPROCESSABLE_ENTITY
                ),
                (For::Users, "lee") => status.is_success() && !text.contains("kimjob"),
                _ => status.is_success(),
            };
            if !allowed {
                wrong.push(format!("{operation} ({whom:?}) as {who}: {status} {text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_cookie_is_refused_from_another_site_and_signs_in_from_its_own() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let signed_in = site
        .send(
            Method::POST,
            "/api/session",
            "",
            Some(&json!({ "token": kim })),
            &[],
        )
        .await;
    let cookie = signed_in.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let create = async |origin: &str| {
        let headers = [("cookie", cookie), ("origin", origin)];
        let form = form_a("kim", "user-kim");
        let answer = site
            .request(
                Method::POST,
                "/api/trainjob/create",
                "",
                Some(&form),
                &headers,
            )
            .await;
        answer.status
    };
    assert_eq!(create("https://evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(create("null").await, StatusCode::FORBIDDEN);
    assert_eq!(create("http://localhost").await, StatusCode::OK);
}
