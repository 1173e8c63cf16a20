//! Overrides and patches: they may only touch what the runtime has.
//!
//! An override may set the environment of the training container, which upstream forbids: backends write
//! their users' variables there. A patch may not, just as upstream.

use std::collections::BTreeSet;

use astrago_api::{JobSetSpec, PodSpecPatch, ReplicatedJob, TrainJob, labels::ancestor};

use crate::TRAINER_CONTAINER;
use crate::error::FieldError;
use crate::runtime::Runtime;
use crate::template;

const OVERRIDES: &str = "spec.podTemplateOverrides";
const PATCHES: &str = "spec.runtimePatches";

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let template = &runtime.spec.template.spec;
    check_overrides(job, template, errors);
    check_patches(job, template, errors);
    check_volumes(job, template, errors);
}

fn check_overrides(job: &TrainJob, template: &JobSetSpec, errors: &mut Vec<FieldError>) {
    for (index, entry) in job.spec.pod_template_overrides.iter().enumerate() {
        let field = format!("{OVERRIDES}[{index}]");
        if entry.target_jobs.is_empty() {
            let message = "must name at least one job of the runtime";
            errors.push(FieldError::invalid(format!("{field}.targetJobs"), message));
        }
        for (position, target) in entry.target_jobs.iter().enumerate() {
            let Some(replicated_job) = find(template, &target.name) else {
                errors.push(FieldError::invalid(
                    format!("{field}.targetJobs[{position}].name"),
                    format!(
                        "must not have targetJob that doesn't exist in the runtime job template: \
                         {:?}; it has {}",
                        target.name,
                        list(template.replicated_jobs.iter().map(|job| job.name.as_str()))
                    ),
                ));
                continue;
            };
            if let Some(spec) = &entry.spec {
                check_containers(spec, replicated_job, &format!("{field}.spec"), errors);
            }
        }
    }
}

fn check_patches(job: &TrainJob, template: &JobSetSpec, errors: &mut Vec<FieldError>) {
    let mut managers = BTreeSet::new();
    for (index, entry) in job.spec.runtime_patches.iter().enumerate() {
        let field = format!("{PATCHES}[{index}]");
        if !is_domain_prefixed_path(&entry.manager) {
            let message = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(format!("{field}.manager"), message));
        }
        if !managers.insert(&entry.manager) {
            let message = format!(
                "must not have two entries of the manager {:?}",
                entry.manager
            );
            errors.push(FieldError::invalid(format!("{field}.manager"), message));
        }
        for (position, patch) in entry.replicated_jobs().iter().enumerate() {
            let field =
                format!("{field}.trainingRuntimeSpec.template.spec.replicatedJobs[{position}]");
            let Some(replicated_job) = find(template, &patch.name) else {
                errors.push(FieldError::invalid(
                    format!("{field}.name"),
                    format!(
                        "must not have replicated job that doesn't exist in the runtime job \
                         template: {:?}; it has {}",
                        patch.name,
                        list(template.replicated_jobs.iter().map(|job| job.name.as_str()))
                    ),
                ));
                continue;
            };
            if let Some(spec) = patch.pod_spec() {
                let field = format!("{field}.template.spec.template.spec");
                check_containers(spec, replicated_job, &field, errors);
                check_reserved_env(spec, &field, errors);
            }
        }
    }
}

fn check_containers(
    spec: &PodSpecPatch,
    job: &ReplicatedJob,
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    let lists = [
        (
            "initContainers",
            "initContainer",
            &spec.init_containers,
            names(job, true),
        ),
        (
            "containers",
            "container",
            &spec.containers,
            names(job, false),
        ),
    ];
    for (list_name, noun, patches, known) in lists {
        for (position, patch) in patches.iter().enumerate() {
            if !known.contains(&patch.name.as_str()) {
                errors.push(FieldError::invalid(
                    format!("{field}.{list_name}[{position}].name"),
                    format!(
                        "must not have {noun} that doesn't exist in the runtime job {}: {:?}; \
                         it has {}",
                        job.name,
                        patch.name,
                        list(known.iter().copied())
                    ),
                ));
            }
        }
    }
}

fn check_reserved_env(spec: &PodSpecPatch, field: &str, errors: &mut Vec<FieldError>) {
    let reserved = [
        ancestor::DATASET_INITIALIZER,
        ancestor::MODEL_INITIALIZER,
        TRAINER_CONTAINER,
    ];
    let lists = [
        ("initContainers", &spec.init_containers),
        ("containers", &spec.containers),
    ];
    for (list_name, patches) in lists {
        for (position, patch) in patches.iter().enumerate() {
            if reserved.contains(&patch.name.as_str()) && !patch.env.is_empty() {
                errors.push(FieldError::invalid(
                    format!("{field}.{list_name}[{position}].env"),
                    format!(
                        "must not have envs for the {} containers",
                        reserved.join(", ")
                    ),
                ));
            }
        }
    }
}

