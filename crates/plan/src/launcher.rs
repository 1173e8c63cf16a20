//! What the launcher of an MPI job gets, where it does not train.
//!
//! `spec.trainer.resourcesPerNode` is for the nodes that train. Upstream has no field for the launcher, so two
//! annotations say it, which are valid on every cluster.

use astrago_api::quantity::Amount;
use astrago_api::{TrainJob, labels};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::TRAINER_CONTAINER;
use crate::draft::Draft;
use crate::error::FieldError;
use crate::nodes::LAUNCHER;
use crate::provenance::Origin;
use crate::runtime::Runtime;
use crate::template;

const ANNOTATIONS: [(&str, &str); 2] = [
    (labels::LAUNCHER_CPU, "cpu"),
    (labels::LAUNCHER_MEMORY, "memory"),
];

/// Gives the launcher what the annotations say, as request and as limit.
pub(crate) fn apply(draft: &mut Draft, job: &TrainJob) {
    for (key, resource) in ANNOTATIONS {
        let Some(value) = job.annotations().get(key) else {
            continue;
        };
        draft.stage(&Origin::train_job(field(key)), |spec| {
            let launchers = spec.replicated_jobs.iter_mut();
            for job in launchers.filter(|job| job.name == LAUNCHER) {
                let Some(container) = template::container_mut(job, TRAINER_CONTAINER) else {
                    continue;
                };
                let resources = container.resources.get_or_insert_default();
                for list in [&mut resources.requests, &mut resources.limits] {
                    list.get_or_insert_default()
                        .insert(resource.to_owned(), Quantity(value.clone()));
                }
            }
        });
    }
}

pub(crate) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    for (key, _) in ANNOTATIONS {
        let Some(value) = job.annotations().get(key) else {
            continue;
        };
        let positive = value.parse::<Amount>().is_ok_and(Amount::is_positive);
        if !positive {
            let message = format!("must be a positive quantity such as 2 or 4Gi, not {value:?}");
            errors.push(FieldError::invalid(field(key), message));
        }
        let jobs = &runtime.spec.template.spec.replicated_jobs;
        if !jobs.iter().any(|job| job.name == LAUNCHER) {
            let message = format!("the runtime {:?} has no job {LAUNCHER:?}", runtime.name);
            errors.push(FieldError::invalid(field(key), message));
        }
    }
}

fn field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
