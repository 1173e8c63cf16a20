//! Who has to succeed, and who has to run, for the job to do so.

use astrago_plan::legacy::{Details, TrainingJob};

use super::tally::{Place, Tally};

pub(crate) fn succeeded(job: &TrainingJob, tally: &Tally) -> bool {
    let mut leaders = tally.of_kind(job.leader()).peekable();
    if leaders.peek().is_none() {
        return false;
    }
    if job.has_leader() {
        return leaders.all(Place::succeeded);
    }
    let mut workers = leaders;
    match &job.details {
        // The others stop when one of them is done; those that come late have nothing to join.
        Details::PyTorch {
            elastic: Some(_), ..
        } => workers.any(Place::succeeded),
        Details::TensorFlow { success_policy, .. } if success_policy.is_empty() => {
            workers.any(|worker| worker.index == 0 && worker.succeeded())
        }
        _ => workers.all(Place::succeeded),
    }
}

pub(crate) fn runs(job: &TrainingJob, tally: &Tally) -> bool {
    let leads = tally.of_kind(job.leader()).any(Place::runs);
    match job.details {
        Details::Mpi { .. } => leads && tally.of_kind("Worker").all(Place::runs),
        _ => leads,
    }
}
