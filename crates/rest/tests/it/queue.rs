//! The queue as people see it before and after submitting: what would fit, and who may go first.

use astrago_testkit::eventually;
use axum::http::StatusCode;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site, form_a};

/// A job in `default` of one node; the machine has 8 GPUs and 64 CPUs.
fn job(name: &str, gpus: u32, cpus: u32) -> Value {
    let mut form = form_a("admin", "default");
    form["name"] = json!(name);
    form["config"] = json!({ "num_nodes": 1, "gpu_per_node": gpus, "cpu_per_node": cpus, "memory_per_node": "1Gi" });
    form
}

fn limited(mut form: Value, seconds: u32) -> Value {
    form["deadline_seconds"] = json!(seconds);
    form
}

async fn create(site: &Site, form: &Value) {
    site.post("/api/trainjob/create", ADMIN, form).await.ok();
}

async fn until_message(site: &Site, name: &str, part: &str) {
    let path = format!("/api/trainjobs/{name}?namespace=default");
    eventually(&format!("{name}: {part}"), || async {
        let answer = site.get(&path, ADMIN).await.json;
        let message = answer["message"].as_str().unwrap_or_default();
        if message.contains(part) {
            Ok(())
        } else {
            Err(answer.to_string())
        }
    })
    .await;
}

/// What is said beforehand is what the scheduler then does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_fits_where_the_scheduler_would_let_it_pass() {
    let site = Site::start().await;
    site.plane.run_controllers();
    create(&site, &limited(job("first", 6, 1), 1000)).await;
    site.plane.node.running("first-node-0", 0).await;
    create(&site, &job("big", 8, 1)).await;
    until_message(&site, "big", "needs 8 GPUs, 2 free").await;
    create(&site, &job("huge", 9, 1)).await;
    until_message(&site, "huge", "can never fit").await;
    let cases = [
        ("no-gpu", job("no-gpu", 0, 1), "fits_now"),
        ("endless", job("endless", 1, 1), "would_wait"),
        ("short", limited(job("short", 1, 1), 60), "fits_now"),
        ("slow", limited(job("slow", 1, 1), 2000), "would_wait"),
        ("wide", job("wide", 3, 1), "would_wait"),
        ("vast", job("vast", 9, 1), "never_fits"),
    ];
    for (name, form, want) in &cases {
        let fit = site.post("/api/fit", ADMIN, form).await.ok();
        assert_eq!(fit["verdict"], *want, "{name}: {fit}");
    }
    let endless = site.post("/api/fit", ADMIN, &cases[1].1).await.ok();
    assert_eq!(
        endless["reason"],
        "there is room, but 1 job waits before it"
    );
    for (name, form, want) in &cases {
        create(&site, form).await;
        if *want == "fits_now" {
            site.plane.node.running(&format!("{name}-node-0"), 0).await;
        } else {
            let part = if *want == "never_fits" {
                "can never fit"
            } else {
                "ahead"
            };
            until_message(&site, name, part).await;
        }
    }
}

/// A tenant cannot go before the jobs of others by a number of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_above_what_the_namespace_allows_is_refused() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let mut form = form_a("kim", "user-kim");
    form["priority"] = json!(5);
    let refused = site.post("/api/trainjob/create", &kim, &form).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let detail = &refused.json["error"]["fields"][0];
    assert_eq!(detail["field"], "priority", "{}", refused.json);
    assert_eq!(
        detail["message"],
        "namespace \"user-kim\" allows priorities up to 0; an administrator may set its annotation astrago.io/max-priority"
    );
    form["priority"] = json!(-5);
    site.post("/api/trainjob/create", &kim, &form).await.ok();
    let namespaces: Api<Namespace> = Api::all(site.plane.client.clone());
    let allow = json!({ "metadata": { "annotations": { "astrago.io/max-priority": "5" } } });
    namespaces
        .patch("user-kim", &PatchParams::default(), &Patch::Merge(allow))
        .await
        .unwrap();
    form["priority"] = json!(5);
    eventually("the API has seen the annotation", || async {
        let answer = site.post("/api/trainjob/create", &kim, &form).await;
        if answer.status.is_success() {
            Ok(())
        } else {
            Err(answer.text)
        }
    })
    .await;
    form["priority"] = json!(6);
    let refused = site.post("/api/trainjob/create", &kim, &form).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}
