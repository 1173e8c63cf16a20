//! Creating jobs: what is made, once, and nothing half-made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use astrago_api::TrainJob;
use astrago_testkit::eventually;
use axum::http::{Method, StatusCode};
use futures::StreamExt;
use futures::future::join_all;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{ADMIN, Site, form_a, form_b};

#[tokio::test]
async fn both_forms_make_a_configmap_and_a_trainjob_and_answer_as_documented() {
    let site = Site::start().await;
    let token = site.user("kim").await;
    for form in [form_a("kim", "user-kim"), form_b("kim", "user-kim")] {
        let made = site.post("/api/trainjob/create", &token, &form).await.ok();
        assert_eq!(made["status"], "success");
        assert_eq!(made["namespace"], "user-kim");
        let name = made["trainjob_name"].as_str().unwrap();
        assert!(name.starts_with("kim-job-"), "{name}");
        let status = format!("/api/trainjob/{name}/status?namespace=user-kim");
        let status = site.until(&status, &token, |_| true).await;
        let keys: Vec<&String> = status.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "completed_at",
                "created_at",
                "message",
                "state",
                "trainjob_name"
            ]
        );
        assert_eq!(status["state"], "Pending");
        let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "user-kim");
        let code = code_of(&maps, name).await;
        assert_eq!(code.immutable, Some(true));
    }
    let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "user-kim");
    for system in ["pytorch-pet-setup", "tensorflow-tf-config-generator"] {
        assert!(maps.get_opt(system).await.unwrap().is_some(), "{system}");
    }
}

