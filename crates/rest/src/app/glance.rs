//! What a list shows of a job besides what its objects say: why it failed, and its most wanted metric.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::ResourceExt;

use super::jobs;
use crate::context::Context;
use crate::model::{FailedBy, Failure, Headline, JobState, JobSummary};
use crate::view::Job;

/// How many finished jobs are known without reading their files again.
const KNOWN: usize = 20_000;

/// What was found out of jobs that are over, by their uids.
#[derive(Default)]
pub(crate) struct Glances(Mutex<HashMap<String, Glance>>);

#[derive(Clone, Default)]
struct Glance {
    failed_by: Option<FailedBy>,
    headline: Option<Headline>,
}

/// A job as a list has it. It reads files, so it is for those that are shown and not for those that are searched.
pub(crate) fn summary(context: &Context, job: &Job) -> JobSummary {
    let mut summary = jobs::summary(context, job);
    add(context, job, &mut summary);
    summary
}

pub(crate) fn add(context: &Context, job: &Job, summary: &mut JobSummary) {
    let uid = job.job.uid().unwrap_or_default();
    let known = context.glances.lock().get(&uid).cloned();
    let glance = known.unwrap_or_else(|| {
        let failed = summary.state == JobState::Failed;
        let failure = failed.then(|| jobs::failure(context, job)).flatten();
        let glance = Glance {
            failed_by: failure.as_ref().map(FailedBy::from),
            headline: context.logbook.headline(&uid),
        };
        if summary.state.is_finished() && context.logbook.all_complete(&uid) {
            context.glances.keep(uid, glance.clone());
        }
        glance
    });
    summary.failed_by = glance.failed_by;
    summary.headline = glance.headline;
}

impl Glances {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Glance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, uid: String, glance: Glance) {
        let mut known = self.lock();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(uid, glance);
    }
}

impl From<&Failure> for FailedBy {
    fn from(failure: &Failure) -> Self {
        Self {
            kind: failure.kind,
            cause: failure.cause.clone(),
            worker: failure.worker,
        }
    }
}
