//! Initializers: what the job asks for must have a place in the runtime.

use astrago_api::{TrainJob, labels::ancestor};

use crate::error::FieldError;
use crate::runtime::Runtime;
use crate::template;

const FIELD: &str = "spec.runtimeRef";

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let Some(initializer) = &job.spec.initializer else {
        return;
    };
    if initializer.dataset.is_some() {
        check_role(
            ancestor::DATASET_INITIALIZER,
            "datasetConfig",
            runtime,
            errors,
        );
    }
    if initializer.model.is_some() {
        check_role(ancestor::MODEL_INITIALIZER, "modelConfig", runtime, errors);
    }
}

fn check_role(role: &str, input: &str, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let jobs = &runtime.spec.template.spec.replicated_jobs;
    let Some(job) = jobs.iter().find(|job| job.ancestor() == Some(role)) else {
        errors.push(FieldError::invalid(
            FIELD,
            format!("must have {role} job when trainJob is configured with input {input}"),
        ));
        return;
    };
    if template::container(job, role).is_none() {
        errors.push(FieldError::invalid(
            FIELD,
            format!("must have container with name - {role} in the {role} job"),
        ));
    }
}
