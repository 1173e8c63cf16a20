//! The nodes of a job: its pods, by rank.

use std::collections::BTreeMap;
use std::sync::Arc;

use astrago_api::labels;
use astrago_plan::fit::Waiting;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt;

use crate::cause::Ending;
use crate::ledger::Times;
use crate::model::JobNode;

/// The containers that train: that of every runtime, and those of the v1 jobs.
pub(crate) const TRAINING_CONTAINERS: [&str; 8] = [
    "node",
    "pytorch",
    "tensorflow",
    "mpi",
    "xgboost",
    "paddle",
    "mxnet",
    "jax",
];

/// The job of an MPI runtime that starts the others.
pub(super) const LAUNCHER: &str = "launcher";

/// The job of a runtime whose pods train.
pub(super) const NODE: &str = "node";

/// The nodes of a job, one per rank: the newest pod where there are several.
pub(super) fn nodes(workers: &[(i64, &Arc<Pod>)]) -> Vec<JobNode> {
    let mut newest: BTreeMap<i64, &Arc<Pod>> = BTreeMap::new();
    for (rank, pod) in workers {
        let newer = newest
            .get(rank)
            .is_none_or(|other| created(pod) >= created(other));
        if newer {
            newest.insert(*rank, pod);
        }
    }
    newest
        .into_iter()
        .map(|(rank, pod)| node_view(rank, pod))
        .collect()
}

/// The rank of a pod among those that train; `None` for pods that fetch data or models.
pub(super) fn rank(pod: &Pod, has_launcher: bool) -> Option<i64> {
    let index = |map: &BTreeMap<String, String>| map.get(labels::COMPLETION_INDEX)?.parse().ok();
    let index: i64 = index(pod.labels())
        .or_else(|| index(pod.annotations()))
        .unwrap_or(0);
    match role_of(pod) {
        LAUNCHER => Some(0),
        NODE if has_launcher => Some(index + 1),
        "dataset-initializer" | "model-initializer" => None,
        _ => Some(index),
    }
}

pub(super) fn role_of(pod: &Pod) -> &str {
    let labels = pod.labels();
    labels
        .get(labels::REPLICATED_JOB_NAME)
        .or_else(|| labels.get(labels::TRAINING_REPLICA_TYPE))
        .map_or("node", String::as_str)
}

/// How a pod ended, for finding the cause of a failure.
pub(super) fn ending(pod: &Pod, node: &JobNode) -> Option<Ending> {
    let container = container_status(pod);
    let terminated = container
        .and_then(|container| container.state.as_ref()?.terminated.as_ref())
        .or_else(|| container?.last_state.as_ref()?.terminated.as_ref());
    let init = pod
        .status
        .as_ref()?
        .init_container_statuses
        .iter()
        .flatten()
        .find_map(|status| {
            let terminated = status
                .state
                .as_ref()?
                .terminated
                .as_ref()
                .filter(|t| t.exit_code != 0)?;
            Some((status.name.clone(), terminated))
        });
    let ended = init
        .as_ref()
        .map(|(_, terminated)| *terminated)
        .or(terminated);
    Some(Ending {
        worker: node.worker,
        exit_code: ended.map(|ended| ended.exit_code),
        signal: ended.and_then(|ended| ended.signal),
        reason: ended
            .and_then(|ended| ended.reason.clone())
            .or_else(|| node.reason.clone()),
        message: node.message.clone(),
        finished_at: ended.and_then(|ended| ended.finished_at.as_ref().map(|time| time.0)),
        init_container: init.map(|(name, _)| name),
        tail: Vec::new(),
    })
}

pub(super) fn restarts(pod: &Pod) -> i32 {
    container_status(pod).map_or(0, |status| status.restart_count)
}

/// How many of these pods have a training container that runs.
pub(super) fn running<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> i64 {
    let running = pods.filter(|pod| {
        container_status(pod)
            .is_some_and(|status| status.state.as_ref().is_some_and(|s| s.running.is_some()))
    });
    i64::try_from(running.count()).unwrap_or(i64::MAX)
}

/// When the first of these pods began to train, in any attempt that is still known.
pub(super) fn first_start(pods: &[Arc<Pod>]) -> Option<Timestamp> {
    pods.iter().filter_map(|pod| first_start_of(pod)).min()
}

