//! Every bad input is a 4xx that names its field, and leaves nothing behind.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Site, form_a, form_b};

/// `form` with the value at `path` replaced, or removed when it is null.
fn with(form: fn(&str, &str) -> Value, path: &str, value: Value) -> Value {
    let mut form = form("kim", "user-kim");
    let (parent, name) = path.rsplit_once('/').unwrap();
    let parent = form.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(list) => list.push(value),
        Value::Object(object) if value.is_null() => _ = object.remove(name),
        Value::Object(object) => _ = object.insert(name.to_owned(), value),
        _ => panic!("{path} has no parent"),
    }
    form
}

/// What is wrong, the request, and the field that the answer must name.
fn table() -> Vec<(&'static str, Value, &'static str)> {
    let long = "a".repeat(300);
    let volume = |name: &str, path: &str| json!({ "name": name, "pvc": "data", "mountPath": path });
    vec![
        ("no user", with(form_a, "/user_id", Value::Null), "user_id"),
        (
            "no namespace",
            with(form_a, "/namespace", Value::Null),
            "namespace",
        ),
        (
            "no framework",
            with(form_a, "/framework", Value::Null),
            "framework",
        ),
        (
            "no code and no command",
            with(form_a, "/training_code", Value::Null),
            "training_code",
        ),
        (
            "no node count",
            with(form_a, "/config/num_nodes", Value::Null),
            "config.num_nodes",
        ),
        (
            "a number for a user",
            with(form_a, "/user_id", json!(7)),
            "user_id",
        ),
        (
            "a list for a namespace",
            with(form_a, "/namespace", json!(["x"])),
            "namespace",
        ),
        (
            "an object for code",
            with(form_a, "/training_code", json!({})),
            "training_code",
        ),
        (
            "a text for sizes",
            with(form_a, "/config", json!("big")),
            "config",
        ),
        (
            "a text for a count",
            with(form_a, "/config/num_nodes", json!("two")),
            "config.num_nodes",
        ),
        (
            "half a node",
            with(form_a, "/config/num_nodes", json!(1.5)),
            "config.num_nodes",
        ),
        (
            "an unknown framework",
            with(form_a, "/framework", json!("theano")),
            "framework",
        ),
        (
            "no nodes",
            with(form_a, "/config/num_nodes", json!(0)),
            "config.num_nodes",
        ),
        (
            "less than no nodes",
            with(form_a, "/config/num_nodes", json!(-1)),
            "config.num_nodes",
        ),
        (
            "very many nodes",
            with(form_a, "/config/num_nodes", json!(1_000_000)),
            "config.num_nodes",
        ),
        (
            "more nodes than a number holds",
            with(form_a, "/config/num_nodes", json!(1e30)),
            "config.num_nodes",
        ),
        (
            "16GB",
            with(form_a, "/config/memory_per_node", json!("16GB")),
            "config.memory_per_node",
        ),
        (
            "memory of -1",
            with(form_a, "/config/memory_per_node", json!("-1")),
            "config.memory_per_node",
        ),
        (
            "processors of -1",
            with(form_a, "/config/cpu_per_node", json!("-1")),
            "config.cpu_per_node",
        ),
        (
            "no processors",
            with(form_a, "/config/cpu_per_node", json!(0)),
            "config.cpu_per_node",
        ),
        (
            "half a GPU",
            with(form_a, "/config/gpu_per_node", json!(0.5)),
            "config.gpu_per_node",
        ),
        (
            "GPUs of -1",
            with(form_b, "/gpu_count", json!(-1)),
            "gpu_count",
        ),
        (
            "a request above its limit",
            with(form_b, "/cpu_request", json!("3")),
            "cpu_request",
        ),
        (
            "memory above its limit",
            with(form_b, "/memory_request", json!("3Gi")),
            "memory_request",
        ),
        (
            "a slash in the namespace",
            with(form_a, "/namespace", json!("user/kim")),
            "namespace",
        ),
        (
            "a path for a namespace",
            with(form_a, "/namespace", json!("../user-kim")),
            "namespace",
        ),
        (
            "capitals in the namespace",
            with(form_a, "/namespace", json!("User-Kim")),
            "namespace",
        ),
        (
            "Hangul in the namespace",
            with(form_a, "/namespace", json!("사용자")),
            "namespace",
        ),
        (
            "a long namespace",
            with(form_a, "/namespace", json!(long)),
            "namespace",
        ),
        (
            "a slash in the user",
            with(form_a, "/user_id", json!("kim/lee")),
            "user_id",
        ),
        (
            "a path for a user",
            with(form_a, "/user_id", json!("..")),
            "user_id",
        ),
        (
            "Hangul in the user",
            with(form_a, "/user_id", json!("김철수")),
            "user_id",
        ),
        (
            "a long user",
            with(form_a, "/user_id", json!(long)),
            "user_id",
        ),
        (
            "a slash in the name",
            with(form_a, "/name", json!("a/b")),
            "name",
        ),
        (
            "a path for a name",
            with(form_a, "/name", json!("..")),
            "name",
        ),
        (
            "capitals in the name",
            with(form_a, "/name", json!("Demo")),
            "name",
        ),
        (
            "Hangul in the name",
            with(form_a, "/name", json!("학습")),
            "name",
        ),
        ("a long name", with(form_a, "/name", json!(long)), "name"),
        (
            "a name too long for its pods",
            with(form_a, "/name", json!("a".repeat(60))),
            "name",
        ),
        ("an empty name", with(form_a, "/name", json!("")), "name"),
        (
            "code of 5 MB",
            with(form_a, "/training_code", json!("#".repeat(5_000_000))),
            "training_code",
        ),
        (
            "a variable twice",
            with(
                form_b,
                "/env_vars/-",
                json!({ "name": "EPOCHS", "value": "4" }),
            ),
            "env_vars[1].name",
        ),
        (
            "a variable with a space",
            with(form_b, "/env_vars", json!([{ "name": "A B", "value": "" }])),
            "env_vars[0].name",
        ),
        (
            "a variable that is a list",
            with(form_b, "/env_vars", json!([{ "name": "A", "value": [] }])),
            "env_vars[0].value",
        ),
        (
            "a volume twice",
            with(form_b, "/volumes/-", volume("data", "/other")),
            "volumes[1].name",
        ),
        (
            "a path twice",
            with(form_b, "/volumes/-", volume("more", "/data")),
            "volumes[1].mountPath",
        ),
        (
            "a path below another",
            with(form_b, "/volumes/-", volume("more", "/data/inner")),
            "volumes[1].mountPath",
        ),
        (
            "a relative path",
            with(form_b, "/volumes", json!([volume("data", "data")])),
            "volumes[0].mountPath",
        ),
        (
            "a path with ..",
            with(form_b, "/volumes", json!([volume("data", "/data/../etc")])),
            "volumes[0].mountPath",
        ),
        (
            "a path over the code",
            with(
                form_b,
                "/volumes",
                json!([volume("data", "/workspace/scripts")]),
            ),
            "volumes[0].mountPath",
        ),
        (
            "a folder of the machine",
            with(
                form_b,
                "/volumes",
                json!([{ "name": "host", "hostPath": "/etc", "mountPath": "/host" }]),
            ),
            "volumes[0].hostPath",
        ),
        (
            "a misspelt field",
            with(form_a, "/num_node", json!(2)),
            "num_node",
        ),
        (
            "an unknown runtime",
            with(form_a, "/runtime", json!("no-such-runtime")),
            "runtime",
        ),
        (
            "a negative deadline",
            with(form_a, "/deadline_seconds", json!(-5)),
            "deadline_seconds",
        ),
        (
            "a negative restart count",
            with(form_a, "/max_restarts", json!(-1)),
            "max_restarts",
        ),
    ]
}

