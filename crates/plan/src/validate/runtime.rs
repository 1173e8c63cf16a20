//! Runtimes: the jobs with a role are made once, and have the container of that role.

use astrago_api::{TrainingRuntimeSpec, labels::ancestor};

use crate::TRAINER_CONTAINER;
use crate::error::{FieldError, FieldErrors};
use crate::template;

/// Validates the specification of a runtime of either kind.
pub fn validate_runtime(runtime: &TrainingRuntimeSpec) -> Result<(), FieldErrors> {
    let mut errors = Vec::new();
    for (index, job) in runtime.template.spec.replicated_jobs.iter().enumerate() {
        let required = match job.ancestor() {
            Some(ancestor::TRAINER) => TRAINER_CONTAINER,
            Some(ancestor::DATASET_INITIALIZER) => ancestor::DATASET_INITIALIZER,
            Some(ancestor::MODEL_INITIALIZER) => ancestor::MODEL_INITIALIZER,
            _ => continue,
        };
        let field = format!("spec.template.spec.replicatedJobs[{index}]");
        if job.replicas() != 1 {
            errors.push(FieldError::invalid(
                format!("{field}.replicas"),
                "always must be 1",
            ));
        }
        if template::container(job, required).is_none() {
            let role = job.ancestor().unwrap_or_default();
            let message = format!("must contain the required container for the ancestor: {role}");
            let field = format!("{field}.template.spec.template.spec.containers");
            errors.push(FieldError::invalid(field, message));
        }
    }
    FieldErrors::check(errors)
}
