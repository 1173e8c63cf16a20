//! The first step: the JobSet of a TrainJob, and the runtime where it is needed.
//!
//! A job that runs, or has ended, needs no runtime, so that most reconciles read nothing but the mirrors.

use std::sync::Arc;

use astrago_api::{JobSet, ObjectKey, TrainJob};
use astrago_mirror::owner_uid;
use kube::ResourceExt;

use super::snapshot::{self, Source};
use super::{Error, Result};
use crate::context::Context;

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) job_set: Option<Arc<JobSet>>,
    /// The runtime, if one is needed now.
    pub(crate) runtime: Option<Source>,
}

/// Looks up what there is of `job`.
pub(crate) async fn fetch(context: &Context, job: &TrainJob) -> Result<Observed> {
    let job_set = context.mirrors.job_sets.get(&ObjectKey::of(job));
    if let Some(job_set) = &job_set
        && owner_uid(&**job_set) != job.metadata.uid
    {
        // One that belongs to a deleted TrainJob of the same name is on its way out, and its end wakes us.
        return Err(Error::NameTaken {
            name: job_set.name_any(),
        });
    }
    let runtime = if needs_runtime(job, job_set.as_deref()) {
        Some(snapshot::load(context, job).await?)
    } else {
        None
    };
    Ok(Observed { job_set, runtime })
}

/// A new job needs its runtime to be planned, a held one because it may have been changed meanwhile, and one that
/// ended and whose JobSet is gone, to know how long it stays.
fn needs_runtime(job: &TrainJob, job_set: Option<&JobSet>) -> bool {
    if job.metadata.deletion_timestamp.is_some() {
        return false;
    }
    if job.is_finished() {
        return job_set.is_none() && matches!(job.ttl_seconds_after_finished(), Ok(None));
    }
    job_set.is_none_or(|job_set| {
        job_set.metadata.deletion_timestamp.is_none()
            && !job_set.is_finished()
            && (job.is_suspended() || job_set.is_suspended())
    })
}
