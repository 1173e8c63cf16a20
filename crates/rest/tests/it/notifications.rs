//! Webhooks: told, signed, tried again, and not used to reach what a user cannot.

use std::sync::{Arc, Mutex};

use astrago_api::TrainJob;
use astrago_testkit::eventually;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::post;
use http_body_util::BodyExt;
use kube::Api;
use kube::api::DeleteParams;
use ring::hmac;
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site, form_a};

type Received = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// What the receiver remembers, and what it is to answer.
type Both = (Received, Arc<Mutex<Vec<StatusCode>>>);

/// A receiver on this machine, which answers `status` and remembers what it was told.
struct Receiver {
    url: String,
    received: Received,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

impl Receiver {
    /// Answers with these, and with 200 afterwards.
    async fn start(answers: &[StatusCode]) -> Self {
        let received = Received::default();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let take =
            async |State((received, answers)): State<Both>, headers: HeaderMap, body: Bytes| {
                received.lock().unwrap().push((headers, body));
                let mut answers = answers.lock().unwrap();
                if answers.is_empty() {
                    StatusCode::OK
                } else {
                    answers.remove(0)
                }
            };
        let router = Router::new()
            .route("/hook", post(take))
            .with_state((Arc::clone(&received), Arc::clone(&answers)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            url,
            received,
            answers,
        }
    }

    /// The events that came so far, when there are at least `count`.
    async fn events(&self, count: usize) -> Vec<String> {
        eventually("notifications", || async {
            let received = self.received.lock().unwrap();
            let events: Vec<String> = received
                .iter()
                .map(|(_, body)| {
                    let body: Value = serde_json::from_slice(body).unwrap();
                    body["event"].as_str().unwrap().to_owned()
                })
                .collect();
            if events.len() >= count {
                Ok(events)
            } else {
                Err(format!("{events:?}"))
            }
        })
        .await
    }
}

/// A job of one node in the namespace that the fake node serves.
async fn job(site: &Site, name: &str) {
    let mut form = form_a("admin", "default");
    form["name"] = json!(name);
    form["config"]["num_nodes"] = json!(1);
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
}

async fn webhook(site: &Site, url: &str, events: &Value) -> Value {
    let body = json!({ "url": url, "secret": "a secret of sixteen", "events": events });
    site.post("/api/webhooks?namespace=default", ADMIN, &body)
        .await
        .ok()
}

#[tokio::test]
async fn the_end_of_a_job_is_told_once_with_a_valid_signature() {
    let site = Site::start_with(|options| options.private_webhooks = true).await;
    site.plane.run_controllers();
    let receiver = Receiver::start(&[]).await;
    let hook = webhook(&site, &receiver.url, &json!([])).await;
    assert_eq!(hook["secret"], "a secret of sixteen");
    job(&site, "demo").await;
    site.plane.node.succeed("demo-node-0", 0).await;
    assert_eq!(receiver.events(1).await, ["completed"]);
    {
        let received = receiver.received.lock().unwrap();
        let (headers, body) = &received[0];
        let text = |name: &str| headers[name].to_str().unwrap();
        let signed = format!(
            "{}.{}",
            text("x-astrago-timestamp"),
            std::str::from_utf8(body).unwrap()
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"a secret of sixteen");
        #[expect(clippy::format_collect, reason = "a few bytes")]
        let signature: String = hmac::sign(&key, signed.as_bytes())
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(text("x-astrago-signature"), format!("sha256={signature}"));
        assert_eq!(text("x-astrago-event"), "completed");
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(
            (&body["job"], &body["namespace"]),
            (&json!("demo"), &json!("default"))
        );
    }
    let listed = site
        .until("/api/webhooks?namespace=default", ADMIN, |list| {
            !list[0]["last_delivered_at"].is_null()
        })
        .await;
    assert!(listed[0].get("secret").is_none(), "{listed}");
    assert_eq!(listed[0]["pending"], 0);
}

#[tokio::test]
async fn what_happened_while_the_server_was_away_is_known_afterwards() {
    let private = |options: &mut astrago_rest::Options| options.private_webhooks = true;
    let mut site = Site::start_with(private).await;
    site.plane.run_controllers();
    let receiver = Receiver::start(&[]).await;
    webhook(&site, &receiver.url, &json!([])).await;
    job(&site, "ended").await;
    job(&site, "deleted").await;
    let mut deleted = Value::Null;
    for name in ["ended", "deleted"] {
        site.plane.node.running(&format!("{name}-node-0"), 0).await;
        let path = format!("/api/trainjobs/{name}?namespace=default");
        let running = |job: &Value| job["state"] == "Running";
        deleted = site.until(&path, ADMIN, running).await;
    }
    site.stop().await;
    // It was stopped in the middle of a log.
    let logs = site
        .history()
        .join("logs")
        .join(deleted["uid"].as_str().unwrap());
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(
        logs.join("00000.000000000010-0000.log"),
        "2025-11-05T13:00:00Z one\n",
    )
    .unwrap();
    let jobs: Api<TrainJob> = Api::namespaced(site.plane.client.clone(), "default");
    jobs.delete("deleted", &DeleteParams::default())
        .await
        .unwrap();
    site.plane.node.succeed("ended-node-0", 0).await;
    eventually("the end of the job", || async {
        let job = jobs.get("ended").await.unwrap();
        if job.is_finished() {
            Ok(())
        } else {
            Err(format!("{:?}", job.status))
        }
    })
    .await;

    site.restart_with(private).await;
    assert_eq!(receiver.events(1).await, ["completed"]);
    site.until("/api/trainjobs?archived=true", ADMIN, |list| {
        let jobs = list["items"].as_array().into_iter().flatten();
        jobs.filter(|job| job["name"] == "deleted").count() == 1
    })
    .await;
    // Whoever follows the log comes to its end.
    let stream = "/api/trainjobs/deleted/logs/stream?namespace=default";
    let stream = site.send(Method::GET, stream, ADMIN, None, &[]).await;
    let body = stream.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(body.contains("one"), "{body}");
}

#[tokio::test]
async fn failures_and_restarts_are_told_to_those_who_want_them() {
    let site = Site::start_with(|options| options.private_webhooks = true).await;
    site.plane.run_controllers();
    let (all, failures) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    webhook(&site, &all.url, &json!([])).await;
    webhook(&site, &failures.url, &json!(["failed"])).await;
    let mut form = form_a("admin", "default");
    form["name"] = json!("demo");
    form["config"]["num_nodes"] = json!(1);
    form["max_restarts"] = json!(1);
    // No log tells whether another attempt is worth it.
    form["retry"] = json!("all");
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    let first = site.plane.node.fail("demo-node-0", 0, 1).await;
    assert_eq!(all.events(1).await, ["restarted"]);
    eventually("the second attempt fails", || async {
        let pod = site.plane.node.running("demo-node-0", 0).await;
        if pod.metadata.uid == first.metadata.uid {
            return Err("the first one still is there");
        }
        site.plane.node.end_if_running("demo-node-0", 0, 1).await;
        Ok(())
    })
    .await;
    assert_eq!(all.events(2).await, ["restarted", "failed"]);
    assert_eq!(failures.events(1).await, ["failed"]);
}

#[tokio::test]
async fn what_was_not_delivered_is_tried_again_also_after_a_restart() {
    let mut site = Site::start_with(|options| options.private_webhooks = true).await;
    site.plane.run_controllers();
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    let receiver = Receiver::start(&[busy, busy]).await;
    webhook(&site, &receiver.url, &json!(["completed"])).await;
    job(&site, "demo").await;
    site.plane.node.succeed("demo-node-0", 0).await;
    receiver.events(1).await;
    let path = "/api/webhooks?namespace=default";
    let failed = site
        .until(path, ADMIN, |list| list[0]["last_error"].is_string())
        .await;
    assert_eq!(
        (&failed[0]["pending"], &failed[0]["last_error"]),
        (&json!(1), &json!("the receiver answered 503"))
    );
    site.plane.clock.advance(6);
    receiver.events(2).await;
    site.restart_with(|options| options.private_webhooks = true)
        .await;
    site.plane.clock.advance(20);
    receiver.events(3).await;
    site.until(path, ADMIN, |list| {
        list[0]["pending"] == 0 && list[0]["last_error"].is_null()
    })
    .await;
    let ids: Vec<String> = {
        let received = receiver.received.lock().unwrap();
        let id = |headers: &HeaderMap| headers["x-astrago-delivery"].to_str().unwrap().to_owned();
        received.iter().map(|(headers, _)| id(headers)).collect()
    };
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "a repetition has the number of the first: {ids:?}"
    );
    assert!(receiver.answers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn addresses_behind_the_server_are_refused() {
    let site = Site::start().await;
    let receiver = Receiver::start(&[]).await;
    for url in [
        receiver.url.as_str(),
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "file:///etc/passwd",
        "nonsense",
    ] {
        let body = json!({ "url": url });
        let answer = site
            .post("/api/webhooks?namespace=default", ADMIN, &body)
            .await;
        assert_eq!(answer.fields(), ["url"], "{url}: {}", answer.text);
    }
    let short = json!({ "url": "https://example.com", "secret": "short", "events": ["test"] });
    let answer = site
        .post("/api/webhooks?namespace=default", ADMIN, &short)
        .await;
    assert_eq!(answer.fields(), ["secret", "events"], "{}", answer.text);
}

#[tokio::test]
async fn one_that_was_allowed_once_is_not_used_when_it_no_longer_is() {
    let mut site = Site::start_with(|options| options.private_webhooks = true).await;
    let receiver = Receiver::start(&[]).await;
    let hook = webhook(&site, &receiver.url, &json!([])).await;
    let test = format!("/api/webhooks/{}/test", hook["id"].as_str().unwrap());
    let tested = site.post(&test, ADMIN, &json!({})).await.ok();
    assert_eq!(
        (&tested["delivered"], &tested["status"]),
        (&json!(true), &json!(200))
    );
    assert_eq!(receiver.events(1).await, ["test"]);
    site.restart_with(|_| {}).await;
    let tested = site.post(&test, ADMIN, &json!({})).await.ok();
    assert_eq!(tested["delivered"], false);
    assert_eq!(receiver.events(1).await.len(), 1);
}
