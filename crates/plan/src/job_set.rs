//! From a JobSet to its Jobs, its Service and its volume claims, with JobSet's own names, labels,
//! annotations and defaults.

use std::collections::BTreeMap;

use astrago_api::{
    JobSet, JobSetSpec, Network, ReplicatedJob, StartupPolicy, SuccessPolicy, VolumeRetention,
    labels, names,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, Service, ServiceSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use sha1::{Digest, Sha1};

use crate::owner::owned_by;
use crate::template;

/// Fills in what JobSet's own admission fills in.
pub fn default_job_set(job_set: &mut JobSet) {
    default_spec(&mut job_set.spec);
}

pub(crate) fn default_spec(spec: &mut JobSetSpec) {
    spec.success_policy
        .get_or_insert_with(SuccessPolicy::default);
    spec.startup_policy
        .get_or_insert_with(StartupPolicy::default);
    let network = spec.network.get_or_insert_with(Network::default);
    network.enable_dns_hostnames.get_or_insert(true);
    network.publish_not_ready_addresses.get_or_insert(true);
    if let Some(policy) = &mut spec.failure_policy {
        policy.restart_strategy.get_or_insert_default();
        for (index, rule) in policy.rules.iter_mut().enumerate() {
            if rule.name.is_empty() {
                rule.name = format!("failurePolicyRule{index}");
            }
        }
    }
    for policy in &mut spec.volume_claim_policies {
        policy
            .retention_policy
            .get_or_insert_default()
            .when_deleted
            .get_or_insert_default();
    }
    for job in &mut spec.replicated_jobs {
        job.replicas.get_or_insert(1);
        job.group_name.get_or_insert_with(|| "default".into());
        template::pod_spec_mut(job)
            .restart_policy
            .get_or_insert_with(|| "OnFailure".into());
        let spec = job.template.spec.get_or_insert_default();
        spec.completion_mode.get_or_insert_with(|| "Indexed".into());
    }
}

/// The Jobs of a JobSet, in the order of its templates, as they are after `restarts`. Which of
/// them may be created yet (`dependsOn`, `startupPolicy`) is for the controller to say.
pub fn jobs_of(job_set: &JobSet, restarts: i32) -> Vec<Job> {
    let mut jobs = Vec::new();
    for template in &job_set.spec.replicated_jobs {
        for replica in 0..template.replicas() {
            let place = Place::of(job_set, template, replica, jobs.len());
            jobs.push(job_of(job_set, template, &place, restarts));
        }
    }
    jobs
}

/// The headless Service below which the pods are found; nothing if the JobSet does without.
pub fn service_of(job_set: &JobSet) -> Option<Service> {
    let network = job_set.spec.network.as_ref();
    if network.and_then(|network| network.enable_dns_hostnames) == Some(false) {
        return None;
    }
    let selector = BTreeMap::from([(labels::JOBSET_NAME.to_owned(), job_set.name_any())]);
    Some(Service {
        metadata: ObjectMeta {
            name: Some(job_set.subdomain().to_owned()),
            namespace: job_set.namespace(),
            labels: Some(selector.clone()),
            owner_references: owned_by(job_set),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            selector: Some(selector),
            publish_not_ready_addresses: Some(
                network
                    .and_then(|network| network.publish_not_ready_addresses)
                    .unwrap_or(true),
            ),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// The claims of a JobSet's volumes, called `{template}-{job set}`. Those that are to stay when the
/// JobSet goes are not owned by it.
pub fn volume_claims_of(job_set: &JobSet) -> Vec<PersistentVolumeClaim> {
    let mut claims = Vec::new();
    for policy in &job_set.spec.volume_claim_policies {
        let retention = policy
            .retention_policy
            .as_ref()
            .and_then(|policy| policy.when_deleted);
        let owned = retention.unwrap_or_default() == VolumeRetention::Delete;
        for template in &policy.templates {
            let mut claim = template.clone();
            claim.status = None;
            let name = names::volume_claim(&template.name_any(), &job_set.name_any());
            claim.metadata.name = Some(name);
            claim.metadata.namespace = job_set.namespace();
            claim
                .labels_mut()
                .insert(labels::JOBSET_NAME.into(), job_set.name_any());
            claim.metadata.owner_references = if owned { owned_by(job_set) } else { None };
            claims.push(claim);
        }
    }
    claims
}

/// Where a Job stands among the others of its JobSet.
struct Place {
    name: String,
    replica: i32,
    global_index: usize,
    global_replicas: i32,
    group_index: i32,
    group_replicas: i32,
}

impl Place {
    fn of(job_set: &JobSet, template: &ReplicatedJob, replica: i32, global_index: usize) -> Self {
        let jobs = &job_set.spec.replicated_jobs;
        let same_group = |job: &&ReplicatedJob| job.group_name() == template.group_name();
        let before = jobs.iter().take_while(|job| job.name != template.name);
        Self {
            name: names::job(&job_set.name_any(), &template.name, replica),
            replica,
            global_index,
            global_replicas: jobs.iter().map(ReplicatedJob::replicas).sum(),
            group_index: before
                .filter(same_group)
                .map(ReplicatedJob::replicas)
                .sum::<i32>()
                + replica,
            group_replicas: jobs
                .iter()
                .filter(same_group)
                .map(ReplicatedJob::replicas)
                .sum(),
        }
    }
}

fn job_of(job_set: &JobSet, template: &ReplicatedJob, place: &Place, restarts: i32) -> Job {
    let marks = marks(job_set, template, place, restarts);
    let mut metadata = template.template.metadata.clone().unwrap_or_default();
    metadata.name = Some(place.name.clone());
    metadata.namespace = job_set.namespace();
    metadata.owner_references = owned_by(job_set);
    mark(&mut metadata, &marks);

    let mut spec = template.template.spec.clone().unwrap_or_default();
    spec.suspend = Some(job_set.is_suspended());
    mark(spec.template.metadata.get_or_insert_default(), &marks);
    let network = job_set.spec.network.as_ref();
    let pod = spec.template.spec.get_or_insert_default();
    if network.and_then(|network| network.enable_dns_hostnames) != Some(false) {
        pod.subdomain = Some(job_set.subdomain().to_owned());
    }
    add_claimed_volumes(pod, job_set);
    Job {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

/// JobSet puts the same marks on Jobs and pods, as labels and as annotations.
fn marks(
    job_set: &JobSet,
    template: &ReplicatedJob,
    place: &Place,
    restarts: i32,
) -> BTreeMap<String, String> {
    let namespace = job_set.namespace().unwrap_or_default();
    let mut marks = vec![
        (labels::JOBSET_NAME, job_set.name_any()),
        (labels::REPLICATED_JOB_NAME, template.name.clone()),
        (
            labels::REPLICATED_JOB_REPLICAS,
            template.replicas().to_string(),
        ),
        (labels::GLOBAL_REPLICAS, place.global_replicas.to_string()),
        (labels::JOB_INDEX, place.replica.to_string()),
        (labels::JOB_KEY, job_key(&namespace, &place.name)),
        (labels::JOB_GLOBAL_INDEX, place.global_index.to_string()),
        (labels::GROUP_NAME, template.group_name().to_owned()),
        (labels::GROUP_REPLICAS, place.group_replicas.to_string()),
        (labels::JOB_GROUP_INDEX, place.group_index.to_string()),
        (labels::RESTART_ATTEMPT, restarts.to_string()),
    ];
    if let Some(uid) = job_set.uid() {
        marks.push((labels::JOBSET_UID, uid));
    }
    if let Some(coordinator) = &job_set.spec.coordinator {
        let job = names::job(
            &job_set.name_any(),
            &coordinator.replicated_job,
            coordinator.job_index.unwrap_or(0),
        );
        let index = coordinator.pod_index.unwrap_or(0);
        marks.push((
            labels::COORDINATOR,
            names::pod_address(&job, index, job_set.subdomain()),
        ));
    }
    marks
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn mark(metadata: &mut ObjectMeta, marks: &BTreeMap<String, String>) {
    metadata
        .labels
        .get_or_insert_default()
        .extend(marks.clone());
    metadata
        .annotations
        .get_or_insert_default()
        .extend(marks.clone());
}

/// SHA-1 of a Job's namespace and name, in hexadecimal.
fn job_key(namespace: &str, name: &str) -> String {
    let digest = Sha1::digest(format!("{namespace}/{name}"));
    format!("{digest:x}")
}

/// Adds the claimed volumes that a container mounts by the name of their template.
fn add_claimed_volumes(pod: &mut PodSpec, job_set: &JobSet) {
    let templates = job_set
        .spec
        .volume_claim_policies
        .iter()
        .flat_map(|policy| &policy.templates);
    for template in templates {
        let name = template.name_any();
        let containers = pod
            .containers
            .iter()
            .chain(pod.init_containers.iter().flatten());
        let mut mounts = containers.flat_map(|container| container.volume_mounts.iter().flatten());
        if mounts.any(|mount| mount.name == name) {
            let claim_name = names::volume_claim(&name, &job_set.name_any());
            template::set_volume(
                pod,
                Volume {
                    name,
                    persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                        claim_name,
                        read_only: None,
                    }),
                    ..Volume::default()
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;
