//! Every feature that the examples of the Training Operator v1 show, as in [`crate::upstream_features`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::target::{NO_V1_JOBS, Target, applies};
use crate::upstream_features::{condition, container, create, get, start, with};

/// A v1 job with the given replicas of each type, all of which run the same.
fn v1(kind: &str, replicas: &[(&str, u64)], policy: &str, script: &str) -> Value {
    let (field, name) = match kind {
        "PyTorchJob" => ("pytorchReplicaSpecs", "pytorch"),
        "TFJob" => ("tfReplicaSpecs", "tensorflow"),
        "XGBoostJob" => ("xgbReplicaSpecs", "xgboost"),
        "PaddleJob" => ("paddleReplicaSpecs", "paddle"),
        "JAXJob" => ("jaxReplicaSpecs", "jax"),
        _ => ("mpiReplicaSpecs", "mpi"),
    };
    let specs: BTreeMap<&str, Value> = replicas
        .iter()
        .map(|(role, count)| {
            let template = json!({ "spec": { "containers": [container(name, script)] } });
            (
                *role,
                json!({ "replicas": count, "restartPolicy": policy, "template": template }),
            )
        })
        .collect();
    json!({ "kind": kind, "spec": { field: specs } })
}

fn v1_jobs() -> Vec<(&'static str, Value)> {
    let two = &[("Master", 1), ("Worker", 1)];
    let torch = |world: u64| format!(r#"[ "$WORLD_SIZE" = {world} ]; [ -n "$MASTER_ADDR" ]"#);
    let elastic =
        r#"[ "$PET_RDZV_BACKEND" = c10d ]; [ "$PET_NNODES" = 1:3 ]; [ "$PET_MAX_RESTARTS" = 100 ]"#;
    let policy =
        json!({ "rdzvBackend": "c10d", "minReplicas": 1, "maxReplicas": 3, "maxRestarts": 100 });
    let gpu = |job: Value, place: &str| {
        with(
            job,
            &format!("{place}.resources.limits"),
            json!({ "nvidia.com/gpu": 1 }),
        )
    };
    let first = |field: &str, role: &str| format!("spec.{field}.{role}.template.spec.containers.0");
    let claim =
        json!([{ "name": "training", "persistentVolumeClaim": { "claimName": "training" } }]);
    let mount = json!([{ "name": "training", "mountPath": "/train" }]);
    let stored = |job: Value, field: &str, role: &str| {
        let job = with(
            job,
            &format!("{}.volumeMounts", first(field, role)),
            mount.clone(),
        );
        with(
            job,
            &format!("spec.{field}.{role}.template.spec.volumes"),
            claim.clone(),
        )
    };
    let memory = json!([{ "name": "training", "emptyDir": { "medium": "Memory" } }]);
    let tf = r#"echo "$TF_CONFIG" | grep -q '"cluster"'"#;
    // A parameter server that runs for ever does not keep the job from its end.
    let server = format!(
        r#"{tf}; echo "$TF_CONFIG" | grep -q '"type": *"ps"' && exec sleep infinity; exit 0"#
    );
    let mut mpi = v1(
        "MPIJob",
        &[("Launcher", 1), ("Worker", 2)],
        "Never",
        "test -s /etc/mpi/hostfile; test -x /etc/mpi/discover_hosts.sh",
    );
    mpi["spec"]["slotsPerWorker"] = json!(1);
    mpi["spec"]["runPolicy"] = json!({ "cleanPodPolicy": "Running" });
    mpi["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"] =
        json!(["sleep", "infinity"]);
    vec![
        ("torch", v1("PyTorchJob", two, "OnFailure", &torch(2))),
        (
            "torch-processes",
            with(
                v1("PyTorchJob", two, "OnFailure", &torch(4)),
                "spec.nprocPerNode",
                json!("2"),
            ),
        ),
        (
            "torch-four",
            v1(
                "PyTorchJob",
                &[("Master", 1), ("Worker", 3)],
                "OnFailure",
                &torch(4),
            ),
        ),
        (
            "torch-gpu",
            gpu(
                v1("PyTorchJob", two, "OnFailure", &torch(2)),
                &first("pytorchReplicaSpecs", "Worker"),
            ),
        ),
        (
            "torch-elastic",
            with(
                v1("PyTorchJob", &[("Worker", 2)], "OnFailure", elastic),
                "spec.elasticPolicy",
                policy.clone(),
            ),
        ),
        (
            "torch-metrics",
            with(
                v1("PyTorchJob", &[("Worker", 2)], "OnFailure", elastic),
                "spec.elasticPolicy",
                with(
                    policy,
                    "metrics",
                    json!([{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 80 } } }]),
                ),
            ),
        ),
        (
            "tf-servers",
            v1(
                "TFJob",
                &[("Chief", 1), ("PS", 1), ("Worker", 2)],
                "Never",
                &server,
            ),
        ),
        ("tf-workers", v1("TFJob", &[("Worker", 2)], "OnFailure", tf)),
        (
            "tf-stored",
            stored(
                with(
                    v1(
                        "TFJob",
                        &[("Worker", 2)],
                        "Never",
                        "echo event >> /train/log",
                    ),
                    "spec.runPolicy",
                    json!({ "cleanPodPolicy": "None" }),
                ),
                "tfReplicaSpecs",
                "Worker",
            ),
        ),
        (
            "xgboost",
            v1(
                "XGBoostJob",
                &[("Master", 1), ("Worker", 2)],
                "Never",
                r#"[ "$WORLD_SIZE" = 3 ]; [ -n "$MASTER_ADDR" ]"#,
            ),
        ),
        (
            "xgboost-exit-code",
            stored(
                v1(
                    "XGBoostJob",
                    &[("Master", 1), ("Worker", 2)],
                    "ExitCode",
                    "echo \"$RANK\" > /dev/null; sleep 1",
                ),
                "xgbReplicaSpecs",
                "Worker",
            ),
        ),
        (
            "paddle",
            v1(
                "PaddleJob",
                &[("Worker", 2)],
                "OnFailure",
                r#"[ -n "$PADDLE_MASTER" ]; [ "$PADDLE_NNODES" = 2 ]"#,
            ),
        ),
        (
            "paddle-gpu",
            with(
                gpu(
                    with(
                        v1(
                            "PaddleJob",
                            &[("Worker", 2)],
                            "OnFailure",
                            "grep -q ' /train tmpfs' /proc/mounts",
                        ),
                        &format!("{}.volumeMounts", first("paddleReplicaSpecs", "Worker")),
                        mount.clone(),
                    ),
                    &first("paddleReplicaSpecs", "Worker"),
                ),
                "spec.paddleReplicaSpecs.Worker.template.spec.volumes",
                memory,
            ),
        ),
        (
            "jax",
            v1(
                "JAXJob",
                &[("Worker", 2)],
                "OnFailure",
                r#"[ "$NUM_PROCESSES" = 2 ]; [ -n "$PROCESS_ID" ]; [ -n "$COORDINATOR_ADDRESS" ]"#,
            ),
        ),
        ("mpi", mpi),
    ]
}

#[test]
fn the_features_of_the_v1_examples_end_well() {
    if !applies(Target::runs_v1_jobs, NO_V1_JOBS) {
        return;
    }
    let Some(up) = start() else { return };
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "training" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Mi" } } },
    })];
    for (name, mut job) in v1_jobs() {
        job["apiVersion"] = json!("kubeflow.org/v1");
        job["metadata"] = json!({ "name": name });
        objects.push(job);
    }
    create(&up, &objects).unwrap();
    let kinds = "pytorchjobs,tfjobs,xgboostjobs,paddlejobs,jaxjobs,mpijobs";
    up.eventually("the end of every job", |up| {
        let found = get(up, kinds);
        let jobs = found["items"].as_array().unwrap();
        assert_eq!(jobs.len(), objects.len() - 1);
        for job in jobs {
            assert!(!condition(job, "Failed"), "{job:#}");
        }
        let left: Vec<&Value> = jobs
            .iter()
            .filter(|job| !condition(job, "Succeeded"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(json!(left))
        }
    });
}
