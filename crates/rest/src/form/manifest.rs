//! From a checked request to the objects that are created for it.

use std::collections::BTreeMap;

use astrago_plan::{Framework, GIT_CLONE, TF_CONFIG_GENERATOR};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::{Code, Delivery, JobRequest, SCRIPTS, checkpoint, code, sizes, volumes};
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

/// A file that the namespace's jobs of a framework find below `/shared`: the name of its ConfigMap, the file, its text.
fn system_file(framework: &Framework) -> Option<(&'static str, &'static str, String)> {
    if framework.torch {
        let text = format!(
            "# Sets PyTorch's variables from those that the training operator gives to every node.\n\
             # Source this file; it changes nothing but the environment.\n{}",
            preamble(framework)
        );
        return Some(("pytorch-pet-setup", "setup_pytorch_env.sh", text));
    }
    framework.writes_tf_config.then(|| {
        let text = include_str!("generate_tf_config.sh").to_owned();
        (
            "tensorflow-tf-config-generator",
            "generate_tf_config.sh",
            text,
        )
    })
}

/// The shell lines that run before the user's command: PyTorch's own variables from those that the torch policy
/// injects (Kubeflow's sets no others), and `TF_CONFIG` from the file that an init container wrote.
fn preamble(framework: &Framework) -> String {
    if framework.torch {
        let lines = astrago_plan::ONE_PROCESS
            .map(|(name, source, default)| format!("export {name}=${{{source}:-{default}}}\n"));
        return lines.concat();
    }
    if framework.writes_tf_config {
        return "source /shared-env/tf_config.env\necho \"TF_CONFIG: $TF_CONFIG\"\n".to_owned();
    }
    String::new()
}

