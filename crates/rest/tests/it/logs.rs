//! Logs of a node that does with them what kubelets do: it rotates them, and goes away.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use astrago_api::TrainJob;
use astrago_rest::Options;
use astrago_testkit::{eventually, train_job};
use axum::http::Method;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site};

/// What a node hands out of the only log that there is; nothing where it cannot be reached.
#[derive(Clone, Default)]
struct Kubelet(Arc<Mutex<Option<String>>>);

impl Kubelet {
    /// From now on it has these of a log's lines, one per second.
    fn has(&self, lines: std::ops::RangeInclusive<u32>) {
        self.writes(lines.map(|n| (n, format!("line {n}"))));
    }

    fn writes(&self, lines: impl Iterator<Item = (u32, String)>) {
        let lines = lines.map(|(n, line)| format!("2027-01-15T08:00:{n:02}.5Z {line}\n"));
        *self.0.lock().unwrap() = Some(lines.collect());
    }

    fn is_lost(&self) {
        *self.0.lock().unwrap() = None;
    }

    /// Answers for logs instead of the API server.
    fn stand_in(&self, options: &mut Options) {
        let (kubelet, inner) = (self.clone(), options.client.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (kubelet, inner) = (kubelet.clone(), inner.clone());
            async move {
                if !request.uri().path().ends_with("/log") {
                    return Ok::<_, tower::BoxError>(inner.send(request).await?);
                }
                let text = kubelet.0.lock().unwrap().clone();
                let response = http::Response::builder();
                Ok(match text {
                    Some(text) => response.status(200).body(Body::from(text.into_bytes()))?,
                    None => response.status(502).body(Body::empty())?,
                })
            }
        });
        options.client = Client::new(service, "default");
    }
}

/// A site with the job `demo`, which runs on a node with such a log.
async fn site(kubelet: &Kubelet) -> Site {
    let site = Site::start_with(|options| kubelet.stand_in(options)).await;
    site.plane.run_controllers();
    site.plane.create(&train_job("demo").build()).await;
    site.plane.node.running("demo-node-0", 0).await;
    site
}

async fn until_lines(site: &Site, want: std::ops::RangeInclusive<u32>) {
    let want: Vec<String> = want.map(|n| format!("line {n}")).collect();
    let path = "/api/trainjobs/demo/logs?namespace=default";
    site.until(path, ADMIN, |answer| {
        let lines = answer["lines"].as_array().unwrap().iter();
        let texts: Vec<&str> = lines.map(|line| line["text"].as_str().unwrap()).collect();
        texts == want
    })
    .await;
}

