//! An API server that refuses (429), and answers that get lost: every job runs, and none twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use astrago_api::{JobSet, labels};
use astrago_testkit::{Behaviour, Plane, train_job};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::ServiceExt;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_and_lost_answers_cost_no_job_and_double_none() {
    let plane = Plane::start().await;
    plane.node.behave(|pod| {
        let label = |name| pod.labels().get(name).map(String::as_str);
        let (set, attempt) = (label(labels::JOBSET_NAME), label(labels::RESTART_ATTEMPT));
        if set == Some("restarted") && attempt == Some("0") {
            Behaviour::Fail(9)
        } else {
            Behaviour::Succeed
        }
    });
    let (refused, lost) = (Arc::default(), Arc::default());
    plane.run_controllers_through(|client| unreliable(client, &refused, &lost));
    let names = ["first", "second", "restarted"];
    for name in names {
        let job = train_job(name).nodes(2).max_restarts(1);
        plane.create(&job.build()).await;
    }
    for name in names {
        plane.until_condition(name, "Complete").await;
        let set: JobSet = plane.api().get(name).await.expect("the set");
        assert_eq!(set.restarts() == 1, name == "restarted", "{name}");
        let pods: Vec<Pod> = plane.list().await;
        let own = pods.iter().filter(|pod| {
            pod.labels()
                .get(labels::JOBSET_NAME)
                .is_some_and(|set| set == name)
        });
        assert_eq!(own.count(), 2, "{name}");
    }
    for (what, count) in [("refused", refused), ("lost", lost)] {
        assert!(count.load(Ordering::Relaxed) > 10, "{what}: {count:?}");
    }
}

/// A client of which every fourth request is refused, and of whose writes every fourth is done
/// and not answered.
fn unreliable(inner: Client, refused: &Arc<AtomicUsize>, lost: &Arc<AtomicUsize>) -> Client {
    let (refused, lost) = (Arc::clone(refused), Arc::clone(lost));
    let requests = Arc::new(AtomicUsize::new(0));
    let namespace = inner.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, refused, lost) = (inner.clone(), Arc::clone(&refused), Arc::clone(&lost));
        let turn = requests.fetch_add(1, Ordering::Relaxed) % 4;
        async move {
            let writes = request.method() != http::Method::GET;
            match turn {
                1 => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    refusal()
                }
                3 if writes => {
                    lost.fetch_add(1, Ordering::Relaxed);
                    let _ = inner.send(request).await;
                    Err("connection reset".into())
                }
                _ => inner.send(request).await.map_err(tower::BoxError::from),
            }
        }
    });
    Client::new(service.map_err(tower::BoxError::from), namespace)
}

fn refusal() -> Result<http::Response<Body>, tower::BoxError> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                         "message": "refused by a test", "reason": "TooManyRequests", "code": 429 });
    let response = http::Response::builder()
        .status(429)
        .header("content-type", "application/json")
        .header("retry-after", "1");
    Ok(response.body(Body::from(status.to_string().into_bytes()))?)
}
