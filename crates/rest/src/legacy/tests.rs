use serde_json::json;

use super::*;

fn job(conditions: &Value) -> PyTorchJob {
    let replica = |count: i32| {
        json!({ "replicas": count, "template": { "spec": { "containers": [
            { "name": "sidecar", "image": "other" },
            { "name": "pytorch", "image": "torch:1", "command": ["python", "train.py"] }] } } })
    };
    let object = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": { "name": "old", "namespace": "team", "uid": "u", "resourceVersion": "1" },
        "spec": { "runPolicy": { "backoffLimit": 3 },
            "pytorchReplicaSpecs": { "Worker": replica(2), "master": replica(1) } },
        "status": { "conditions": conditions, "replicaStatuses": { "Worker": { "restarts": 2 } } },
    });
    serde_json::from_value(object).unwrap()
}

fn pod(replica_type: &str, index: Option<&str>) -> Pod {
    let mut pod = Pod::default();
    let labels = pod.labels_mut();
    labels.insert(labels::TRAINING_REPLICA_TYPE.into(), replica_type.into());
    if let Some(index) = index {
        labels.insert(labels::TRAINING_REPLICA_INDEX.into(), index.into());
    }
    pod
}

fn shown(conditions: &Value) -> Shown {
    show(Kind::of("PyTorchJob").unwrap(), &job(conditions))
}

#[test]
fn the_master_is_rank_0_and_the_workers_follow() {
    let shown = shown(&json!([]));
    assert_eq!(shown.num_nodes, 3);
    assert_eq!(shown.rank(&pod("master", Some("0"))), Some(0));
    assert_eq!(shown.rank(&pod("worker", Some("1"))), Some(2));
    assert_eq!(shown.rank(&pod("evaluator", Some("0"))), None);
    assert_eq!(shown.restarts, 2);
}

#[test]
fn the_training_container_tells_image_and_command() {
    let shown = shown(&json!([]));
    let trainer = shown.job.spec.trainer.as_ref().unwrap();
    assert_eq!(trainer.image.as_deref(), Some("torch:1"));
    assert_eq!(trainer.command, ["python", "train.py"]);
    assert_eq!(shown.job.max_restarts(), Ok(Some(3)));
    assert_eq!(shown.job.labels()[crate::names::FRAMEWORK], "pytorch");
}

#[test]
fn conditions_are_told_in_the_words_of_a_train_job() {
    let running = shown(&json!([{ "type": "Running", "status": "True" }]));
    assert!(!running.job.is_finished());
    let done = shown(&json!([
        { "type": "Running", "status": "False" },
        { "type": "Succeeded", "status": "True", "message": "done" }]));
    assert!(done.job.is_complete());
    assert_eq!(done.job.conditions()[0].message, "done");
    let failed =
        shown(&json!([{ "type": "Failed", "status": "True", "reason": "PyTorchJobFailed" }]));
    assert!(failed.job.is_failed());
}

#[test]
fn a_job_is_found_by_its_name_and_stored_as_it_was() {
    let mirrors = Mirrors::default();
    mirrors.pytorch_jobs.observe(job(&json!([])));
    let key = Key::new("team", "old");
    assert_eq!(find(&mirrors, &key).unwrap().kind.plural, "pytorchjobs");
    assert_eq!(manifest(&mirrors, &key).unwrap()["kind"], "PyTorchJob");
    assert_eq!(list(&mirrors, Some("team")).len(), 1);
    assert!(list(&mirrors, Some("others")).is_empty());
    assert!(find(&mirrors, &Key::new("team", "new")).is_none());
}
