//! What may change on a TrainJob that exists, beyond the rules in its schema.

use astrago_api::{JobSet, TrainJob};

use crate::error::{FieldError, FieldErrors};

/// Overrides and patches may change only while the job is held before or after the update, and its
/// JobSet has no active jobs; so that the job can be made again with them.
pub fn validate_train_job_update(
    old: &TrainJob,
    new: &TrainJob,
    job_set: Option<&JobSet>,
) -> Result<(), FieldErrors> {
    let mut errors = Vec::new();
    let changes = [
        (
            "spec.podTemplateOverrides",
            "PodTemplateOverrides",
            old.spec.pod_template_overrides != new.spec.pod_template_overrides,
        ),
        (
            "spec.runtimePatches",
            "RuntimePatches",
            patches_differ(old, new),
        ),
    ];
    for (field, noun, changed) in changes {
        if !changed {
            continue;
        }
        if !old.is_suspended() && !new.is_suspended() {
            errors.push(FieldError::forbidden(
                field,
                format!(
                    "{noun} can only be modified when the TrainJob is suspended before or after \
                     the update"
                ),
            ));
        }
        let status = job_set.and_then(|job_set| job_set.status.as_ref());
        for job in status
            .iter()
            .flat_map(|status| &status.replicated_jobs_status)
        {
            if job.active > 0 {
                errors.push(FieldError::forbidden(
                    field,
                    format!(
                        "{noun} cannot be modified when the JobSet's ReplicatedJob {} is still \
                         active",
                        job.name
                    ),
                ));
            }
        }
    }
    FieldErrors::check(errors)
}

/// Whether patches differ in more than the times that the system sets.
fn patches_differ(old: &TrainJob, new: &TrainJob) -> bool {
    let untimed = |job: &TrainJob| {
        let mut patches = job.spec.runtime_patches.clone();
        for patch in &mut patches {
            patch.time = None;
        }
        patches
    };
    untimed(old) != untimed(new)
}
