//! What went by while nobody was here to write it down.

use std::collections::HashSet;
use std::sync::PoisonError;

use kube::ResourceExt;

use super::recorder::started;
use super::{Attempt, Logbook};
use crate::context::Context;
use crate::legacy;
use crate::view::Job;
use crate::world::Key;

/// Closes the records and logs of jobs that are gone.
pub(super) fn sweep(context: &Context) {
    let jobs = context.world.mirrors.train_jobs.all();
    let present = jobs.iter().filter_map(|job| job.uid()).collect();
    match context.history.sweep(&present, context.now()) {
        Ok(gone) => {
            for uid in gone {
                for attempt in context.logbook.incomplete(&uid) {
                    context.logbook.complete(&uid, &attempt);
                }
            }
        }
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::error!(error, "failed to note which jobs are gone");
        }
    }
}

/// The jobs that are over, while their record or their logs do not say so.
pub(super) fn unsettled(context: &Context) -> Vec<Key> {
    let known = context.history.finished().unwrap_or_default();
    let mirrors = &context.world.mirrors;
    let is_settled = |key: &Key, uid: &str| {
        let logs = || Job::find(mirrors, key).map_or_else(Vec::new, |job| started(&job));
        let is_complete = |(attempt, _): &(Attempt, _)| context.logbook.is_complete(uid, attempt);
        known.contains(uid) && logs().iter().all(is_complete)
    };
    let current = mirrors.train_jobs.all().into_iter();
    let current = current.filter(|job| job.is_finished());
    let current = current.map(|job| (Key::of(&*job), job.uid()));
    let legacy = legacy::list(mirrors, None).into_iter();
    let legacy = legacy.filter(|(_, shown)| shown.job.is_finished());
    let legacy = legacy.map(|(key, shown)| (key, shown.job.uid()));
    current
        .chain(legacy)
        .filter(|(key, uid)| !is_settled(key, uid.as_deref().unwrap_or_default()))
        .map(|(key, _)| key)
        .collect()
}

/// The jobs whose logs are not known to be complete.
pub(super) fn open(context: &Context) -> Vec<Key> {
    let live = context.logbook.live();
    let jobs = context.world.mirrors.train_jobs.all().into_iter();
    let open = jobs.filter(|job| job.uid().is_some_and(|uid| live.contains(&uid)));
    open.map(|job| Key::of(&*job)).collect()
}

/// Closes the logs of attempts whose containers are gone, and whose logs are gone with them.
pub(super) fn close(context: &Context, job: &Job, running: &HashSet<(String, Attempt)>) {
    let uid = job.job.uid().unwrap_or_default();
    let started = started(job);
    for attempt in context.logbook.incomplete(&uid) {
        let id = (uid.clone(), attempt);
        if !running.contains(&id) && !started.iter().any(|(attempt, _)| *attempt == id.1) {
            context.logbook.complete(&id.0, &id.1);
        }
    }
}

impl Logbook {
    /// The attempts of which there is a file that has not been written to its end.
    fn incomplete(&self, uid: &str) -> Vec<Attempt> {
        let mut attempts = self.attempts(uid);
        attempts.retain(|attempt| !self.is_complete(uid, attempt));
        attempts
    }

    /// The jobs whose logs grow.
    fn live(&self) -> HashSet<String> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.keys().cloned().collect()
    }
}