/// A mount needs its volume: of the runtime, of the same or another override, or claimed for the set.
fn check_volumes(job: &TrainJob, template: &JobSetSpec, errors: &mut Vec<FieldError>) {
    for (index, entry) in job.spec.pod_template_overrides.iter().enumerate() {
        let Some(spec) = &entry.spec else { continue };
        for target in &entry.target_jobs {
            let Some(replicated_job) = find(template, &target.name) else {
                continue;
            };
            let volumes = volumes(job, template, replicated_job);
            let field = format!("{OVERRIDES}[{index}].spec");
            check_mounts(spec, &volumes, &field, errors);
        }
    }
    for (index, entry) in job.spec.runtime_patches.iter().enumerate() {
        for (position, patch) in entry.replicated_jobs().iter().enumerate() {
            let Some(replicated_job) = find(template, &patch.name) else {
                continue;
            };
            let Some(spec) = patch.pod_spec() else {
                continue;
            };
            let volumes = volumes(job, template, replicated_job);
            let field = format!(
                "{PATCHES}[{index}].trainingRuntimeSpec.template.spec.replicatedJobs[{position}]\
                 .template.spec.template.spec"
            );
            check_mounts(spec, &volumes, &field, errors);
        }
    }
}

fn check_mounts(
    spec: &PodSpecPatch,
    volumes: &BTreeSet<String>,
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    let lists = [
        ("initContainers", &spec.init_containers),
        ("containers", &spec.containers),
    ];
    for (list_name, patches) in lists {
        for (position, patch) in patches.iter().enumerate() {
            for (mount_position, mount) in patch.volume_mounts.iter().enumerate() {
                if !volumes.contains(&mount.name) {
                    errors.push(FieldError::not_found(
                        format!(
                            "{field}.{list_name}[{position}].volumeMounts[{mount_position}].name"
                        ),
                        format!("no volume is called {:?}", mount.name),
                    ));
                }
            }
        }
    }
}

/// The names of all volumes that the pods of a job will have.
fn volumes(
    job: &TrainJob,
    template: &JobSetSpec,
    replicated_job: &ReplicatedJob,
) -> BTreeSet<String> {
    let pod = template::pod_spec(replicated_job);
    let mut volumes: BTreeSet<String> = pod
        .iter()
        .flat_map(|pod| pod.volumes.iter().flatten())
        .map(|volume| volume.name.clone())
        .collect();
    let claims = template
        .volume_claim_policies
        .iter()
        .flat_map(|policy| &policy.templates);
    volumes.extend(claims.filter_map(|claim| claim.metadata.name.clone()));
    for entry in &job.spec.pod_template_overrides {
        if entry
            .target_jobs
            .iter()
            .any(|target| target.name == replicated_job.name)
        {
            let spec = entry.spec.iter().flat_map(|spec| &spec.volumes);
            volumes.extend(spec.map(|volume| volume.name.clone()));
        }
    }
    for entry in &job.spec.runtime_patches {
        let patches = entry.replicated_jobs().iter();
        for patch in patches.filter(|patch| patch.name == replicated_job.name) {
            let spec = patch.pod_spec().into_iter().flat_map(|spec| &spec.volumes);
            volumes.extend(spec.map(|volume| volume.name.clone()));
        }
    }
    volumes
}

fn find<'a>(template: &'a JobSetSpec, name: &str) -> Option<&'a ReplicatedJob> {
    template.replicated_jobs.iter().find(|job| job.name == name)
}

fn names(job: &ReplicatedJob, init: bool) -> Vec<&str> {
    let Some(pod) = template::pod_spec(job) else {
        return Vec::new();
    };
    let containers = if init {
        pod.init_containers.as_deref().unwrap_or_default()
    } else {
        &pod.containers
    };
    containers
        .iter()
        .map(|container| container.name.as_str())
        .collect()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// Whether this is a DNS subdomain, a slash, and a path.
fn is_domain_prefixed_path(text: &str) -> bool {
    let Some((domain, path)) = text.split_once('/') else {
        return false;
    };
    let label = |label: &str| astrago_api::names::is_rfc1123_label(label);
    let in_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    !domain.is_empty()
        && domain.len() <= 253
        && domain.split('.').all(label)
        && !path.is_empty()
        && path.bytes().all(in_path)
}