fn first_start_of(pod: &Pod) -> Option<Timestamp> {
    let status = container_status(pod)?;
    let last = status.last_state.as_ref().and_then(start_of);
    let current = status.state.as_ref().and_then(start_of);
    last.into_iter().chain(current).min()
}

pub(super) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let terminated = container_status(pod)?.state.as_ref()?.terminated.as_ref()?;
    terminated.finished_at.as_ref().map(|time| time.0)
}

pub(crate) fn scheduled_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "True")?;
    scheduled.last_transition_time.as_ref().map(|time| time.0)
}

pub(super) fn container_status(pod: &Pod) -> Option<&ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses
        .iter()
        .find(|status| TRAINING_CONTAINERS.contains(&status.name.as_str()))
        .or_else(|| statuses.first())
}

fn start_of(state: &ContainerState) -> Option<Timestamp> {
    let running = state
        .running
        .as_ref()
        .and_then(|running| running.started_at.as_ref());
    let terminated = state
        .terminated
        .as_ref()
        .and_then(|terminated| terminated.started_at.as_ref());
    running.or(terminated).map(|time| time.0)
}

/// The times of a pod, whatever its role.
pub(crate) fn times_of(pod: &Pod) -> Times {
    Times {
        created: pod
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        placed: scheduled_at(pod),
        started: first_start_of(pod),
        ended: finished_at(pod),
        rank: None,
    }
}

/// When a pod came; of two that came in the same second, our own API server gave the later one the greater uid.
pub(super) fn created(pod: &Pod) -> (Option<Timestamp>, Option<&str>) {
    let time = pod.creation_timestamp().map(|time| time.0);
    (time, pod.metadata.uid.as_deref())
}

fn node_view(worker: i64, pod: &Pod) -> JobNode {
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.clone())
        .unwrap_or_else(|| "Pending".to_owned());
    let container = container_status(pod);
    let state = container.and_then(|container| container.state.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let terminated = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| container?.last_state.as_ref()?.terminated.as_ref());
    let init = init_problem(pod);
    let reason = waiting
        .and_then(|waiting| waiting.reason.clone())
        .filter(|reason| reason != "PodInitializing" && reason != "ContainerCreating")
        .or_else(|| init.clone().map(|(reason, _)| reason))
        .or_else(|| terminated.and_then(|terminated| terminated.reason.clone()))
        .or_else(|| status.and_then(|status| status.reason.clone()));
    let message = waiting
        .and_then(|waiting| waiting.message.clone())
        .or_else(|| init.map(|(_, message)| message))
        .or_else(|| terminated.and_then(|terminated| terminated.message.clone()))
        .or_else(|| status.and_then(|status| status.message.clone()))
        .or_else(|| Waiting::of(pod).map(|waiting| waiting.to_string()));
    JobNode {
        worker,
        role: role_of(pod).to_owned(),
        pod: pod.name_any(),
        state: if waiting.is_some() {
            reason.clone().unwrap_or(phase)
        } else {
            phase
        },
        reason,
        message,
        exit_code: terminated.map(|terminated| terminated.exit_code),
        restarts: i64::from(restarts(pod)),
        machine: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        address: status.and_then(|status| status.pod_ip.clone()),
        started_at: state.and_then(start_of),
        finished_at: finished_at(pod),
    }
}

/// An init container that fails or cannot start, with what it says.
fn init_problem(pod: &Pod) -> Option<(String, String)> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    statuses.iter().find_map(|status| {
        let state = status.state.as_ref()?;
        if let Some(terminated) = state
            .terminated
            .as_ref()
            .filter(|terminated| terminated.exit_code != 0)
        {
            let message = format!(
                "init container {} exited with {}",
                status.name, terminated.exit_code
            );
            return Some(("Init:Error".to_owned(), message));
        }
        let waiting = state.waiting.as_ref()?;
        let reason = waiting
            .reason
            .clone()
            .filter(|reason| reason != "PodInitializing")?;
        Some((
            format!("Init:{reason}"),
            waiting.message.clone().unwrap_or_default(),
        ))
    })
}