/// What whoever follows the log is sent until its end, while time goes by.
async fn until_end(site: &Site) -> String {
    let path = "/api/trainjobs/demo/logs/stream?namespace=default";
    let response = site.send(Method::GET, path, ADMIN, None, &[]).await;
    let all = tokio::spawn(response.into_body().collect());
    eventually("the stream ends", || {
        site.plane.clock.advance(1);
        let ended = all.is_finished();
        async move { if ended { Ok(()) } else { Err("it goes on") } }
    })
    .await;
    let bytes = all.await.unwrap().unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn every_line_is_recorded_once_whatever_a_node_has_rotated_away() {
    let kubelet = Kubelet::default();
    kubelet.has(1..=20);
    let mut site = site(&kubelet).await;
    until_lines(&site, 1..=20).await;
    kubelet.has(18..=25);
    until_lines(&site, 1..=25).await;
    // While nobody is here to read it, too.
    site.stop().await;
    kubelet.has(24..=30);
    site.restart_with(|options| kubelet.stand_in(options)).await;
    until_lines(&site, 1..=30).await;
    site.stop().await;
    kubelet.has(31..=33);
    site.plane.node.succeed("demo-node-0", 0).await;
    site.plane.until_condition("demo", "Complete").await;
    site.restart_with(|options| kubelet.stand_in(options)).await;
    until_lines(&site, 1..=33).await;
    let stream = until_end(&site).await;
    assert_eq!(stream.matches("event: line").count(), 33, "{stream}");
    assert!(stream.contains("event: end"), "{stream}");
}

#[tokio::test]
async fn the_log_of_a_node_that_is_lost_comes_to_its_end() {
    let kubelet = Kubelet::default();
    kubelet.has(1..=3);
    let site = site(&kubelet).await;
    until_lines(&site, 1..=3).await;
    kubelet.is_lost();
    site.plane.node.fail("demo-node-0", 0, 137).await;
    site.plane.until_condition("demo", "Failed").await;
    let stream = until_end(&site).await;
    assert_eq!(stream.matches("event: line").count(), 3, "{stream}");
    assert!(stream.contains("event: end"), "{stream}");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_comes_to_its_end() {
    let kubelet = Kubelet::default();
    let site = site(&kubelet).await;
    // A file where the job's folder should be refuses what a full disk would.
    let job: TrainJob = site.plane.api().get("demo").await.unwrap();
    let folder: PathBuf = site.history().join("logs").join(job.metadata.uid.unwrap());
    eventually("the folder is there, and becomes a file", || async {
        std::fs::remove_dir_all(&folder)?;
        std::fs::write(&folder, "")
    })
    .await;
    kubelet.has(1..=3);
    site.plane.node.succeed("demo-node-0", 0).await;
    site.plane.until_condition("demo", "Complete").await;
    let stream = until_end(&site).await;
    assert!(stream.contains("event: end"), "{stream}");
}

/// Also when only this worker is asked for, whose pod is gone with its node's copy.
#[tokio::test]
async fn the_log_of_a_worker_outlives_its_pod() {
    let kubelet = Kubelet::default();
    kubelet.has(1..=3);
    let site = site(&kubelet).await;
    until_lines(&site, 1..=3).await;
    let path = "/api/trainjobs/demo/suspend?namespace=default";
    site.post(path, ADMIN, &json!({})).await.ok();
    site.plane.until_none::<Pod>().await;
    kubelet.is_lost();
    let path = "/api/trainjob/demo/logs?namespace=default&worker=0";
    let log = site.get(path, ADMIN).await.ok();
    assert_eq!(log["logs"], "line 1\nline 2\nline 3\n", "{log}");
    // As `astrago logs --worker 0` asks for it.
    let path = "/api/trainjobs/demo/logs?namespace=default&worker=0&format=ndjson";
    let lines = site.get(path, ADMIN).await.text;
    assert_eq!(lines.matches("\"line ").count(), 3, "{lines}");
    // A worker that there never was is an error, and no empty log.
    for road in ["", "/page", "/stream", "/download"] {
        let path = format!("/api/trainjobs/demo/logs{road}?namespace=default&worker=7");
        let answer = site.get(&path, ADMIN).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        assert!(answer.text.contains("has no worker 7"), "{}", answer.text);
    }
}

/// The last number that is one says that training went well when it did not.
#[tokio::test]
async fn a_loss_that_ends_as_no_number_is_shown_as_none_everywhere() {
    let losses = ["0.5", "0.0909", "nan"];
    let kubelet = Kubelet::default();
    let lines = (1..)
        .zip(losses)
        .map(|(n, loss)| (n, format!("epoch {n}/3 loss={loss}")));
    kubelet.writes(lines);
    let site = site(&kubelet).await;
    let (job, list) = ("/api/trainjobs/demo", "/api/trainjobs");
    let curves = "/api/trainjobs/demo/metrics?namespace=default";
    let shown = |moment: &'static str, archived: &'static str| {
        let site = &site;
        async move {
            for (path, place) in [
                (format!("{job}?namespace=default"), "/metrics/0/value"),
                (format!("{job}?namespace=default"), "/headline/value"),
                (
                    format!("{list}?namespace=default{archived}"),
                    "/items/0/headline/value",
                ),
                (curves.to_owned(), "/0/value"),
                (curves.to_owned(), "/0/points/2/value"),
            ] {
                let is_none = |answer: &Value| answer.pointer(place) == Some(&json!("NaN"));
                println!("{moment}: {path} {place}");
                site.until(&path, ADMIN, is_none).await;
            }
        }
    };
    shown("while it runs", "").await;
    site.plane.node.succeed("demo-node-0", 0).await;
    site.plane.until_condition("demo", "Complete").await;
    shown("at the end", "").await;
    site.delete("/api/trainjob/demo?namespace=default", ADMIN)
        .await
        .ok();
    site.plane.until_gone::<TrainJob>("demo").await;
    shown("afterwards", "&archived=true").await;
}