#[tokio::test]
async fn every_bad_input_names_its_field_and_leaves_nothing_behind() {
    let site = Site::start().await;
    let before = site.traces().await;
    let mut wrong = Vec::new();
    for (what, body, field) in table() {
        let answer = site.post("/api/trainjob/create", ADMIN, &body).await;
        let message = answer.json["error"]["message"].as_str().unwrap_or_default();
        let refused = answer.status.is_client_error() && !message.is_empty();
        if !refused || !answer.fields().contains(&field) {
            wrong.push(format!(
                "{what}: wanted {field:?}, got {} {}",
                answer.status, answer.text
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(site.traces().await, before);
}

#[tokio::test]
async fn all_wrong_fields_are_named_at_once() {
    let site = Site::start().await;
    let body = json!({
        "user_id": "김", "namespace": "A/B", "framework": "theano", "training_code": 1,
        "num_nodes": 0, "cpu_request": "16GB", "memory_limit": "-1", "gpu_count": "one",
        "env_vars": [{ "name": "1 2" }], "volumes": [{ "name": "UPPER", "pvc": "x", "mountPath": "relative" }],
        "surprise": true,
    });
    let answer = site.post("/api/trainjob/create", ADMIN, &body).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer.json["error"]["code"], "invalid_request");
    let fields = answer.fields();
    let message = answer.json["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("{}: ", fields[0])),
        "{message}"
    );
    for want in [
        "user_id",
        "namespace",
        "framework",
        "training_code",
        "num_nodes",
        "cpu_request",
        "memory_limit",
        "gpu_count",
        "env_vars[0].name",
        "volumes[0].name",
        "volumes[0].mountPath",
        "surprise",
    ] {
        assert!(fields.contains(&want), "{want} is not among {fields:?}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_form_are_refused() {
    let site = Site::start().await;
    for body in [json!(null), json!([]), json!("form"), json!(3), json!({})] {
        let answer = site.post("/api/trainjob/create", ADMIN, &body).await;
        assert!(answer.status.is_client_error(), "{body}: {}", answer.text);
        assert!(
            answer.json["error"]["code"].is_string(),
            "{body}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn names_in_addresses_are_names_and_nothing_else() {
    let site = Site::start().await;
    for name in [
        "..%2F..%2Fsecrets",
        "a%2Fb",
        "%2e%2e",
        "Demo",
        "a%00b",
        "a%3Fb",
        "%ED%95%99",
    ] {
        for path in [
            format!("/api/trainjob/{name}/status?namespace=default"),
            format!("/api/trainjobs/{name}/logs?namespace=default"),
            format!("/api/trainjob/demo/status?namespace={name}"),
        ] {
            let answer = site.get(&path, ADMIN).await;
            assert!(
                answer.status.is_client_error(),
                "{path}: {} {}",
                answer.status,
                answer.text
            );
        }
        let path = format!("/api/trainjob/{name}?namespace=default");
        let answer = site.request(Method::DELETE, &path, ADMIN, None, &[]).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn code_of_one_byte_and_of_900_kilobytes_is_taken_whole() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let site = Site::start().await;
    for size in [1, 900_000] {
        let code = "#".repeat(size);
        let body = with(form_a, "/training_code", json!(code));
        let made = site.post("/api/trainjob/create", ADMIN, &body).await.ok();
        let name = made["trainjob_name"].as_str().unwrap();
        let maps: kube::Api<ConfigMap> =
            kube::Api::namespaced(site.plane.client.clone(), "user-kim");
        let map = maps.get(&format!("{name}-train-script")).await.unwrap();
        assert_eq!(map.data.unwrap()["train.py"], code);
    }
}
