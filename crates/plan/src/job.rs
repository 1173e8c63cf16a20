//! From an Indexed Job to its pods, as Kubernetes' Job controller makes them, and the defaults that
//! its API server fills in.

use astrago_api::{labels, names};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::owner::owned_by;
use crate::template;

/// The pod of one index. `suffix` makes its name unique among the attempts of that index.
pub fn pod_of(job: &Job, index: i32, suffix: &str) -> Pod {
    let mut pod = unnamed_pod_of(job, index);
    pod.metadata.name = Some(names::pod(&job.name_any(), index, suffix));
    pod
}

/// One pod per index, each with a `generateName` that makes the API server choose the suffix.
pub fn pods_of(job: &Job) -> Vec<Pod> {
    let completions = job
        .spec
        .as_ref()
        .map_or(0, |spec| spec.completions.or(spec.parallelism).unwrap_or(1));
    (0..completions)
        .map(|index| {
            let mut pod = unnamed_pod_of(job, index);
            let hostname = names::pod_hostname(&job.name_any(), index);
            pod.metadata.generate_name = Some(format!("{hostname}-"));
            pod
        })
        .collect()
}

/// Fills in what Kubernetes' API server fills in on a Job.
pub fn default_job(job: &mut Job) {
    let Some(spec) = &mut job.spec else { return };
    spec.parallelism.get_or_insert(1);
    if spec.completions.is_none() {
        spec.completions = spec.parallelism;
    }
    spec.backoff_limit.get_or_insert(6);
    spec.completion_mode
        .get_or_insert_with(|| "NonIndexed".into());
    spec.suspend.get_or_insert(false);
    spec.pod_replacement_policy
        .get_or_insert_with(|| "TerminatingOrFailed".into());
    if let Some(pod) = &mut spec.template.spec {
        default_pod_spec(pod);
    }
}

/// Fills in what Kubernetes' API server fills in on a pod, as far as it matters to how it runs.
pub fn default_pod(pod: &mut Pod) {
    default_pod_spec(pod.spec.get_or_insert_default());
}

fn default_pod_spec(pod: &mut PodSpec) {
    pod.restart_policy.get_or_insert_with(|| "Always".into());
    pod.dns_policy.get_or_insert_with(|| "ClusterFirst".into());
    pod.scheduler_name
        .get_or_insert_with(|| "default-scheduler".into());
    pod.termination_grace_period_seconds.get_or_insert(30);
    pod.security_context.get_or_insert_default();
    let containers = pod
        .containers
        .iter_mut()
        .chain(pod.init_containers.iter_mut().flatten());
    for container in containers {
        default_container(container);
    }
}

/// A limit without a request is the request too; an image without a tag, or `latest`, is always
/// pulled.
fn default_container(container: &mut Container) {
    if let Some(resources) = &mut container.resources
        && let Some(limits) = &resources.limits
    {
        for (name, limit) in limits {
            let requests = resources.requests.get_or_insert_default();
            requests
                .entry(name.clone())
                .or_insert_with(|| limit.clone());
        }
    }
    for port in container.ports.iter_mut().flatten() {
        port.protocol.get_or_insert_with(|| "TCP".into());
    }
    if container.image_pull_policy.is_none() {
        let image = container.image.as_deref().unwrap_or_default();
        let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
        let always =
            !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
        container.image_pull_policy = Some(if always { "Always" } else { "IfNotPresent" }.into());
    }
    container
        .termination_message_path
        .get_or_insert_with(|| "/dev/termination-log".into());
    container
        .termination_message_policy
        .get_or_insert_with(|| "File".into());
}

fn unnamed_pod_of(job: &Job, index: i32) -> Pod {
    let template = job
        .spec
        .as_ref()
        .map(|spec| spec.template.clone())
        .unwrap_or_default();
    let from_template = template.metadata.unwrap_or_default();
    let mut metadata = ObjectMeta {
        namespace: job.namespace(),
        labels: from_template.labels,
        annotations: from_template.annotations,
        owner_references: owned_by(job),
        ..ObjectMeta::default()
    };
    let name = job.name_any();
    let pod_labels = metadata.labels.get_or_insert_default();
    for key in [labels::JOB_NAME, labels::LEGACY_JOB_NAME] {
        pod_labels.insert(key.into(), name.clone());
    }
    if let Some(uid) = job.uid() {
        for key in [labels::CONTROLLER_UID, labels::LEGACY_CONTROLLER_UID] {
            pod_labels.insert(key.into(), uid.clone());
        }
    }
    let mut spec = template.spec.unwrap_or_default();
    if is_indexed(job) {
        pod_labels.insert(labels::COMPLETION_INDEX.into(), index.to_string());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(labels::COMPLETION_INDEX.into(), index.to_string());
        spec.hostname
            .get_or_insert_with(|| names::pod_hostname(&name, index));
        let containers = spec
            .containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten());
        for container in containers {
            if !template::has_env(container, "JOB_COMPLETION_INDEX") {
                let variable = template::env_from_completion_index("JOB_COMPLETION_INDEX");
                template::set_env(container, variable);
            }
        }
    }
    Pod {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

fn is_indexed(job: &Job) -> bool {
    job.spec
        .as_ref()
        .and_then(|spec| spec.completion_mode.as_deref())
        == Some("Indexed")
}
