//! What the API server refuses of v1 jobs, TrainJobs and runtimes by the rules in their definitions, without a webhook.

use astrago_testkit::Plane;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

fn replica(container: &str) -> Value {
    json!({ "template": { "spec": { "containers": [{ "name": container, "image": "i" }] } } })
}

#[expect(clippy::needless_pass_by_value, reason = "made for this call")]
fn v1(kind: &str, spec: Value) -> Value {
    json!({ "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": { "name": "demo" }, "spec": spec })
}

/// A PyTorchJob of a master and a worker with a JSON merge patch on it.
fn pytorch(change: Value) -> Value {
    let specs = json!({ "Master": replica("pytorch"), "Worker": replica("pytorch") });
    let mut job = v1("PyTorchJob", json!({ "pytorchReplicaSpecs": specs }));
    merge(&mut job, change);
    job
}

/// A JSON merge patch.
fn merge(object: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *object = change;
        return;
    };
    for (name, value) in change {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(&name);
        } else if object[&name].is_object() && value.is_object() {
            merge(&mut object[&name], value);
        } else {
            object[&name] = value;
        }
    }
}

fn api(plane: &Plane, object: &Value, plural: &str) -> Api<DynamicObject> {
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    if object["kind"] == "ClusterTrainingRuntime" {
        return Api::all_with(plane.client.clone(), &resource);
    }
    Api::namespaced_with(plane.client.clone(), astrago_testkit::NAMESPACE, &resource)
}

