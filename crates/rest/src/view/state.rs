//! Where a job stands, in one word and in one sentence.

use std::sync::Arc;

use astrago_api::{conditions, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Job, nodes, waiting};
use crate::model::{Cause, JobState};

pub(super) fn state(job: &Job) -> JobState {
    if job.job.is_failed() {
        return JobState::Failed;
    }
    if job.job.is_complete() {
        return JobState::Complete;
    }
    if job.job.is_suspended() {
        return JobState::Suspended;
    }
    let alive: Vec<&Arc<Pod>> = job
        .pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect();
    let broken = alive.iter().any(|pod| is_broken(pod));
    let running = alive.iter().any(|pod| is_running(pod));
    if broken || (job.restarts() > 0 && !running) {
        return JobState::Restarting;
    }
    if running {
        JobState::Running
    } else {
        JobState::Pending
    }
}

pub(super) fn message(job: &Job) -> String {
    let state = state(job);
    let condition = match state {
        JobState::Complete => Some(conditions::train_job::COMPLETE),
        JobState::Failed => Some(conditions::train_job::FAILED),
        JobState::Suspended => Some(conditions::train_job::SUSPENDED),
        JobState::Pending | JobState::Running | JobState::Restarting => None,
    };
    let written = condition
        .and_then(|condition| conditions::find(job.job.conditions(), condition))
        .map(|condition| condition.message.clone())
        .filter(|message| !message.is_empty());
    if let Some(written) = written {
        return written;
    }
    let (running, wanted) = (job.nodes_running(), job.num_nodes);
    match state {
        JobState::Suspended => conditions::train_job::MESSAGE_SUSPENDED.to_owned(),
        JobState::Running => format!("{running} of {wanted} nodes are running"),
        JobState::Restarting if job.restarts() == 0 => "a node has failed".to_owned(),
        JobState::Restarting => format!("restart {} after a failure", job.restarts()),
        JobState::Pending => pending(job),
        JobState::Complete | JobState::Failed => state.as_str().to_owned(),
    }
}

/// The message for programs.
pub(super) fn cause(job: &Job) -> Cause {
    match state(job) {
        JobState::Suspended => Cause::new("suspended"),
        JobState::Running => Cause::new("running")
            .with("running", job.nodes_running())
            .with("wanted", job.num_nodes),
        JobState::Restarting => Cause::new("restarting").with("restarts", job.restarts()),
        JobState::Pending => match job.waiting() {
            Some(waiting) => waiting::cause_of_waiting(&waiting),
            None if job.pods.is_empty() && job.lacks_runtime => {
                Cause::new("no_runtime").with("runtime", &*job.job.spec.runtime_ref.name)
            }
            None if !has_place(job) => match creation_error(job) {
                Some(text) => Cause::new("other").with("text", text),
                None if job.job_set.is_none() && job.legacy.is_none() => Cause::new("queued"),
                None => Cause::new("waiting_for_pods"),
            },
            None => Cause::new("starting"),
        },
        JobState::Complete => Cause::new("complete"),
        JobState::Failed => Cause::new("failed").with("text", message(job)),
    }
}

fn pending(job: &Job) -> String {
    if let Some(waiting) = job.waiting() {
        return waiting.to_string();
    }
    if job.pods.is_empty() && job.lacks_runtime {
        return format!(
            "the runtime {:?} does not exist",
            job.job.spec.runtime_ref.name
        );
    }
    if has_place(job) {
        return "starting".to_owned();
    }
    match creation_error(job) {
        Some(text) => text.to_owned(),
        // It gets a JobSet when it is among the first of its equals.
        None if job.job_set.is_none() && job.legacy.is_none() => "waiting for its turn".to_owned(),
        None => "waiting for its pods".to_owned(),
    }
}

/// Whether a pod of the job has a machine: before, nobody knows whether it can start.
fn has_place(job: &Job) -> bool {
    let mut pods = job.pods.iter();
    pods.any(|pod| nodes::scheduled_at(pod).is_some())
}

/// What keeps the objects of the job from being made.
fn creation_error(job: &Job) -> Option<&str> {
    let text = job.job.annotations().get(labels::CREATION_ERROR)?;
    Some(text.as_str()).filter(|_| job.job_set.is_none())
}

/// A pod whose training container has failed and will be tried again.
fn is_broken(pod: &Pod) -> bool {
    let Some(status) = nodes::container_status(pod) else {
        return false;
    };
    let Some(state) = &status.state else {
        return false;
    };
    let failed = |code: i32| code != 0;
    let ended_badly = state
        .terminated
        .as_ref()
        .is_some_and(|terminated| failed(terminated.exit_code));
    let backing_off = state.waiting.is_some()
        && status
            .last_state
            .as_ref()
            .and_then(|last| last.terminated.as_ref())
            .is_some_and(|t| failed(t.exit_code));
    ended_badly || backing_off
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Running" | "Succeeded"))
}
