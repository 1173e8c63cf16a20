//! ResourceQuotas and LimitRanges at admission.

use serde_json::{Value, json};

use crate::plane::{Plane, eventually, gadgets};

const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";

async fn limited(hard: Value) -> Plane {
    let plane = Plane::start().await;
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "q" }, "spec": { "hard": hard } });
    let (code, answer) = plane
        .post("/api/v1/namespaces/default/resourcequotas", quota)
        .await;
    assert_eq!(code, 201, "{answer}");
    plane
}

/// Waits until the status of the quota says that this much is used.
async fn used(plane: &Plane, want: Value) {
    eventually("the status of the quota", async || {
        plane.get(QUOTA).await.1["status"]["used"] == want
    })
    .await;
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

fn claim(name: &str, size: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } } })
}

const MERGE: &str = "application/merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

#[tokio::test(flavor = "multi_thread")]
async fn creates_that_race_for_the_last_places_get_only_those() {
    let plane = limited(json!({ "count/configmaps": "12", "secrets": "5" })).await;
    let before = plane.get(MAPS).await.1["items"]
        .as_array()
        .map_or(0, Vec::len);
    let creates = (0..40).map(|index| plane.post(MAPS, config_map(&format!("c-{index}"))));
    let answers = futures::future::join_all(creates).await;
    let made = answers.iter().filter(|(code, _)| *code == 201).count();
    assert_eq!(before + made, 12);
    let (code, refusal) = answers.iter().find(|(code, _)| *code != 201).expect("one");
    assert_eq!(*code, 403);
    let message = refusal["message"].as_str().expect("a message");
    assert!(
        message.contains("is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=")
            && message.ends_with("limited: count/configmaps=12"),
        "{message}"
    );
    used(&plane, json!({ "count/configmaps": "12", "secrets": "0" })).await;
    assert_eq!(
        plane.get(QUOTA).await.1["status"]["hard"],
        json!({ "count/configmaps": "12", "secrets": "5" })
    );
    let items = plane.get(MAPS).await.1["items"].clone();
    // The last of them is the certificate of the server, which comes back.
    let name = items[0]["metadata"]["name"].as_str().expect("a name");
    plane.delete(&format!("{MAPS}/{name}"), json!({})).await;
    used(&plane, json!({ "count/configmaps": "11", "secrets": "0" })).await;
    assert_eq!(plane.post(MAPS, config_map("again")).await.0, 201);
    assert_eq!(plane.post(MAPS, config_map("more")).await.0, 403);
}

#[tokio::test]
async fn a_name_that_is_taken_costs_nothing_and_a_dry_run_is_checked() {
    let plane = limited(json!({ "secrets": "1" })).await;
    let path = "/api/v1/namespaces/default/secrets";
    let secret =
        |name: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
    assert_eq!(plane.post(path, secret("a")).await.0, 201);
    let (code, _) = plane.post(&format!("{path}?dryRun=All"), secret("b")).await;
    assert_eq!(code, 403);
    plane.delete(&format!("{path}/a"), json!({})).await;
    for _ in 0..3 {
        let (code, _) = plane.post(&format!("{path}?dryRun=All"), secret("b")).await;
        assert_eq!(code, 201);
    }
    assert_eq!(plane.post(path, secret("b")).await.0, 201);
}

#[tokio::test]
async fn storage_is_counted_when_claims_come_and_grow() {
    let plane = limited(json!({ "requests.storage": "10Gi", "persistentvolumeclaims": "3" })).await;
    assert_eq!(plane.post(CLAIMS, claim("a", "4Gi")).await.0, 201);
    assert_eq!(plane.post(CLAIMS, claim("b", "4Gi")).await.0, 201);
    let (code, refusal) = plane.post(CLAIMS, claim("c", "4Gi")).await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal["message"],
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: requests.storage=4Gi, \
         used: requests.storage=8Gi, limited: requests.storage=10Gi"
    );
    used(
        &plane,
        json!({ "requests.storage": "8Gi", "persistentvolumeclaims": "2" }),
    )
    .await;
}