/// What is wrong with an object, as `field: message`; nothing if it is taken.
async fn problems(plane: &Plane, object: &Value) -> Vec<String> {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let object_: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api(plane, object, &plural).create(&dry, &object_).await {
        Ok(_) => Vec::new(),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            let causes = status
                .details
                .into_iter()
                .flat_map(|details| details.causes);
            causes
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect()
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_bad_v1_job_is_refused_with_all_that_is_wrong() {
    let plane = Plane::start().await;
    let cases: Vec<(&str, Value, &[&str])> = vec![
        (
            "master_twice",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}})),
            &["spec.pytorchReplicaSpecs.Master.replicas: Forbidden: must be 1"],
        ),
        (
            "unknown_type",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"Boss": replica("pytorch")}}})),
            &[
                "spec.pytorchReplicaSpecs: Invalid value: \"object\": has a replica type that is not supported; supported values: Master, Worker",
            ],
        ),
        (
            "type_twice",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"worker": replica("pytorch")}}})),
            &[
                "spec.pytorchReplicaSpecs: Invalid value: \"object\": must not have a replica type twice",
            ],
        ),
        (
            "no_replicas",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"Master": null, "Worker": null}}})),
            &["spec.pytorchReplicaSpecs: Required value: must be specified"],
        ),
        (
            "nobody",
            pytorch(
                json!({"spec": {"pytorchReplicaSpecs": {"Master": null, "Worker": {"replicas": 0}}}}),
            ),
            &[
                "spec.pytorchReplicaSpecs: Invalid value: \"object\": must have at least one replica",
            ],
        ),
        (
            "wrong_container",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"Worker": replica("torch")}}})),
            &[
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must have at least one container with name pytorch",
            ],
        ),
        (
            "no_containers",
            pytorch(
                json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}}),
            ),
            &[
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must be specified",
            ],
        ),
        (
            "no_template",
            pytorch(json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": null}}}})),
            &[
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must be specified",
            ],
        ),
        (
            "no_image",
            pytorch(
                json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}}}}),
            ),
            &[
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
            ],
        ),
        (
            "name",
            pytorch(json!({"metadata": {"name": "1st"}})),
            &[
                "<nil>: Invalid value: \"object\": metadata.name should match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            ],
        ),
        (
            "long_name",
            pytorch(json!({"metadata": {"name": "a".repeat(55)}})),
            &[
                "<nil>: Invalid value: \"object\": metadata.name must be short enough for the names of its pods, <name>-<type>-<index>, to fit into 63 characters",
            ],
        ),
        (
            "processes",
            pytorch(json!({"spec": {"nprocPerNode": "many"}})),
            &[
                "spec.nprocPerNode: Invalid value: \"object\": must be auto, cpu, gpu or a positive number",
            ],
        ),
        (
            "elastic_without_worker",
            pytorch(
                json!({"spec": {"elasticPolicy": {}, "pytorchReplicaSpecs": {"Worker": null}}}),
            ),
            &[
                "spec.pytorchReplicaSpecs: Required value: must configure Worker when an elasticPolicy is used",
            ],
        ),
        (
            "elastic_twice",
            pytorch(json!({"spec": {"nprocPerNode": "2", "elasticPolicy": {"nProcPerNode": 2}}})),
            &[
                "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
            ],
        ),
        (
            "elastic_bounds",
            pytorch(json!({"spec": {"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}})),
            &[
                "spec.elasticPolicy.minReplicas: Invalid value: \"object\": must not be greater than maxReplicas",
            ],
        ),
        (
            "elastic_zero",
            pytorch(json!({"spec": {"elasticPolicy": {"minReplicas": 0}}})),
            &["spec.elasticPolicy.minReplicas: Invalid value: \"object\": must be at least 1"],
        ),
        (
            "negative",
            pytorch(json!({"spec": {"runPolicy": {"backoffLimit": -1}}})),
            &[
                "spec.runPolicy.backoffLimit: Invalid value: -1: spec.runPolicy.backoffLimit in body should be greater than or equal to 0",
            ],
        ),
        (
            "manager",
            pytorch(json!({"spec": {"runPolicy": {"managedBy": "me"}}})),
            &[
                "spec.runPolicy.managedBy: Invalid value: \"string\": spec.runPolicy.managedBy must be either kubeflow.org/training-operator or kueue.x-k8s.io/multikueue",
            ],
        ),
        (
            "all_at_once",
            pytorch(
                json!({"spec": {"nprocPerNode": "0", "pytorchReplicaSpecs": {"Master": {"replicas": 3}, "Worker": replica("x")}}}),
            ),
            &[
                "spec.nprocPerNode: Invalid value: \"object\": must be auto, cpu, gpu or a positive number",
                "spec.pytorchReplicaSpecs.Master.replicas: Forbidden: must be 1",
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must have at least one container with name pytorch",
            ],
        ),
        (
            "two_chiefs",
            v1(
                "TFJob",
                json!({"tfReplicaSpecs": {"Chief": replica("tensorflow"), "Master": replica("tensorflow")}}),
            ),
            &["spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role"],
        ),
        (
            "success_policy",
            v1(
                "TFJob",
                json!({"successPolicy": "Any", "tfReplicaSpecs": {"Worker": replica("tensorflow")}}),
            ),
            &["spec.successPolicy: Invalid value: \"object\": must be empty or AllWorkers"],
        ),
        (
            "no_launcher",
            v1(
                "MPIJob",
                json!({"mpiReplicaSpecs": {"Worker": replica("mpi")}}),
            ),
            &["spec.mpiReplicaSpecs: Required value: must have Launcher"],
        ),
        (
            "slots",
            v1(
                "MPIJob",
                json!({"slotsPerWorker": 0, "mpiReplicaSpecs": {"Launcher": replica("mpi")}}),
            ),
            &["spec.slotsPerWorker: Invalid value: \"object\": must be at least 1"],
        ),
        (
            "main_container",
            v1(
                "MPIJob",
                json!({"mainContainer": "x", "mpiReplicaSpecs": {"Launcher": replica("mpi")}}),
            ),
            &[
                "spec.mainContainer: Invalid value: \"object\": must be the name of a container of every replica type",
            ],
        ),
        (
            "no_master",
            v1(
                "XGBoostJob",
                json!({"xgbReplicaSpecs": {"Worker": replica("xgboost")}}),
            ),
            &["spec.xgbReplicaSpecs: Required value: must have Master"],
        ),
        (
            "job_mode",
            v1(
                "MXJob",
                json!({"jobMode": "x", "mxReplicaSpecs": {"Worker": replica("mxnet")}}),
            ),
            &["spec.jobMode: Invalid value: \"object\": must be MXTrain or MXTune"],
        ),
        (
            "jax_type",
            v1(
                "JAXJob",
                json!({"jaxReplicaSpecs": {"Worker": replica("jax"), "Master": replica("jax")}}),
            ),
            &[
                "spec.jaxReplicaSpecs: Invalid value: \"object\": has a replica type that is not supported; supported values: Worker",
            ],
        ),
        ("good", pytorch(json!({})), &[]),
        (
            "good_in_any_case",
            pytorch(
                json!({"spec": {"pytorchReplicaSpecs": {"Master": null, "master": replica("pytorch")}}}),
            ),
            &[],
        ),
        (
            "good_with_any_container_of_mpi",
            v1(
                "MPIJob",
                json!({"mpiReplicaSpecs": {"Launcher": replica("main")}}),
            ),
            &[],
        ),
        (
            "good_paddle_with_two_masters",
            v1(
                "PaddleJob",
                json!({"paddleReplicaSpecs": {"Master":
    {"replicas": 2, "template": replica("paddle")["template"]}}}),
            ),
            &[],
        ),
    ];
    for (name, job, want) in cases {
        let mut got = problems(&plane, &job).await;
        got.sort();
        assert_eq!(got, want, "{name}");
    }
}

#[tokio::test]
async fn an_update_is_held_to_the_same_rules() {
    let plane = Plane::start().await;
    let job = pytorch(json!({}));
    let jobs = api(&plane, &job, "pytorchjobs");
    let object: DynamicObject = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &object).await.unwrap();
    let patch = json!({"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}});
    let patched = jobs
        .patch(
            "demo",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await;
    let Err(kube::Error::Api(status)) = patched else {
        panic!("{patched:?}");
    };
    assert_eq!(status.code, 422);
    assert!(status.message.contains("must be 1"), "{}", status.message);
}

#[expect(clippy::needless_pass_by_value, reason = "made for this call")]
fn runtime(job: Value) -> Value {
    json!({ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": { "name": "demo" },
        "spec": { "template": { "spec": { "replicatedJobs": [job] } } } })
}

fn job_of_runtime(step: &str, container: &str, replicas: i32) -> Value {
    json!({ "name": "node", "replicas": replicas, "template": {
        "metadata": { "labels": { "trainer.kubeflow.org/trainjob-ancestor-step": step } },
        "spec": { "template": { "spec": { "containers": [{ "name": container, "image": "i" }] } } } } })
}

#[expect(clippy::needless_pass_by_value, reason = "made for this call")]
fn patched(manager: &str, containers: Value) -> Value {
    json!({ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": { "name": "demo" }, "spec": {
        "runtimeRef": { "name": "any" },
        "runtimePatches": [{ "manager": manager, "trainingRuntimeSpec": { "template": { "spec": { "replicatedJobs": [{
            "name": "node", "template": { "spec": { "template": { "spec": { "containers": containers } } } } }] } } } }] } })
}

const JOB: &str = "spec.template.spec.replicatedJobs[0]";
const CONTAINERS: &str = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec.containers";

#[tokio::test]
async fn what_upstream_refuses_by_webhook_is_refused() {
    let plane = Plane::start().await;
    let cases: Vec<(&str, Value, Vec<String>)> = vec![
("good", runtime(job_of_runtime("trainer", "node", 1)), vec![]),
("no_role", runtime(job_of_runtime("other", "x", 2)), vec![]),
("two_trainers", runtime(job_of_runtime("trainer", "node", 2)),
    vec![format!("{JOB}.replicas: Invalid value: \"object\": always must be 1")]),
("no_node", runtime(job_of_runtime("trainer", "x", 1)),
    vec![format!("{JOB}.template.spec.template.spec.containers: Invalid value: \"object\": must contain the required container for the ancestor: trainer")]),
("no_initializer", runtime(job_of_runtime("dataset-initializer", "node", 1)),
    vec![format!("{JOB}.template.spec.template.spec.containers: Invalid value: \"object\": must contain the required container for the ancestor: dataset-initializer")]),
("environment_of_node", patched("acme.io/x", json!([{ "name": "node", "env": [{ "name": "A", "value": "b" }] }])),
    vec![format!("{CONTAINERS}[0].env: Invalid value: \"object\": must not have envs for the dataset-initializer, model-initializer, node containers")]),
("environment_of_another", patched("acme.io/x", json!([{ "name": "sidecar", "env": [{ "name": "A", "value": "b" }] }])), vec![]),
("manager", patched("me", json!([])),
    vec!["spec.runtimePatches[0].manager: Invalid value: \"string\": must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()]),
    ];
    for (name, object, want) in cases {
        assert_eq!(problems(&plane, &object).await, want, "{name}");
    }
}