fn system_config_map(request: &JobRequest) -> Option<ConfigMap> {
    let (name, file, text) = system_file(&request.framework)?;
    Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(request.asked.namespace.clone()),
            labels: Some([(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([(file.to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

fn code_config_map(request: &JobRequest, name: &str) -> Option<ConfigMap> {
    let (Code::Inline, Some(code)) = (&request.code, &request.asked.training_code) else {
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
            namespace: Some(request.asked.namespace.clone()),
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
        (Code::Snapshot(digest), Some(Delivery::ConfigMap(files))) => Some(
            code::snapshot_config_map(&request.asked.namespace, digest, files),
        ),
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
    let asked = &request.asked;
    let mut all_labels = labels.clone();
    all_labels.extend([
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::USER.to_owned(), request.user.clone()),
        (names::FRAMEWORK.to_owned(), asked.framework.clone()),
    ]);
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    let source = asked.source.as_ref();
    let snapshot = match &request.code {
        Code::Snapshot(digest) => Some(digest.to_string()),
        _ => None,
    };
    // Annotations, so that the job is valid on a cluster whose TrainJob does not know the fields.
    let wishes = [
        (names::MAX_RESTARTS, number(asked.max_restarts)),
        (names::RETRY, Some(request.retry().to_owned())),
        (
            names::TTL_SECONDS_AFTER_FINISHED,
            number(asked.ttl_seconds_after_finished),
        ),
        (names::LAUNCHER_CPU, asked.launcher_cpu.clone()),
        (names::LAUNCHER_MEMORY, asked.launcher_memory.clone()),
        (names::SNAPSHOT, snapshot),
        (
            names::SOURCE_REPOSITORY,
            source.map(|source| source.repository.clone()),
        ),
        (
            names::SOURCE_COMMIT,
            source.map(|source| source.commit.clone()),
        ),
        (names::PRIORITY, number(asked.priority)),
        (names::ORIGIN, asked.origin.clone()),
    ];
    let wishes = wishes
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut all_annotations = annotations.clone();
    all_annotations.extend(wishes);

    let mut spec = json!({
        "runtimeRef": { "name": request.framework.runtime },
        "trainer": trainer(request),
    });
    if asked.suspend == Some(true) {
        spec["suspend"] = json!(true);
    }
    if let Some(seconds) = asked.deadline_seconds {
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
            "namespace": asked.namespace,
            "labels": all_labels,
            "annotations": all_annotations,
        },
        "spec": spec,
    })
}

fn trainer(request: &JobRequest) -> Value {
    // A folder's code finds its other files where it stands, as it does at home.
    let folder = match request.code {
        Code::Snapshot(_) => format!("cd {SCRIPTS}\n"),
        _ => String::new(),
    };
    let asked = &request.asked;
    let preamble = preamble(&request.framework);
    let script = format!("{preamble}{folder}\n{}\n", request.command());
    let mut trainer = json!({
        "numNodes": request.nodes,
        "command": ["bash", "-c", script],
    });
    let standard = request
        .framework
        .image
        .as_ref()
        .filter(|_| asked.runtime.is_none());
    if let Some(image) = asked.image.as_ref().or(standard) {
        trainer["image"] = json!(image);
    }
    let mut env: Vec<Value> = asked
        .env_vars
        .iter()
        .map(|variable| json!(variable))
        .collect();
    if asked.checkpoint == Some(true) {
        env.push(json!({ "name": checkpoint::VARIABLE, "value": checkpoint::DIRECTORY }));
    }
    if !env.is_empty() {
        trainer["env"] = Value::Array(env);
    }
    for (side, amounts) in sizes::resources(asked) {
        if !amounts.is_empty() {
            trainer["resourcesPerNode"][side] = json!(amounts);
        }
    }
    trainer
}

fn pod_template_overrides(request: &JobRequest, name: &str) -> Value {
    let targets: Vec<Value> = request
        .framework
        .jobs
        .iter()
        .map(|job| json!({ "name": job }))
        .collect();
    json!([{ "targetJobs": targets, "spec": pod_spec(request, name) }])
}

fn runtime_patches(request: &JobRequest, name: &str) -> Value {
    let pod = pod_spec(request, name);
    let jobs: Vec<Value> = request
        .framework
        .jobs
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
    let asked = &request.asked;
    let mut all = Vec::new();
    let mut mounts = Vec::new();
    if let Code::Inline = request.code {
        all.push(json!({
            "name": "train-script",
            "configMap": { "name": code_config_map_name(name), "defaultMode": 0o755 },
        }));
        mounts.push(json!({ "name": "train-script", "mountPath": SCRIPTS, "readOnly": true }));
    }
    if let (Code::Snapshot(digest), Some(delivery)) = (&request.code, &request.delivery) {
        all.push(code::snapshot_volume(digest, delivery));
        mounts.push(json!({ "name": "train-script", "mountPath": SCRIPTS, "readOnly": true }));
    }
    if let Some((map, _, _)) = system_file(&request.framework) {
        all.push(json!({
            "name": "framework-setup",
            "configMap": { "name": map, "defaultMode": 0o755, "optional": true },
        }));
        mounts.push(json!({ "name": "framework-setup", "mountPath": "/shared", "readOnly": true }));
    }
    all.extend(asked.volumes.iter().map(volumes::source));
    mounts.extend(asked.volumes.iter().map(volumes::mount));
    if asked.checkpoint == Some(true) {
        let (volume, mount) = checkpoint::volume_and_mount(name);
        all.push(volume);
        mounts.push(mount);
    }
    let mut spec = json!({
        "volumes": all,
        "containers": [{ "name": "node", "volumeMounts": mounts }],
    });
    let init = init_containers(request);
    if !init.is_empty() {
        spec["initContainers"] = Value::Array(init);
    }
    if !asked.node_selector.is_empty() {
        spec["nodeSelector"] = json!(asked.node_selector);
    }
    spec
}

/// Init containers of the runtimes that must know something of the request.
fn init_containers(request: &JobRequest) -> Vec<Value> {
    let mut containers = Vec::new();
    if request.framework.writes_tf_config {
        // The generator writes one address per worker, so it must know how many there are.
        containers.push(json!({
            "name": TF_CONFIG_GENERATOR,
            "env": [{ "name": "PET_NNODES", "value": request.nodes.to_string() }],
        }));
    }
    if let Code::Git = request.code {
        let env = code::git_environment(&request.asked);
        // A repository may lie on a volume of the user's, as a folder or as a bundle.
        let mounts: Vec<Value> = request.asked.volumes.iter().map(volumes::mount).collect();
        containers.push(json!({ "name": GIT_CLONE, "env": env, "volumeMounts": mounts }));
    }
    containers
}
