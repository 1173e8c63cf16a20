//! From a checked request to the objects that are created for it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Code, Delivery, JobRequest, SCRIPTS, Volume, VolumeSource, checkpoint, code};
use crate::names;

/// How a cluster's Trainer wants changes to the runtime's pods written.
///
/// Trainer up to v2.1 takes `podTemplateOverrides`; v2.2 and later take `runtimePatches` and drop
/// the former without a word. The embedded engine takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    PodTemplateOverrides,
    RuntimePatches,
}

/// Everything that one create request makes, in the order in which it is made.
pub(crate) struct Manifests {
    /// Shared by the namespace's jobs of this framework; made once and kept.
    pub(crate) system: Option<ConfigMap>,
    /// This job's code; owned by the TrainJob.
    pub(crate) code: Option<ConfigMap>,
    /// The code of all jobs with this snapshot; owned by all of them.
    pub(crate) snapshot: Option<ConfigMap>,
    /// Where this job keeps its checkpoints; owned by the TrainJob.
    pub(crate) checkpoints: Option<PersistentVolumeClaim>,
    pub(crate) train_job: Value,
}

/// Builds the objects for the job called `name`. `labels` and `annotations` are added to the
/// TrainJob's own.
pub(crate) fn build(
    request: &JobRequest,
    name: &str,
    dialect: Dialect,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Manifests {
    Manifests {
        system: system_config_map(request),
        code: code_config_map(request, name),
        snapshot: snapshot_config_map(request),
        checkpoints: checkpoint::claim(request, name),
        train_job: train_job(request, name, dialect, labels, annotations),
    }
}

fn system_config_map(request: &JobRequest) -> Option<ConfigMap> {
    let (name, file, content) = request.framework.system_config_map()?;
    Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(request.namespace.clone()),
            labels: Some([(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([(file.to_owned(), content.to_owned())].into()),
        ..ConfigMap::default()
    })
}

fn code_config_map(request: &JobRequest, name: &str) -> Option<ConfigMap> {
    let Code::Inline(code) = &request.code else {
        return None;
    };
    let labels = [
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::JOB.to_owned(), name.to_owned()),
        (names::USER.to_owned(), request.user.clone()),
    ];
    Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(code_config_map_name(name)),
            namespace: Some(request.namespace.clone()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: Some([("train.py".to_owned(), code.clone())].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

fn snapshot_config_map(request: &JobRequest) -> Option<ConfigMap> {
    match (&request.code, &request.delivery) {
        (Code::Snapshot { digest, .. }, Some(Delivery::ConfigMap(files))) => {
            Some(code::snapshot_config_map(&request.namespace, digest, files))
        }
        _ => None,
    }
}

/// The name of the ConfigMap with a job's code.
pub(crate) fn code_config_map_name(job: &str) -> String {
    format!("{job}-train-script")
}

fn train_job(
    request: &JobRequest,
    name: &str,
    dialect: Dialect,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Value {
    let mut all_labels = labels.clone();
    all_labels.insert(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned());
    all_labels.insert(names::USER.to_owned(), request.user.clone());
    all_labels.insert(
        names::FRAMEWORK.to_owned(),
        request.framework.name().to_owned(),
    );
    let mut all_annotations = annotations.clone();
    if let Some(restarts) = request.max_restarts {
        all_annotations.insert(names::MAX_RESTARTS.to_owned(), restarts.to_string());
    }
    all_annotations.insert(names::RETRY.to_owned(), request.retry.to_owned());
    // As annotations, so that the job is valid on a cluster whose TrainJob does not know the fields.
    if let Some(seconds) = request.ttl_seconds_after_finished {
        all_annotations.insert(
            names::TTL_SECONDS_AFTER_FINISHED.to_owned(),
            seconds.to_string(),
        );
    }
    let launcher = [
        (names::LAUNCHER_CPU, &request.launcher.cpu),
        (names::LAUNCHER_MEMORY, &request.launcher.memory),
    ];
    for (key, amount) in launcher {
        if let Some(amount) = amount {
            all_annotations.insert(key.to_owned(), amount.clone());
        }
    }
    if let Code::Snapshot { digest, .. } = &request.code {
        all_annotations.insert(names::SNAPSHOT.to_owned(), digest.to_string());
    }
    if let Some(source) = &request.source {
        let (repository, commit) = (source.repository.clone(), source.commit.clone());
        all_annotations.insert(names::SOURCE_REPOSITORY.to_owned(), repository);
        all_annotations.insert(names::SOURCE_COMMIT.to_owned(), commit);
    }
    if let Some(priority) = request.priority {
        all_annotations.insert(names::PRIORITY.to_owned(), priority.to_string());
    }

    let mut spec = json!({
        "runtimeRef": { "name": request.runtime },
        "trainer": trainer(request),
    });
    if request.suspend {
        spec["suspend"] = json!(true);
    }
    if let Some(seconds) = request.deadline_seconds {
        spec["activeDeadlineSeconds"] = json!(seconds);
    }
    let (field, patches) = match dialect {
        Dialect::PodTemplateOverrides => (
            "podTemplateOverrides",
            pod_template_overrides(request, name),
        ),
        Dialect::RuntimePatches => ("runtimePatches", runtime_patches(request, name)),
    };
    spec[field] = patches;
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": name,
            "namespace": request.namespace,
            "labels": all_labels,
            "annotations": all_annotations,
        },
        "spec": spec,
    })
}

fn trainer(request: &JobRequest) -> Value {
    // A folder's code finds its other files where it stands, as it does at home.
    let folder = match request.code {
        Code::Snapshot { .. } => format!("cd {SCRIPTS}\n"),
        _ => String::new(),
    };
    let preamble = request.framework.preamble();
    let script = format!("{preamble}{folder}\n{}\n", request.command);
    let mut trainer = json!({
        "numNodes": request.nodes,
        "command": ["bash", "-c", script],
    });
    if let Some(image) = &request.image {
        trainer["image"] = json!(image);
    }
    let mut env: Vec<Value> = request
        .env
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    if request.checkpoint.is_some() {
        env.push(json!({ "name": checkpoint::VARIABLE, "value": checkpoint::DIRECTORY }));
    }
    if !env.is_empty() {
        trainer["env"] = Value::Array(env);
    }
    let mut resources = Map::new();
    if !request.resources.requests.is_empty() {
        resources.insert("requests".to_owned(), json!(request.resources.requests));
    }
    if !request.resources.limits.is_empty() {
        resources.insert("limits".to_owned(), json!(request.resources.limits));
    }
    if !resources.is_empty() {
        trainer["resourcesPerNode"] = Value::Object(resources);
    }
    trainer
}

fn pod_template_overrides(request: &JobRequest, name: &str) -> Value {
    let targets: Vec<Value> = request
        .framework
        .jobs()
        .iter()
        .map(|job| json!({ "name": job }))
        .collect();
    json!([{ "targetJobs": targets, "spec": pod_spec(request, name) }])
}

fn runtime_patches(request: &JobRequest, name: &str) -> Value {
    let pod = pod_spec(request, name);
    let jobs: Vec<Value> = request
        .framework
        .jobs()
        .iter()
        .map(|job| json!({ "name": job, "template": { "spec": { "template": { "spec": pod } } } }))
        .collect();
    json!([{
        "manager": names::PATCH_MANAGER,
        "trainingRuntimeSpec": { "template": { "spec": { "replicatedJobs": jobs } } },
    }])
}

/// The part of a pod that a request changes: volumes, mounts, and what init containers must know.
fn pod_spec(request: &JobRequest, name: &str) -> Value {
    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    if let Code::Inline(_) = request.code {
        volumes.push(json!({
            "name": "train-script",
            "configMap": { "name": code_config_map_name(name), "defaultMode": 0o755 },
        }));
        mounts.push(json!({ "name": "train-script", "mountPath": SCRIPTS, "readOnly": true }));
    }
    if let (Code::Snapshot { digest, .. }, Some(delivery)) = (&request.code, &request.delivery) {
        volumes.push(code::snapshot_volume(digest, delivery));
        mounts.push(json!({ "name": "train-script", "mountPath": SCRIPTS, "readOnly": true }));
    }
    if let Some((map, _, _)) = request.framework.system_config_map() {
        volumes.push(json!({
            "name": "framework-setup",
            "configMap": { "name": map, "defaultMode": 0o755, "optional": true },
        }));
        mounts.push(json!({ "name": "framework-setup", "mountPath": "/shared", "readOnly": true }));
    }
    for volume in &request.volumes {
        volumes.push(volume_source(volume));
        mounts.push(volume_mount(volume));
    }
    if request.checkpoint.is_some() {
        let (volume, mount) = checkpoint::volume_and_mount(name);
        volumes.push(volume);
        mounts.push(mount);
    }
    let mut spec = json!({
        "volumes": volumes,
        "containers": [{ "name": "node", "volumeMounts": mounts }],
    });
    let init = init_containers(request);
    if !init.is_empty() {
        spec["initContainers"] = Value::Array(init);
    }
    if !request.node_selector.is_empty() {
        spec["nodeSelector"] = json!(request.node_selector);
    }
    spec
}

fn volume_mount(volume: &Volume) -> Value {
    json!({ "name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only })
}

fn volume_source(volume: &Volume) -> Value {
    let mut value = match &volume.source {
        VolumeSource::Claim(claim) => json!({ "persistentVolumeClaim": { "claimName": claim } }),
        VolumeSource::ConfigMap(map) => {
            json!({ "configMap": { "name": map, "defaultMode": 0o755 } })
        }
        VolumeSource::HostPath(path) => {
            json!({ "hostPath": { "path": path, "type": "Directory" } })
        }
        VolumeSource::Memory(size) => {
            json!({ "emptyDir": { "medium": "Memory", "sizeLimit": size } })
        }
    };
    value["name"] = json!(volume.name);
    value
}

/// Init containers of the runtimes that must know something of the request.
fn init_containers(request: &JobRequest) -> Vec<Value> {
    let mut containers = Vec::new();
    if request.framework == super::Framework::TensorFlow
        && ["tensorflow-distributed", "tensorflow-runtime"].contains(&request.runtime.as_str())
    {
        // The generator writes one address per worker, so it must know how many there are.
        containers.push(json!({
            "name": "tf-config-generator",
            "env": [{ "name": "PET_NNODES", "value": request.nodes.to_string() }],
        }));
    }
    if let Code::Git(git) = &request.code {
        let env = git.environment();
        // A repository may lie on a volume of the user's, as a folder or as a bundle.
        let mounts: Vec<Value> = request.volumes.iter().map(volume_mount).collect();
        containers.push(json!({ "name": "git-clone", "env": env, "volumeMounts": mounts }));
    }
    containers
}
