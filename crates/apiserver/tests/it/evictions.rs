//! Evictions and the budgets that they ask.

use serde_json::{Value, json};

use crate::plane::{Plane, eventually};

const MERGE: &str = "application/merge-patch+json";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn pod(plane: &Plane, name: &str) {
    let pod = json!({ "metadata": { "name": name, "labels": { "app": "x" }, "finalizers": ["example.org/hold"] },
        "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "a:1" }] } });
    assert_eq!(plane.post(PODS, pod).await.0, 201);
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let path = format!("{PODS}/{name}/status");
    assert_eq!(plane.request("PATCH", &path, MERGE, &ready).await.0, 200);
}

async fn evict(plane: &Plane, name: &str) -> (u16, Value) {
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
    plane
        .post(&format!("{PODS}/{name}/eviction"), eviction)
        .await
}

#[tokio::test]
async fn a_budget_decides_how_many_pods_may_be_evicted() {
    let plane = Plane::start().await;
    let budget = json!({ "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": ["x"] }] } } });
    assert_eq!(plane.post(BUDGETS, budget).await.0, 201);
    pod(&plane, "one").await;
    pod(&plane, "two").await;
    eventually("the status says what is allowed", async || {
        let status = plane.get(&format!("{BUDGETS}/b")).await.1["status"].clone();
        status["disruptionsAllowed"] == 1
            && status["currentHealthy"] == 2
            && status["expectedPods"] == 2
    })
    .await;
    // Who takes pods away otherwise says so in the status, and they count as gone.
    let status = format!("{BUDGETS}/b/status");
    let now = jiff::Timestamp::now().to_string();
    let said = json!({ "status": { "disruptedPods": { "two": now, "gone-already": now, "one": "2020-01-01T00:00:00Z" } } });
    assert_eq!(plane.request("PATCH", &status, MERGE, &said).await.0, 200);
    eventually("the disrupted pod is kept, and counted", async || {
        let status = plane.get(&status).await.1["status"].clone();
        status["disruptedPods"] == json!({ "two": now }) && status["disruptionsAllowed"] == 0
    })
    .await;
    assert_eq!(evict(&plane, "one").await.0, 429);
    let said = json!({ "status": { "disruptedPods": null } });
    assert_eq!(plane.request("PATCH", &status, MERGE, &said).await.0, 200);

    let (code, answer) = evict(&plane, "one").await;
    assert_eq!(code, 201, "{answer}");
    let one = plane.get(&format!("{PODS}/one")).await.1;
    assert!(one["metadata"]["deletionTimestamp"].is_string());
    let conditions = one["status"]["conditions"].as_array().expect("conditions");
    let target = conditions
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    assert_eq!(
        target.expect("a condition")["reason"],
        "EvictionByEvictionAPI"
    );
    let (code, answer) = evict(&plane, "two").await;
    assert_eq!(
        (code, &answer["reason"]),
        (429, &json!("TooManyRequests")),
        "{answer}"
    );
    assert_eq!(answer["details"]["causes"][0]["reason"], "DisruptionBudget");
    let (_, two) = plane.get(&format!("{PODS}/two")).await;
    assert!(two["metadata"]["deletionTimestamp"].is_null(), "it goes on");
    plane.delete(&format!("{BUDGETS}/b"), json!({})).await;
    assert_eq!(
        evict(&plane, "two").await.0,
        201,
        "without a budget it goes"
    );
}