/// The ConfigMap with a job's code, once the job owns it: the answer to its creation does not wait for that.
async fn code_of(maps: &Api<ConfigMap>, job: &str) -> ConfigMap {
    eventually("the job owns its code", || async {
        let map = maps.get(&format!("{job}-train-script")).await;
        let map = map.map_err(|error| error.to_string())?;
        match map.owner_references() {
            [owner] if owner.name == job => Ok(map),
            owners => Err(format!("{owners:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_form_becomes_the_documented_trainjob() {
    let site = Site::start().await;
    let made = site
        .post("/api/trainjob/create", ADMIN, &form_b("kim", "user-kim"))
        .await
        .ok();
    let name = made["trainjob_name"].as_str().unwrap();
    let jobs: Api<TrainJob> = Api::namespaced(site.plane.client.clone(), "user-kim");
    let job = serde_json::to_value(jobs.get(name).await.unwrap()).unwrap();
    let trainer = &job["spec"]["trainer"];
    assert_eq!(trainer["image"], "tensorflow/tensorflow:2.15.0");
    assert_eq!(trainer["numNodes"], 2);
    assert_eq!(trainer["command"][0], "bash");
    assert_eq!(trainer["command"][1], "-c");
    let script = trainer["command"][2].as_str().unwrap();
    assert!(script.contains("/shared-env/tf_config.env"), "{script}");
    assert!(
        script
            .trim_end()
            .ends_with("python3 /workspace/scripts/train.py"),
        "{script}"
    );
    let resources = json!({
        "requests": { "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1" },
        "limits": { "cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1" },
    });
    assert_eq!(trainer["resourcesPerNode"], resources);
    let without_gpus = site
        .post("/api/trainjob/create", ADMIN, &form_a("kim", "user-kim"))
        .await
        .ok();
    let job = jobs
        .get(without_gpus["trainjob_name"].as_str().unwrap())
        .await
        .unwrap();
    let job = serde_json::to_string(&job.spec).unwrap();
    assert!(!job.contains("nvidia.com/gpu"), "{job}");
}

#[tokio::test]
async fn many_creates_in_one_second_make_as_many_jobs() {
    let site = Site::start().await;
    let token = site.user("kim").await;
    let form = form_a("kim", "user-kim");
    let all = (0..32).map(|_| site.post("/api/trainjob/create", &token, &form));
    let mut names: Vec<String> = join_all(all)
        .await
        .into_iter()
        .map(|answer| answer.ok()["trainjob_name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 32);
}

#[tokio::test]
async fn a_repeated_request_with_a_key_makes_one_job() {
    let mut site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let form = form_a("kim", "user-kim");
    let create = async |site: &Site, token: &str, form: &Value| {
        let headers = [("idempotency-key", "once")];
        site.request(
            Method::POST,
            "/api/trainjob/create",
            token,
            Some(form),
            &headers,
        )
        .await
    };
    let all = (0..16).map(|_| create(&site, &kim, &form));
    let answers: Vec<Value> = join_all(all)
        .await
        .into_iter()
        .map(crate::harness::Answer::ok)
        .collect();
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    let jobs: Api<TrainJob> = Api::namespaced(site.plane.client.clone(), "user-kim");
    assert_eq!(
        jobs.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    let other = create(&site, &kim, &form_b("kim", "user-kim")).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text);
    let theirs = create(&site, &lee, &form_a("lee", "user-lee")).await.ok();
    assert_ne!(theirs["trainjob_name"], answers[0]["trainjob_name"]);
    site.restart_with(|_| {}).await;
    assert_eq!(create(&site, &kim, &form).await.ok(), answers[0]);
    let too_long = "k".repeat(300);
    let headers = [("idempotency-key", too_long.as_str())];
    let refused = site
        .request(
            Method::POST,
            "/api/trainjob/create",
            &kim,
            Some(&form),
            &headers,
        )
        .await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
}

/// A client whose requests to create TrainJobs meet a fault: `answer` makes the answer, after the
/// server has done the work where `done` says so.
fn faulty(
    inner: &Client,
    done: bool,
    answer: fn() -> Result<http::Response<Body>, tower::BoxError>,
    met: &Arc<AtomicUsize>,
) -> Client {
    let (inner, met) = (inner.clone(), Arc::clone(met));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, met) = (inner.clone(), Arc::clone(&met));
        async move {
            let creates = request.method() == http::Method::POST
                && request.uri().path().ends_with("/trainjobs");
            if !creates {
                return inner.send(request).await.map_err(tower::BoxError::from);
            }
            met.fetch_add(1, Ordering::SeqCst);
            if done {
                let _ = inner.send(request).await;
            }
            answer()
        }
    });
    Client::new(service.map_err(tower::BoxError::from), "default")
}

/// A client whose watches of TrainJobs tell late, as those of a busy cluster do.
fn late(inner: &Client) -> Client {
    let inner = inner.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            let watches = request.uri().path().ends_with("/trainjobs")
                && request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch=true"));
            let answer = inner.send(request).await.map_err(tower::BoxError::from)?;
            Ok::<_, tower::BoxError>(answer.map(|body| {
                if !watches {
                    return body.map_err(tower::BoxError::from).boxed_unsync();
                }
                let late = body.into_data_stream().then(|data| async {
                    // Everybody else has many turns before.
                    for _ in 0..10_000 {
                        tokio::task::yield_now().await;
                    }
                    data.map(Frame::data)
                });
                let body = StreamBody::new(late);
                body.map_err(tower::BoxError::from).boxed_unsync()
            }))
        }
    });
    Client::new(service.map_err(tower::BoxError::from), "default")
}

#[tokio::test]
async fn a_job_is_seen_as_soon_as_it_is_made_however_late_the_watches_are() {
    let site = Site::start_with(|options| options.client = late(&options.client)).await;
    let form = form_a("kim", "user-kim");
    let made = site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    let name = made["trainjob_name"].as_str().unwrap();
    let listed = site.get("/api/trainjobs", ADMIN).await.ok();
    assert_eq!(listed["items"][0]["name"], name, "{listed}");

    // Another replica makes one: nothing here knows of it.
    let jobs: Api<TrainJob> = Api::namespaced(site.plane.client.clone(), "user-kim");
    let job = json!({ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                      "metadata": { "name": "elsewhere" }, "spec": { "runtimeRef": { "name": "pytorch-simple" } } });
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    for path in ["/api/trainjob/elsewhere/status", "/api/trainjobs/elsewhere"] {
        let path = format!("{path}?namespace=user-kim");
        site.get(&path, ADMIN).await.ok();
    }
    let missing = "/api/trainjob/nowhere/status?namespace=user-kim";
    assert_eq!(site.get(missing, ADMIN).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_job_waits_until_kubeflows_webhook_knows_its_runtime() {
    let met = Arc::new(AtomicUsize::new(0));
    let site = Site::start_with(|options| {
        options.cluster.extended = false;
        let (inner, met) = (options.client.clone(), Arc::clone(&met));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (inner, met) = (inner.clone(), Arc::clone(&met));
            async move {
                let creates = request.method() == Method::POST
                    && request.uri().path().ends_with("/trainjobs");
                if creates && met.fetch_add(1, Ordering::SeqCst) < 2 {
                    return denial(
                        "spec.runtimeRef: Invalid value: TrainingRuntime \"kim\" not found",
                    );
                }
                inner.send(request).await.map_err(tower::BoxError::from)
            }
        });
        options.client = Client::new(service.map_err(tower::BoxError::from), "default");
    })
    .await;
    let mut form = form_a("kim", "user-kim");
    form["max_restarts"] = json!(1);
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    assert_eq!(met.load(Ordering::SeqCst), 3);
    // A runtime that is not there is not waited for.
    met.store(1, Ordering::SeqCst);
    form.as_object_mut().unwrap().remove("max_restarts");
    let answer = site.post("/api/trainjob/create", ADMIN, &form).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
}

fn refusal(code: u16, reason: &str) -> Result<http::Response<Body>, tower::BoxError> {
    status(code, reason, "refused by a test")
}

fn denial(message: &str) -> Result<http::Response<Body>, tower::BoxError> {
    status(403, "Forbidden", message)
}

fn status(code: u16, reason: &str, message: &str) -> Result<http::Response<Body>, tower::BoxError> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                         "message": message, "reason": reason, "code": code });
    let body = Body::from(status.to_string().into_bytes());
    Ok(http::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(body)?)
}

