//! `spec.trainer`: counts, resources, and variables that belong to the framework.

use astrago_api::quantity::Amount;
use astrago_api::{MOST_PODS, TrainJob, Trainer};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::error::FieldError;
use crate::policy::{mpi, torch, xgboost};
use crate::runtime::Runtime;
use crate::template;
use crate::{TRAINER_CONTAINER, nodes, resources};

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let template = &runtime.spec.template.spec;
    if template::trainer_job(template).is_none() {
        let message = "the runtime has no job that trains: label one \
                       trainer.kubeflow.org/trainjob-ancestor-step: trainer, or call it node";
        errors.push(FieldError::invalid("spec.runtimeRef", message));
    }
    check_env_injection(runtime, errors);
    check_nodes(job, runtime, errors);
    let Some(trainer) = &job.spec.trainer else {
        return;
    };
    check_processes(trainer, runtime, errors);
    check_reserved_env(trainer, runtime, errors);
    if let Some(resources) = &trainer.resources_per_node {
        check_resources(resources, runtime, errors);
    }
}

fn check_nodes(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    if job.num_nodes().is_some_and(|nodes| nodes < 1) {
        let message = "should be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.trainer.numNodes", message));
    }
    let (nodes, _) = nodes::num_nodes(job, runtime);
    if nodes > MOST_PODS {
        let (field, message) = if job.num_nodes().is_some() {
            let message = format!("should be less than or equal to {MOST_PODS}");
            ("spec.trainer.numNodes", message)
        } else {
            let message =
                format!("the runtime asks for {nodes} nodes; a job has at most {MOST_PODS} pods");
            ("spec.runtimeRef", message)
        };
        errors.push(FieldError::invalid(field, message));
    }
}

fn check_processes(trainer: &Trainer, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let field = "spec.trainer.numProcPerNode";
    let uses_mpi = runtime.policy().is_some_and(|policy| policy.mpi.is_some());
    match &trainer.num_proc_per_node {
        Some(IntOrString::Int(number)) if *number < 1 => {
            let message = "numProcPerNode must be greater than or equal to 1";
            errors.push(FieldError::invalid(field, message));
        }
        Some(IntOrString::String(text)) => {
            let number = text.parse::<i32>().is_ok_and(|number| number > 0);
            let word = ["auto", "cpu", "gpu"].contains(&text.as_str());
            if uses_mpi && !number {
                let message = "must have an int value for MPI training runtime";
                errors.push(FieldError::invalid(field, message));
            } else if !number && !word {
                let message = format!("must be a number from 1, auto, cpu or gpu, not {text:?}");
                errors.push(FieldError::invalid(field, message));
            }
        }
        _ => {}
    }
}

fn check_reserved_env(trainer: &Trainer, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let Some(policy) = runtime.policy() else {
        return;
    };
    let field = "spec.trainer.env";
    // A TensorFlow runtime sets these names right whatever the user says; see its policy.
    let tensorflow = crate::policy::tensorflow::is_meant(runtime);
    let lists: [(bool, &[&str]); 2] = [
        (policy.torch.is_some() && !tensorflow, &torch::RESERVED),
        (policy.mpi.is_some(), &mpi::RESERVED),
    ];
    for (applies, reserved) in lists {
        let names = trainer.env.iter().map(|variable| variable.name.as_str());
        let used: Vec<&str> = names
            .filter(|name| applies && reserved.contains(name))
            .collect();
        if !used.is_empty() {
            let message = format!("must not have reserved envs, invalid envs configured: {used:?}");
            errors.push(FieldError::invalid(field, message.replace('"', "")));
        }
    }
    if policy.xgboost.is_some() {
        for (index, variable) in trainer.env.iter().enumerate() {
            if xgboost::RESERVED.contains(&variable.name.as_str()) {
                let message = format!("{} is reserved for the XGBoost runtime", variable.name);
                errors.push(FieldError::forbidden(format!("{field}[{index}]"), message));
            }
        }
    }
}

/// Quantities must be quantities, requests must not exceed limits, and GPUs, which cannot be shared,
/// must be the same in both; all of it after merging with the runtime's.
fn check_resources(
    over: &ResourceRequirements,
    runtime: Runtime<'_>,
    errors: &mut Vec<FieldError>,
) {
    let field = "spec.trainer.resourcesPerNode";
    for (list, name) in [(&over.limits, "limits"), (&over.requests, "requests")] {
        for (resource, quantity) in list.iter().flatten() {
            match Amount::try_from(quantity) {
                Err(error) => {
                    errors.push(FieldError::invalid(
                        format!("{field}.{name}[{resource}]"),
                        error.to_string(),
                    ));
                }
                Ok(amount) if amount < Amount::whole(0) => {
                    let message = "must be greater than or equal to 0";
                    errors.push(FieldError::invalid(
                        format!("{field}.{name}[{resource}]"),
                        message,
                    ));
                }
                Ok(_) => {}
            }
        }
    }
    let container = template::trainer_job(&runtime.spec.template.spec)
        .and_then(|job| template::container(job, TRAINER_CONTAINER));
    let mut merged = container
        .and_then(|container| container.resources.clone())
        .unwrap_or_default();
    resources::merge(&mut merged, over);
    for (resource, request) in merged.requests.iter().flatten() {
        let limit = merged
            .limits
            .as_ref()
            .and_then(|limits| limits.get(resource));
        let request = Amount::try_from(request).ok();
        let amount = limit.and_then(|limit| Amount::try_from(limit).ok());
        let path = format!("{field}.requests[{resource}]");
        match (request, amount) {
            (Some(request), Some(limit)) if resources::is_gpu(resource) && request != limit => {
                let message = format!("must be equal to the limit of {resource}");
                errors.push(FieldError::invalid(path, message));
            }
            (Some(request), Some(limit)) if request > limit => {
                let message = format!("must be less than or equal to the limit of {resource}");
                errors.push(FieldError::invalid(path, message));
            }
            (Some(request), None) if resources::is_gpu(resource) && request.is_positive() => {
                let message = format!("must have a limit too: a limit of {resource} must be set");
                errors.push(FieldError::invalid(path, message));
            }
            _ => {}
        }
    }
}

fn check_env_injection(runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let torch = runtime.policy().and_then(|policy| policy.torch.as_ref());
    let injection = torch.and_then(|torch| torch.env_injection.as_ref());
    for target in injection
        .into_iter()
        .flat_map(|injection| &injection.targets)
    {
        let jobs = &runtime.spec.template.spec.replicated_jobs;
        let job = jobs.iter().find(|job| job.name == target.job_name);
        for name in &target.container_names {
            let found = job.is_some_and(|job| {
                template::container(job, name).is_some()
                    || template::init_container(job, name).is_some()
            });
            if !found {
                errors.push(FieldError::invalid(
                    "spec.runtimeRef",
                    format!(
                        "envInjection target podSet {:?} container {name:?} not found in runtime \
                         template",
                        target.job_name
                    ),
                ));
            }
        }
    }
}
