//! Reading and changing the jobs of a template: roles, containers, and the lists of a container.
//!
//! Lists change in place: an item with the same key is replaced where it stands, another one is
//! added at the end. Ports are told apart by their number and protocol alone. (Upstream also takes
//! two ports without a name for the same one, and so overwrites the user's.)

use astrago_api::{JobSetSpec, ReplicatedJob, labels::ancestor};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec, Volume,
    VolumeMount,
};

use crate::TRAINER_CONTAINER;

/// Whether this job of the template trains. Where no job is labelled so, the one called `node` is
/// meant: such runtimes are common, and nothing would be trained otherwise.
pub(crate) fn is_trainer(jobs: &[ReplicatedJob], job: &ReplicatedJob) -> bool {
    match job.ancestor() {
        Some(role) => role == ancestor::TRAINER,
        None => {
            job.name == TRAINER_CONTAINER
                && !jobs
                    .iter()
                    .any(|job| job.ancestor() == Some(ancestor::TRAINER))
        }
    }
}

/// The positions of the jobs that train.
pub(crate) fn trainer_positions(jobs: &[ReplicatedJob]) -> Vec<usize> {
    (0..jobs.len())
        .filter(|&position| is_trainer(jobs, &jobs[position]))
        .collect()
}

/// The first job that trains.
pub(crate) fn trainer_job(spec: &JobSetSpec) -> Option<&ReplicatedJob> {
    spec.replicated_jobs
        .iter()
        .find(|job| is_trainer(&spec.replicated_jobs, job))
}

/// Calls `change` with the training container of every job that trains.
pub(crate) fn for_each_trainer(spec: &mut JobSetSpec, mut change: impl FnMut(&mut Container)) {
    for position in trainer_positions(&spec.replicated_jobs) {
        if let Some(container) =
            container_mut(&mut spec.replicated_jobs[position], TRAINER_CONTAINER)
        {
            change(container);
        }
    }
}

/// Calls `change` with every container that is a step of a TrainJob: those that train, and the initializers.
pub(crate) fn for_each_step(spec: &mut JobSetSpec, mut change: impl FnMut(&mut Container)) {
    let steps = [
        TRAINER_CONTAINER,
        ancestor::DATASET_INITIALIZER,
        ancestor::MODEL_INITIALIZER,
    ];
    for job in &mut spec.replicated_jobs {
        for step in steps {
            container_mut(job, step).map(&mut change);
        }
    }
}

/// The pod of a job, made if the template has none.
pub(crate) fn pod_spec_mut(job: &mut ReplicatedJob) -> &mut PodSpec {
    let spec = job.template.spec.get_or_insert_default();
    spec.template.spec.get_or_insert_default()
}

pub(crate) fn pod_spec(job: &ReplicatedJob) -> Option<&PodSpec> {
    job.pod_template()?.spec.as_ref()
}

pub(crate) fn container<'a>(job: &'a ReplicatedJob, name: &str) -> Option<&'a Container> {
    pod_spec(job)?
        .containers
        .iter()
        .find(|container| container.name == name)
}

pub(crate) fn container_mut<'a>(
    job: &'a mut ReplicatedJob,
    name: &str,
) -> Option<&'a mut Container> {
    pod_spec_mut(job)
        .containers
        .iter_mut()
        .find(|container| container.name == name)
}

pub(crate) fn init_container<'a>(job: &'a ReplicatedJob, name: &str) -> Option<&'a Container> {
    pod_spec(job)?
        .init_containers
        .iter()
        .flatten()
        .find(|container| container.name == name)
}

pub(crate) fn init_container_mut<'a>(
    job: &'a mut ReplicatedJob,
    name: &str,
) -> Option<&'a mut Container> {
    let containers = pod_spec_mut(job).init_containers.as_mut()?;
    containers
        .iter_mut()
        .find(|container| container.name == name)
}

/// An environment variable with a fixed value.
pub(crate) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        value_from: None,
    }
}

/// An environment variable with the index of the pod in its Job: the rank of the node.
pub(crate) fn env_from_completion_index(name: &str) -> EnvVar {
    let index = astrago_api::labels::COMPLETION_INDEX;
    env_from_field(name, format!("metadata.annotations['{index}']"))
}

/// An environment variable with a field of the pod.
pub(crate) fn env_from_field(name: &str, field_path: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path,
            }),
            ..EnvVarSource::default()
        }),
    }
}

pub(crate) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.into(),
        mount_path: path.into(),
        ..VolumeMount::default()
    }
}

pub(crate) fn set_env(container: &mut Container, variable: EnvVar) {
    let list = container.env.get_or_insert_default();
    upsert(list, variable, |old, new| old.name == new.name);
}

pub(crate) fn has_env(container: &Container, name: &str) -> bool {
    container
        .env
        .iter()
        .flatten()
        .any(|variable| variable.name == name)
}

pub(crate) fn set_port(container: &mut Container, port: i32) {
    let list = container.ports.get_or_insert_default();
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let new = ContainerPort {
        container_port: port,
        ..ContainerPort::default()
    };
    if !list
        .iter()
        .any(|old| old.container_port == port && protocol(old) == protocol(&new))
    {
        list.push(new);
    }
}

pub(crate) fn set_volume(pod: &mut PodSpec, volume: Volume) {
    let list = pod.volumes.get_or_insert_default();
    upsert(list, volume, |old, new| old.name == new.name);
}

pub(crate) fn set_mount(container: &mut Container, mount: VolumeMount) {
    let list = container.volume_mounts.get_or_insert_default();
    upsert(list, mount, |old, new| old.mount_path == new.mount_path);
}

fn upsert<T>(list: &mut Vec<T>, new: T, same: impl Fn(&T, &T) -> bool) {
    match list.iter().position(|old| same(old, &new)) {
        Some(position) => list[position] = new,
        None => list.push(new),
    }
}
