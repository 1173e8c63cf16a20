//! Reports of progress by Kubeflow's protocol: who may send them, and what becomes of them.

use astrago_api::TrainJob;
use astrago_testkit::eventually;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{ADMIN, Site, form_a};

const JOBS: &str = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";

fn audience(job: &str) -> String {
    format!("{JOBS}/{job}/status")
}

/// A token of the default account for this audience, bound to a pod where one is named.
async fn token(site: &Site, namespace: &str, audience: &str, pod: Option<&Pod>) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(site.plane.client.clone(), namespace);
    eventually("the account is there", || async {
        match accounts.get_opt("default").await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let bound = pod.map(|pod| json!({ "kind": "Pod", "apiVersion": "v1", "name": pod.name_any(), "uid": pod.uid() }));
    let request: TokenRequest = serde_json::from_value(json!({
        "metadata": {}, "spec": { "audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound },
    }))
    .unwrap();
    let made = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await
        .unwrap();
    made.status.unwrap().token.unwrap()
}

async fn post(site: &Site, job: &str, token: &str, body: Vec<u8>) -> (StatusCode, Value) {
    let mut request = Request::post(format!("/apis/{JOBS}/{job}/status"));
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body)).unwrap();
    let response = site.reports.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

fn report(percent: i64, time: &str, loss: &str) -> Value {
    json!({ "trainerStatus": { "progressPercentage": percent, "estimatedRemainingSeconds": 60,
            "lastUpdatedTime": time, "metrics": [{ "name": "loss", "value": loss }] } })
}

/// A job of one node, running.
async fn running(site: &Site, name: &str) -> Pod {
    let mut form = form_a("admin", "default");
    form["name"] = json!(name);
    form["config"]["num_nodes"] = json!(1);
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    site.plane.node.running(&format!("{name}-node-0"), 0).await
}

#[tokio::test]
async fn a_report_is_in_the_status_and_becomes_progress_and_curve() {
    let site = Site::start().await;
    site.plane.run_controllers();
    let pod = running(&site, "demo").await;
    let token = token(&site, "default", &audience("demo"), Some(&pod)).await;
    let first = report(40, "2026-11-05T13:00:00.123456+00:00", "2.5");
    let (status, echo) = post(&site, "demo", &token, first.to_string().into_bytes()).await;
    assert_eq!((status, &echo), (StatusCode::OK, &first));
    let shown = "/api/trainjobs/demo?namespace=default";
    let job = site
        .until(shown, ADMIN, |job| job["progress"]["percent"] == 40.0)
        .await;
    assert_eq!(job["progress"]["remaining_seconds"], 60);
    let metrics = "/api/trainjobs/demo/metrics?namespace=default";
    site.until(metrics, ADMIN, |metrics| metrics[0]["value"] == 2.5)
        .await;
    // Each report replaces the one before, and the curve has both.
    let second = json!({ "trainerStatus": { "lastUpdatedTime": "2026-11-05T13:01:00Z",
                         "metrics": [{ "name": "loss", "value": "1.5" }] } });
    assert_eq!(
        post(&site, "demo", &token, second.to_string().into_bytes())
            .await
            .0,
        StatusCode::OK
    );
    let curve = site
        .until(metrics, ADMIN, |metrics| {
            metrics[0]["points"]
                .as_array()
                .is_some_and(|points| points.len() == 2)
        })
        .await;
    assert_eq!(
        (
            &curve[0]["points"][0]["value"],
            &curve[0]["points"][1]["value"]
        ),
        (&json!(2.5), &json!(1.5))
    );
    let jobs: Api<TrainJob> = Api::namespaced(site.plane.client.clone(), "default");
    let status = jobs
        .get("demo")
        .await
        .unwrap()
        .status
        .unwrap()
        .trainer_status
        .unwrap();
    assert_eq!(status.progress_percentage, None);
}

#[rstest]
#[case::no_json(b"{".to_vec(), StatusCode::UNPROCESSABLE_ENTITY)]
#[case::no_object(b"[]".to_vec(), StatusCode::UNPROCESSABLE_ENTITY)]
#[case::unknown_field(br#"{"conditions":[]}"#.to_vec(), StatusCode::UNPROCESSABLE_ENTITY)]
#[case::too_much(report(101, "2026-11-05T13:00:00Z", "1").to_string().into_bytes(), StatusCode::UNPROCESSABLE_ENTITY)]
#[case::no_time(br#"{"trainerStatus":{"progressPercentage":1}}"#.to_vec(), StatusCode::UNPROCESSABLE_ENTITY)]
#[case::too_large(vec![b' '; 65 * 1024], StatusCode::PAYLOAD_TOO_LARGE)]
#[case::empty(b"{}".to_vec(), StatusCode::OK)]
#[tokio::test]
async fn bad_reports_are_refused_as_kubernetes_does(
    #[case] body: Vec<u8>,
    #[case] want: StatusCode,
) {
    let site = Site::start().await;
    site.plane.run_controllers();
    let pod = running(&site, "demo").await;
    let token = token(&site, "default", &audience("demo"), Some(&pod)).await;
    let (status, answer) = post(&site, "demo", &token, body).await;
    assert_eq!(status, want, "{answer}");
    if want != StatusCode::OK {
        assert_eq!(
            (&answer["kind"], &answer["code"]),
            (&json!("Status"), &json!(want.as_u16()))
        );
    }
}

#[tokio::test]
async fn only_pods_of_the_job_report_for_it() {
    let site = Site::start().await;
    site.plane.run_controllers();
    let (demo, other) = (running(&site, "demo").await, running(&site, "other").await);
    site.user("lee").await;
    let body = || {
        report(1, "2026-11-05T13:00:00Z", "1")
            .to_string()
            .into_bytes()
    };
    let refused = async |token: String, want: StatusCode| {
        let (status, answer) = post(&site, "demo", &token, body()).await;
        assert_eq!(status, want, "{answer}");
    };
    refused(String::new(), StatusCode::UNAUTHORIZED).await;
    refused("guessed".to_owned(), StatusCode::UNAUTHORIZED).await;
    // Tokens for the API server, a user's among them, are for the API server.
    refused(ADMIN.to_owned(), StatusCode::UNAUTHORIZED).await;
    refused(
        token(
            &site,
            "default",
            "https://kubernetes.default.svc",
            Some(&demo),
        )
        .await,
        StatusCode::UNAUTHORIZED,
    )
    .await;
    refused(
        token(&site, "default", &audience("other"), Some(&other)).await,
        StatusCode::UNAUTHORIZED,
    )
    .await;
    // One of another job's pod, or of another namespace, for this job.
    refused(
        token(&site, "default", &audience("demo"), Some(&other)).await,
        StatusCode::FORBIDDEN,
    )
    .await;
    refused(
        token(&site, "user-lee", &audience("demo"), None).await,
        StatusCode::FORBIDDEN,
    )
    .await;
    let missing = token(&site, "default", &audience("missing"), Some(&demo)).await;
    let (status, _) = post(&site, "missing", &missing, body()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let missing = token(&site, "default", &audience("missing"), None).await;
    let (status, _) = post(&site, "missing", &missing, body()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