#[tokio::test]
async fn a_fault_in_the_middle_of_create_leaves_nothing_of_it() {
    type Fault = fn() -> Result<http::Response<Body>, tower::BoxError>;
    let faults: [(&str, Fault, StatusCode); 5] = [
        (
            "forbidden",
            || refusal(403, "Forbidden"),
            StatusCode::FORBIDDEN,
        ),
        (
            "invalid",
            || refusal(422, "Invalid"),
            StatusCode::BAD_REQUEST,
        ),
        (
            "our fault",
            || refusal(500, "InternalError"),
            StatusCode::INTERNAL_SERVER_ERROR,
        ),
        (
            "overloaded",
            || refusal(429, "TooManyRequests"),
            StatusCode::TOO_MANY_REQUESTS,
        ),
        (
            "cut off",
            || Err("connection reset".into()),
            StatusCode::SERVICE_UNAVAILABLE,
        ),
    ];
    for (what, fault, want) in faults {
        let met = Arc::new(AtomicUsize::new(0));
        let site = Site::start_with(|options| {
            options.client = faulty(&options.client, false, fault, &met);
        })
        .await;
        let mut form = form_a("kim", "user-kim");
        form["checkpoint"] = json!(true);
        let answer = site.post("/api/trainjob/create", ADMIN, &form).await;
        assert_eq!(answer.status, want, "{what}: {}", answer.text);
        assert_eq!(met.load(Ordering::SeqCst), 1, "{what}");
        let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "user-kim");
        let left: Vec<String> = maps
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| name.ends_with("-train-script"))
            .collect();
        assert!(left.is_empty(), "{what}: {left:?}");
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(site.plane.client.clone(), "user-kim");
        assert!(
            claims
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .is_empty(),
            "{what}"
        );
        if want.is_server_error() && want == StatusCode::INTERNAL_SERVER_ERROR {
            assert!(
                !answer.text.contains("refused by a test"),
                "{}",
                answer.text
            );
            assert!(answer.json["error"]["request_id"].is_string());
        }
    }
}

