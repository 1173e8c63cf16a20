//! What the server does by itself, while others change the same objects.

use astrago_rest::Options;
use astrago_testkit::eventually;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site};

/// Between the look at what a job left and its removal, somebody makes another of the same name.
#[tokio::test]
async fn what_is_removed_is_never_a_successor_of_the_same_name() {
    let mut site = Site::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "default");
    let map = |text: &str| -> ConfigMap {
        let map = json!({ "metadata": { "name": "code", "labels": { "astrago.io/trainjob": "gone" } },
                          "data": { "train.py": text } });
        serde_json::from_value(map).unwrap()
    };
    let create = PostParams::default();
    maps.create(&create, &map("old")).await.unwrap();
    site.plane.clock.advance(120);
    let (sender, mut removals) = tokio::sync::mpsc::unbounded_channel();
    let racing = maps.clone();
    site.restart_with(|options| {
        let (inner, sender, racing) = (options.client.clone(), sender.clone(), racing.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (inner, sender, racing) = (inner.clone(), sender.clone(), racing.clone());
            async move {
                let removes = request.method() == http::Method::DELETE
                    && request.uri().path().ends_with("/configmaps/code");
                if removes {
                    racing.delete("code", &DeleteParams::default()).await?;
                    racing.create(&PostParams::default(), &map("new")).await?;
                }
                let answer = inner.send(request).await?;
                if removes {
                    sender.send(answer.status())?;
                }
                Ok::<_, tower::BoxError>(answer)
            }
        });
        options.client = Client::new(service, "default");
    })
    .await;
    let answer = removals.recv().await.unwrap();
    assert_eq!(answer, http::StatusCode::CONFLICT);
    let left = maps.get("code").await.unwrap();
    assert_eq!(left.data.unwrap()["train.py"], "new");
}

/// A controller of the cluster may be newer than we are.
#[tokio::test]
async fn an_object_with_a_value_that_nobody_here_knows_keeps_no_server_from_starting() {
    let site = Site::start_with(with_a_newer_job_set).await;
    eventually("the server answers", || async {
        let answer = site.get("/api/trainjobs", ADMIN).await;
        answer.status.is_success().then_some(()).ok_or(answer.text)
    })
    .await;
}

/// Lists of JobSets have one whose success policy is not of this version.
fn with_a_newer_job_set(options: &mut Options) {
    let inner = options.client.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            let uri = request.uri();
            let watches = uri
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let lists = uri.path().ends_with("/jobsets") && !watches;
            let answer = inner.send(request).await?;
            if !lists {
                return Ok::<_, tower::BoxError>(answer);
            }
            let (head, body) = answer.into_parts();
            let mut list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let newer = json!({
                "metadata": { "name": "newer", "namespace": "default", "uid": "1", "resourceVersion": "1" },
                "spec": { "successPolicy": { "operator": "Most" }, "replicatedJobs": [] },
            });
            list["items"].as_array_mut().unwrap().push(newer.clone());
            assert!(serde_json::from_value::<astrago_api::JobSet>(newer).is_err());
            let mut answer = http::Response::new(Body::from(list.to_string().into_bytes()));
            *answer.status_mut() = head.status;
            Ok(answer)
        }
    });
    options.client = Client::new(service, "default");
}
