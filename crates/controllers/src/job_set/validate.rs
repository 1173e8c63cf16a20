//! The second step: a JobSet with its defaults filled in, or why it cannot run.

use std::collections::HashSet;

use astrago_api::JobSet;
use astrago_plan::default_job_set;

use super::{Error, Result};

/// A copy of `job_set` with JobSet's own defaults, if its templates make sense.
pub(crate) fn validate(job_set: &JobSet) -> Result<JobSet> {
    let mut names = HashSet::new();
    for template in &job_set.spec.replicated_jobs {
        // A dependency must stand before what depends on it; so there are no circles.
        for dependency in &template.depends_on {
            if !names.contains(dependency.name.as_str()) {
                return Err(Error::UnknownDependency {
                    template: template.name.clone(),
                    dependency: dependency.name.clone(),
                });
            }
        }
        if !names.insert(template.name.as_str()) {
            return Err(Error::DuplicateTemplate {
                template: template.name.clone(),
            });
        }
    }
    let mut job_set = job_set.clone();
    default_job_set(&mut job_set);
    Ok(job_set)
}
