//! Names: what they may be, and how long, so that the pods' names still fit.

use astrago_api::{TrainJob, names};

use crate::error::FieldError;
use crate::nodes;
use crate::runtime::Runtime;
use crate::template;

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let Some(name) = job.metadata.name.as_deref() else {
        if job.metadata.generate_name.is_none() {
            errors.push(FieldError::invalid(
                "metadata.name",
                "name or generateName is required",
            ));
        }
        return;
    };
    if name.len() > names::MAX_LABEL {
        let message = "metadata.name must be no more than 63 characters";
        errors.push(FieldError::invalid("metadata.name", message));
        return;
    }
    if !names::is_rfc1035_label(name) {
        let message = "metadata.name must match RFC 1035 DNS label format";
        errors.push(FieldError::invalid("metadata.name", message));
        return;
    }
    let jobs = &runtime.spec.template.spec.replicated_jobs;
    let (nodes, _) = nodes::num_nodes(job, runtime);
    let limit = jobs.iter().map(|template| {
        let trains = template::is_trainer(jobs, template);
        let pods = if trains {
            nodes
        } else {
            template.parallelism()
        };
        (
            names::train_job_name_limit(&template.name, template.replicas(), pods),
            &template.name,
        )
    });
    if let Some((limit, template)) = limit.min()
        && name.len() > limit
    {
        errors.push(FieldError::invalid(
            "metadata.name",
            format!(
                "must be no more than {limit} characters, because the pods of its job {template:?} \
                 are named after it and must have names of at most 63; it has {}",
                name.len()
            ),
        ));
    }
}
