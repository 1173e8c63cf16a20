//! What the controllers read from a pod.

use astrago_api::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use kube::ResourceExt;

use crate::clock::after;

/// How many pods of its rank ended before a pod. With the Job's uid and the rank it
/// determines the pod's name, so that creating the same pod twice is refused by the API server.
pub const ATTEMPT: &str = labels::ATTEMPT;

/// Annotation on a pod: how many of those count as failures. Kubernetes' own key.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The phase, as far as it is known.
pub fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

/// Whether all containers ended well.
pub fn has_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// Whether a container ended badly for good.
pub fn has_failed(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// Whether nothing of it runs or will run.
pub fn is_terminal(pod: &Pod) -> bool {
    has_succeeded(pod) || has_failed(pod)
}

/// Whether it is being deleted and may still run.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && !is_terminal(pod)
}

/// Whether it runs or will run, and nobody has asked for its end.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether it was chosen to make room, or its node let it go: an eviction, a drain, a shutdown.
pub fn is_disrupted(pod: &Pod) -> bool {
    condition(pod, "DisruptionTarget").is_some()
}

/// Whether somebody ended it on purpose, or is about to. That says nothing about the training: the pod neither
/// succeeded nor failed, whatever its exit code. A pod that had ended before anybody asked is not meant.
pub fn is_interrupted(pod: &Pod) -> bool {
    // A node that ends a pod says so together with the end. Others say it beforehand, and may then not get to it.
    let disruption = condition(pod, "DisruptionTarget").filter(|_| is_terminal(pod));
    let by_node = |found: &PodCondition| found.reason.as_deref() == Some("TerminationByKubelet");
    if disruption.is_some_and(|found| has_failed(pod) || by_node(found)) {
        return true;
    }
    let Some(asked) = asked_to_end_at(pod) else {
        return false;
    };
    !is_terminal(pod) || ended_before(pod, asked).is_none()
}

/// When it ended, if all of it had before `moment`. Kubernetes writes whole seconds; an end in the same second is
/// none before.
pub fn ended_before(pod: &Pod, moment: Timestamp) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let mut last = None;
    for container in containers {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        last = last.max(Some(ended.finished_at.as_ref()?.0));
    }
    last.filter(|last| *last < moment)
}

/// When its end was asked for.
fn asked_to_end_at(pod: &Pod) -> Option<Timestamp> {
    let until = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    Some(after(until, -grace.max(0)))
}

/// Whether it is ready, as its node says.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some()
}

/// The condition of this type, if it is true.
fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions
        .into_iter()
        .find(|condition| condition.type_ == kind && condition.status == "True")
}

/// The rank: the completion index of an Indexed Job.
pub fn index(pod: &Pod) -> Option<i32> {
    let annotations = pod.annotations().get(labels::COMPLETION_INDEX);
    let index = annotations.or_else(|| pod.labels().get(labels::COMPLETION_INDEX))?;
    index.parse().ok()
}

/// A count in an annotation; zero where it is absent or not a count.
pub fn count(pod: &Pod, annotation: &str) -> i32 {
    pod.annotations()
        .get(annotation)
        .and_then(|value| value.parse().ok())
        .unwrap_or(0)
        .max(0)
}

pub fn created_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// When its last container ended; for a pod that never ran, when that was decided.
pub fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let ended = containers(status)
        .filter_map(|container| {
            container
                .state
                .as_ref()?
                .terminated
                .as_ref()?
                .finished_at
                .as_ref()
        })
        .map(|time| time.0)
        .max();
    let conditions = status.conditions.iter().flatten();
    ended
        .or_else(|| {
            conditions
                .filter_map(|condition| condition.last_transition_time.as_ref())
                .map(|time| time.0)
                .max()
        })
        .or(pod.metadata.deletion_timestamp.as_ref().map(|time| time.0))
        .or(created_at(pod))
}

/// How often its containers were started again in place.
pub fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.iter();
    status
        .flat_map(containers)
        .map(|container| container.restart_count)
        .sum()
}

/// All containers' states, those of init containers first.
pub fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

/// One line on why it failed: `container node of pod a exited with code 1 (Error)`, or the pod's own message.
pub fn failure(pod: &Pod) -> String {
    let name = pod.name_any();
    let Some(status) = &pod.status else {
        return format!("pod {name} failed");
    };
    let mut ended = containers(status).filter_map(|container| {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        (terminated.exit_code != 0).then_some((container, terminated))
    });
    if let Some((container, terminated)) = ended.next() {
        let reason = terminated
            .reason
            .as_deref()
            .filter(|reason| *reason != "Error");
        let reason = reason
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        return format!(
            "container {} of pod {name} exited with code {}{reason}",
            container.name, terminated.exit_code
        );
    }
    match (&status.reason, &status.message) {
        (Some(reason), Some(message)) => format!("pod {name} failed: {reason}: {message}"),
        (Some(text), None) | (None, Some(text)) => format!("pod {name} failed: {text}"),
        (None, None) => format!("pod {name} failed"),
    }
}