#[tokio::test]
async fn custom_objects_count_and_a_restart_forgets_nothing() {
    let plane = limited(json!({ "count/gadgets.example.org": "2" })).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(plane.post(definitions, gadgets()).await.0, 201);
    let path = "/apis/example.org/v1/namespaces/default/gadgets";
    let gadget = |name: &str| json!({ "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "name": name } });
    assert_eq!(plane.post(path, gadget("a")).await.0, 201);
    let plane = plane.restart().await;
    assert_eq!(plane.post(path, gadget("b")).await.0, 201);
    assert_eq!(plane.post(path, gadget("c")).await.0, 403);
    used(&plane, json!({ "count/gadgets.example.org": "2" })).await;
    // A larger quota has room at once.
    let larger = json!({ "spec": { "hard": { "count/gadgets.example.org": "3" } } });
    let (code, _) = plane
        .request("PATCH", QUOTA, "application/merge-patch+json", &larger)
        .await;
    assert_eq!(code, 200);
    assert_eq!(plane.post(path, gadget("c")).await.0, 201);
    plane.delete(QUOTA, json!({})).await;
    assert_eq!(plane.post(path, gadget("d")).await.0, 201);
}

#[tokio::test]
async fn what_pods_request_is_left_to_the_scheduler() {
    let plane = limited(json!({ "pods": "0", "requests.cpu": "0", "count/pods": "0" })).await;
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i",
            "resources": { "requests": { "cpu": "1" } } }] } });
    let (code, answer) = plane.post("/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(code, 201, "{answer}");
    used(
        &plane,
        json!({ "pods": "0", "requests.cpu": "0", "count/pods": "0" }),
    )
    .await;
    // What the scheduler writes stays.
    let status = json!({ "status": { "used": { "pods": "1" } } });
    plane
        .request(
            "PATCH",
            &format!("{QUOTA}/status"),
            "application/merge-patch+json",
            &status,
        )
        .await;
    plane.post(MAPS, config_map("x")).await;
    assert_eq!(plane.get(QUOTA).await.1["status"]["used"]["pods"], "1");
}

#[tokio::test]
async fn limit_ranges_fill_in_and_refuse() {
    let plane = Plane::start().await;
    let range = json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "r" },
        "spec": { "limits": [
            { "type": "Container", "default": { "cpu": "1", "memory": "1Gi" },
                "defaultRequest": { "cpu": "500m" }, "max": { "cpu": "2" } },
            { "type": "PersistentVolumeClaim", "max": { "storage": "5Gi" } },
        ] } });
    let ranges = "/api/v1/namespaces/default/limitranges";
    assert_eq!(plane.post(ranges, range).await.0, 201);
    let pod = |name: &str, resources: Value| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": resources }] } })
    };
    let pods = "/api/v1/namespaces/default/pods";
    let (code, made) = plane.post(pods, pod("a", json!({}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({ "requests": { "cpu": "500m", "memory": "1Gi" },
            "limits": { "cpu": "1", "memory": "1Gi" } })
    );
    let note = &made["metadata"]["annotations"]["kubernetes.io/limit-ranger"];
    assert!(
        note.as_str()
            .is_some_and(|note| note.contains("for container c")),
        "{note}"
    );
    let (code, refusal) = plane
        .post(pods, pod("b", json!({ "limits": { "cpu": "3" } })))
        .await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal["message"],
        "pods \"b\" is forbidden: maximum cpu usage per Container is 2, but limit is 3"
    );
    let (code, refusal) = plane.post(CLAIMS, claim("c", "6Gi")).await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal["message"],
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 5Gi, \
         but request is 6Gi"
    );
    assert_eq!(plane.post(CLAIMS, claim("d", "5Gi")).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_else_wrote_is_put_right() {
    let plane = limited(json!({ "configmaps": "5", "cpu": "1" })).await;
    let maps = plane.get(MAPS).await.1["items"]
        .as_array()
        .map_or(0, Vec::len);
    let want = json!({ "configmaps": maps.to_string(), "cpu": "0" });
    used(&plane, want.clone()).await;
    let wrong = json!({ "status": { "hard": { "cpu": "2" }, "used": { "configmaps": "77" } } });
    let (code, answer) = plane
        .request("PATCH", &format!("{QUOTA}/status"), MERGE, &wrong)
        .await;
    assert_eq!(code, 200, "{answer}");
    used(&plane, want).await;
    let hard = plane.get(QUOTA).await.1["status"]["hard"].clone();
    assert_eq!(hard, json!({ "configmaps": "5", "cpu": "1" }));
}
