//! Jobs of the Training Operator v1 beside TrainJobs: seen by those who may, and by nobody else.

use astrago_api::legacy::PyTorchJob;
use axum::http::StatusCode;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::{Site, form_a};

async fn v1_job_of_kim(site: &Site) {
    let replica = json!({ "template": { "spec": { "containers": [{ "name": "pytorch", "image": "torch:1", "command": ["train"] }] } } });
    let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "old" },
        "spec": { "pytorchReplicaSpecs": { "Master": replica, "Worker": { "replicas": 2, "template": replica["template"] } } } });
    let job: PyTorchJob = serde_json::from_value(job).unwrap();
    let jobs: Api<PyTorchJob> = Api::namespaced(site.kube("kim"), "user-kim");
    jobs.create(&PostParams::default(), &job).await.unwrap();
}

fn names(list: &Value) -> Vec<(&str, &str)> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|job| (job["name"].as_str().unwrap(), job["kind"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_v1_job_stands_in_the_list_of_its_owner_and_of_nobody_else() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    v1_job_of_kim(&site).await;
    let mut form = form_a("kim", "user-kim");
    form["name"] = json!("new");
    site.post("/api/trainjob/create", &kim, &form).await.ok();
    let both = |list: &Value| names(list).len() == 2;
    let list = site.until("/api/trainjobs?sort=name", &kim, both).await;
    assert_eq!(names(&list), [("new", "TrainJob"), ("old", "PyTorchJob")]);
    let detail = site
        .get("/api/trainjobs/old?namespace=user-kim", &kim)
        .await
        .ok();
    assert_eq!(detail["num_nodes"], 3);
    assert_eq!(detail["image"], "torch:1");
    assert_eq!(detail["framework"], "pytorch");

    assert!(names(&site.get("/api/trainjobs", &lee).await.ok()).is_empty());
    for path in [
        "/api/trainjobs/old?namespace=user-kim",
        "/api/trainjobs/old/events?namespace=user-kim",
        "/api/trainjobs/old/manifest?namespace=user-kim",
        "/api/trainjob/old/logs?namespace=user-kim",
    ] {
        let answer = site.get(path, &lee).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{path}: {}",
            answer.text
        );
    }
    let answer = site
        .delete("/api/trainjob/old?namespace=user-kim", &lee)
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    site.delete("/api/trainjob/old?namespace=user-kim", &kim)
        .await
        .ok();
    let one = |list: &Value| names(list) == [("new", "TrainJob")];
    site.until("/api/trainjobs", &kim, one).await;
}
