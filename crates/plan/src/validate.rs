//! Everything that is wrong with a TrainJob or a runtime, at once, each with its field.
//!
//! Kubeflow's admission asks one question after another and in random order, and finds names that are
//! too long only when JobSet refuses them later. Here all questions are asked, the answers come in
//! a fixed order, and what would fail later is refused now. Where upstream has words for it, they are
//! its words: clients match on them.

mod initializer;
mod job_set;
mod mpi;
mod names;
mod overrides;
mod runtime;
mod torchtune;
mod trainer;
mod update;

pub use job_set::{too_many_pods, validate_job_set};
pub use runtime::validate_runtime;
pub use update::validate_train_job_update;

use astrago_api::TrainJob;

use crate::error::{FieldError, FieldErrors};
use crate::launcher;
use crate::runtime::Runtime;

pub fn validate_train_job(job: &TrainJob, runtime: Runtime<'_>) -> Result<(), FieldErrors> {
    let mut errors = Vec::new();
    names::check(job, runtime, &mut errors);
    lifetime(job, &mut errors);
    launcher::check(job, runtime, &mut errors);
    initializer::check(job, runtime, &mut errors);
    overrides::check(job, runtime, &mut errors);
    trainer::check(job, runtime, &mut errors);
    mpi::check(job, runtime, &mut errors);
    torchtune::check(job, runtime, &mut errors);
    FieldErrors::check(errors)
}

fn lifetime(job: &TrainJob, errors: &mut Vec<FieldError>) {
    for answer in [job.ttl_seconds_after_finished(), job.max_restarts()] {
        if let Err(error) = answer {
            let field = format!("metadata.annotations[{}]", error.key);
            errors.push(FieldError::invalid(field, error.to_string()));
        }
    }
}