#[tokio::test]
async fn a_request_that_a_crash_interrupted_can_be_sent_again() {
    let site = Site::start().await;
    let mut form = form_a("kim", "user-kim");
    (form["name"], form["checkpoint"]) = (json!("demo"), json!(true));
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    let client = site.plane.client.clone();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "user-kim");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "user-kim");
    let (mut map, mut claim) = (
        code_of(&maps, "demo").await,
        claims.get("demo-checkpoints").await.unwrap(),
    );
    site.delete("/api/trainjob/demo?namespace=user-kim", ADMIN)
        .await
        .ok();
    eventually("its belongings are gone", || async {
        let map = maps.get_opt("demo-train-script").await.unwrap();
        let claim = claims.get_opt("demo-checkpoints").await.unwrap();
        if map.is_none() && claim.is_none() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    // As they were before there was a job to own them.
    for metadata in [&mut map.metadata, &mut claim.metadata] {
        (
            metadata.uid,
            metadata.resource_version,
            metadata.owner_references,
        ) = (None, None, None);
    }
    claim.metadata.finalizers = None;
    maps.create(&PostParams::default(), &map).await.unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();

    let mut other = form.clone();
    other["training_code"] = json!("print('something else')");
    let answer = site.post("/api/trainjob/create", ADMIN, &other).await;
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);
    site.post("/api/trainjob/create", ADMIN, &form).await.ok();
    let map = code_of(&maps, "demo").await;
    assert_eq!(map.owner_references().len(), 1);
    let answer = site.post("/api/trainjob/create", ADMIN, &form).await;
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);

    // Nor is anything left of a job that was made and never given what belongs to it.
    let orphaned = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    let parameters = PatchParams::default();
    maps.patch("demo-train-script", &parameters, &orphaned)
        .await
        .unwrap();
    claims
        .patch("demo-checkpoints", &parameters, &orphaned)
        .await
        .unwrap();
    site.delete("/api/trainjob/demo?namespace=user-kim", ADMIN)
        .await
        .ok();
    eventually("what had no owner is gone", || async {
        let map = maps.get_opt("demo-train-script").await.unwrap();
        let claim = claims.get_opt("demo-checkpoints").await.unwrap();
        if map.is_none() && claim.is_none() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
}

#[tokio::test]
async fn a_job_whose_answer_was_lost_keeps_its_code() {
    let met = Arc::new(AtomicUsize::new(0));
    let site = Site::start_with(|options| {
        options.client = faulty(
            &options.client,
            true,
            || Err("connection reset".into()),
            &met,
        );
    })
    .await;
    let made = site
        .post("/api/trainjob/create", ADMIN, &form_a("kim", "user-kim"))
        .await
        .ok();
    let name = made["trainjob_name"].as_str().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "user-kim");
    code_of(&maps, name).await;
}

#[tokio::test]
async fn deleting_a_job_takes_its_code_and_keeps_the_frameworks() {
    let site = Site::start().await;
    let token = site.user("kim").await;
    let made = site
        .post("/api/trainjob/create", &token, &form_a("kim", "user-kim"))
        .await
        .ok();
    let name = made["trainjob_name"].as_str().unwrap();
    site.delete(&format!("/api/trainjob/{name}?namespace=user-kim"), &token)
        .await
        .ok();
    // The garbage collector takes what the job came to own just before.
    let traces = eventually("nothing is left of the job", || async {
        let traces = site.traces().await;
        let is_gone = !traces.iter().any(|trace| trace.contains(name));
        is_gone.then_some(traces.clone()).ok_or(traces.join(" "))
    })
    .await;
    assert!(
        traces.contains(&"configmap/pytorch-pet-setup".to_owned()),
        "{traces:?}"
    );
    let again = site
        .delete(&format!("/api/trainjob/{name}?namespace=user-kim"), &token)
        .await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_namespace_beside_ones_own_is_made_on_purpose_and_never_becomes_ones_own() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let exp = json!({ "name": "exp" });
    site.post("/api/namespaces", ADMIN, &exp).await.ok();
    let known = |list: &Value| list.to_string().contains("\"exp\"");
    site.until("/api/namespaces", ADMIN, known).await;
    let me = site.get("/api/whoami", ADMIN).await.ok();
    assert_eq!(me["namespace"], Value::Null, "{me}");
    let again = site.post("/api/namespaces", ADMIN, &exp).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    // Jobs of others, and a job of one's own in another namespace, change nothing either.
    let other = form_a("kim", "other");
    site.post("/api/trainjob/create", ADMIN, &other).await.ok();
    let me = site.get("/api/whoami", &kim).await.ok();
    assert_eq!(me["namespace"], "user-kim");
    let not_theirs = site
        .post("/api/namespaces", &kim, &json!({ "name": "team" }))
        .await;
    assert_eq!(not_theirs.status, StatusCode::FORBIDDEN);
    let wrong = site
        .post("/api/namespaces", &kim, &json!({ "name": "Not A Name" }))
        .await;
    assert_eq!(wrong.fields(), ["name"]);
}

#[tokio::test]
async fn what_is_applied_with_a_field_that_nobody_knows_is_refused() {
    let site = Site::start().await;
    let object = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": "typo", "namespace": "default" },
        "spec": { "runtimeRef": { "name": "pytorch-simple" }, "trainer": { "numNode": 2 } },
    });
    let answer = site
        .post("/api/apply?namespace=default", ADMIN, &object)
        .await;
    assert!(answer.status.is_client_error(), "{}", answer.text);
    assert!(answer.text.contains("numNode"), "{}", answer.text);
}
