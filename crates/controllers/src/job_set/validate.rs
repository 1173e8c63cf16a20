//! The second step: a JobSet with its defaults filled in, or why it cannot run.

use astrago_api::JobSet;
use astrago_plan::{FieldErrors, default_job_set, too_many_pods, validate_job_set};

use super::fetch::Observed;

/// A copy of `job_set` with JobSet's own defaults, if it makes sense. One that runs already was taken for good before,
/// and goes on as long as that is possible at all.
pub(crate) fn validate(job_set: &JobSet, observed: &Observed) -> Result<JobSet, FieldErrors> {
    if !job_set.is_finished() {
        if let Some(error) = too_many_pods(&job_set.spec) {
            return Err(error.into());
        }
        if observed.jobs.is_empty() {
            validate_job_set(job_set)?;
        }
    }
    let mut job_set = job_set.clone();
    default_job_set(&mut job_set);
    Ok(job_set)
}
