//! What the API is told about a pod. Pure: from the supervisor's state to a `PodStatus`.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState as KubeState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::phase::Phase;
use crate::spec::PodSpec;
use crate::state::{ContainerState, State, Status, Terminated};

/// What is known about a pod on this node.
pub(super) struct Observed<'a> {
    pub(super) spec: Option<&'a PodSpec>,
    pub(super) state: Option<&'a State>,
    /// Why it has not been started: a reason and a sentence.
    pub(super) waiting: Option<(&'a str, String)>,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) host_address: IpAddr,
    pub(super) now: Timestamp,
}

/// The status of a pod.
pub(super) fn of(pod: &Pod, observed: &Observed<'_>) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let phase = observed.state.map_or(Phase::Pending, |state| state.phase);
    let declared = pod.spec.clone().unwrap_or_default();
    let (init, main) = if let Some(state) = observed.state {
        let known = |container: &ContainerState| known(container, pod, observed);
        (
            state.init_containers.iter().map(known).collect(),
            state.containers.iter().map(known).collect(),
        )
    } else {
        let unknown =
            |container: &Container| unknown(&container.name, container.image.as_deref(), observed);
        (
            declared
                .init_containers
                .iter()
                .flatten()
                .map(unknown)
                .collect::<Vec<_>>(),
            declared.containers.iter().map(unknown).collect::<Vec<_>>(),
        )
    };
    let conditions = conditions(pod, observed, phase, &main);
    let address = observed.address.map(|address| address.to_string());
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: observed.state.and_then(|state| state.reason.clone()),
        message: observed.state.and_then(|state| state.message.clone()),
        conditions: Some(conditions),
        container_statuses: Some(main),
        init_container_statuses: (!init.is_empty()).then_some(init),
        host_ip: Some(observed.host_address.to_string()),
        host_ips: Some(vec![HostIP {
            ip: observed.host_address.to_string(),
        }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        start_time: before
            .start_time
            .or_else(|| observed.state.and_then(|state| state.started_at).map(Time))
            .or(Some(Time(observed.now))),
        qos_class: Some(quality(pod).to_owned()),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// What is true of the pod as a whole.
fn conditions(
    pod: &Pod,
    observed: &Observed<'_>,
    phase: Phase,
    main: &[ContainerStatus],
) -> Vec<PodCondition> {
    let before = || {
        pod.status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
    };
    let incomplete = incomplete(pod, observed);
    let initialized = observed.state.is_some() && incomplete.is_empty();
    let ready = phase == Phase::Running && main.iter().all(|container| container.ready);
    let completed = phase == Phase::Succeeded;
    let why = match phase {
        Phase::Succeeded => Some("PodCompleted"),
        Phase::Failed => Some("PodFailed"),
        Phase::Pending | Phase::Running => Some("ContainersNotReady"),
    };
    let unready: Vec<_> = main
        .iter()
        .filter(|container| !container.ready)
        .map(|container| container.name.as_str())
        .collect();
    let message = |reason: &str| match reason {
        "ContainersNotReady" => Some(format!(
            "containers with unready status: [{}]",
            unready.join(" ")
        )),
        "ContainersNotInitialized" => Some(format!(
            "containers with incomplete status: [{}]",
            incomplete.join(" ")
        )),
        _ => None,
    };
    let mut conditions = Vec::new();
    let mut set = |kind: &str, is: bool, reason: Option<&str>| {
        let status = if is { "True" } else { "False" };
        let old = before().find(|condition| condition.type_ == kind);
        let since = old
            .filter(|old| old.status == status)
            .and_then(|old| old.last_transition_time.clone());
        conditions.push(PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.filter(|_| !is).map(str::to_owned),
            message: reason.filter(|_| !is).and_then(message),
            last_transition_time: since.or(Some(Time(observed.now))),
            ..PodCondition::default()
        });
    };
    set("PodReadyToStartContainers", phase == Phase::Running, None);
    set(
        "Initialized",
        initialized || completed,
        Some("ContainersNotInitialized"),
    );
    set("Ready", ready, why);
    set("ContainersReady", ready, why);
    if !before().any(|condition| condition.type_ == "PodScheduled") {
        set("PodScheduled", true, None);
    }
    // With the end that it explains: controllers must not take that for a failure of the job.
    if let Some(why) = observed.state.and_then(|state| state.disruption.as_ref()) {
        set("DisruptionTarget", true, None);
        if let Some(condition) = conditions.last_mut() {
            condition.reason = Some("TerminationByKubelet".to_owned());
            condition.message = Some(why.clone());
        }
    }
    // What others said about the pod stays.
    let others = before().filter(|other| {
        let ours = |own: &PodCondition| own.type_ == other.type_;
        !conditions.iter().any(ours)
    });
    let others: Vec<_> = others.cloned().collect();
    conditions.extend(others);
    conditions
}

/// The init containers that the pod still waits for. A sidecar need only have started.
fn incomplete<'a>(pod: &'a Pod, observed: &Observed<'_>) -> Vec<&'a str> {
    let declared = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let is_done = |container: &&Container| {
        let known = observed.state.and_then(|state| {
            let mut known = state.init_containers.iter();
            known.find(|known| known.name == container.name)
        });
        known.is_some_and(|known| {
            known.started && container.restart_policy.as_deref() == Some("Always")
                || known.terminated().is_some_and(|end| end.exit_code == 0)
        })
    };
    declared
        .filter(|container| !is_done(container))
        .map(|container| container.name.as_str())
        .collect()
}

fn known(container: &ContainerState, pod: &Pod, observed: &Observed<'_>) -> ContainerStatus {
    let spec = observed.spec.and_then(|spec| {
        spec.init_containers
            .iter()
            .chain(&spec.containers)
            .find(|candidate| candidate.name == container.name)
    });
    let id = |attempt: u32| {
        Some(format!(
            "astrago://{}-{}-{attempt}",
            pod.uid().unwrap_or_default(),
            container.name
        ))
    };
    let state = match &container.status {
        Status::Waiting { reason, message } => KubeState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.clone()),
                message: message.clone(),
            }),
            ..KubeState::default()
        },
        Status::Running { started_at } => KubeState {
            running: Some(ContainerStateRunning {
                started_at: Some(Time(*started_at)),
            }),
            ..KubeState::default()
        },
        Status::Terminated(end) => terminated(end, id(container.attempt)),
    };
    let has_run = !matches!(container.status, Status::Waiting { .. }) || container.last.is_some();
    let before = if matches!(container.status, Status::Waiting { .. }) {
        container.attempt
    } else {
        container.attempt.saturating_sub(1)
    };
    ContainerStatus {
        name: container.name.clone(),
        image: spec.map(|spec| spec.image.clone()).unwrap_or_default(),
        image_id: spec.map(|spec| spec.image_id.clone()).unwrap_or_default(),
        container_id: if has_run { id(container.attempt) } else { None },
        ready: container.ready
            || (container.terminated().is_some_and(|end| end.exit_code == 0)
                && is_init(pod, &container.name)),
        started: Some(container.started),
        restart_count: i32::try_from(container.attempt).unwrap_or(i32::MAX),
        stop_signal: spec.and_then(|spec| spec.stop_signal.clone()),
        state: Some(state),
        last_state: Some(
            container
                .last
                .as_ref()
                .map(|end| terminated(end, id(before)))
                .unwrap_or_default(),
        ),
        ..ContainerStatus::default()
    }
}

fn is_init(pod: &Pod, name: &str) -> bool {
    pod.spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .any(|container| container.name == name)
}

fn unknown(name: &str, image: Option<&str>, observed: &Observed<'_>) -> ContainerStatus {
    let (reason, message) = match &observed.waiting {
        Some((reason, message)) => ((*reason).to_owned(), Some(message.clone())),
        None => ("ContainerCreating".to_owned(), None),
    };
    ContainerStatus {
        name: name.to_owned(),
        image: image.unwrap_or_default().to_owned(),
        started: Some(false),
        state: Some(KubeState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason),
                message,
            }),
            ..KubeState::default()
        }),
        ..ContainerStatus::default()
    }
}

fn terminated(end: &Terminated, container_id: Option<String>) -> KubeState {
    KubeState {
        terminated: Some(ContainerStateTerminated {
            exit_code: end.exit_code,
            signal: end.signal,
            reason: Some(end.reason.clone()),
            message: end.message.clone(),
            started_at: end.started_at.map(Time),
            finished_at: Some(Time(end.finished_at)),
            container_id,
        }),
        ..KubeState::default()
    }
}

/// The quality of service class that Kubernetes derives from requests and limits.
fn quality(pod: &Pod) -> &'static str {
    let mut any = false;
    let mut all = true;
    for container in pod.spec.iter().flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    }) {
        let resources = container.resources.clone().unwrap_or_default();
        let (limits, requests) = (
            resources.limits.unwrap_or_default(),
            resources.requests.unwrap_or_default(),
        );
        for name in ["cpu", "memory"] {
            any |= limits.contains_key(name) || requests.contains_key(name);
            let equal = requests
                .get(name)
                .is_none_or(|request| limits.get(name) == Some(request));
            all &= limits.contains_key(name) && equal;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c", "image": "img"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Custom", "status": "True"}]},
        }))
        .unwrap()
    }

    fn observe(state: Option<&State>, waiting: Option<(&'static str, String)>) -> PodStatus {
        let observed = Observed {
            spec: None,
            state,
            waiting,
            address: Some(Ipv4Addr::new(10, 224, 0, 2)),
            host_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            now: Timestamp::from_second(1000).unwrap(),
        };
        of(&pod(), &observed)
    }

    #[test]
    fn a_pod_that_cannot_start_says_why_in_every_container() {
        let status = observe(
            None,
            Some((
                "CreateContainerConfigError",
                "ConfigMap \"x\" not found".into(),
            )),
        );
        assert_eq!(status.phase.as_deref(), Some("Pending"));
        let waiting = status.container_statuses.unwrap()[0]
            .state
            .clone()
            .unwrap()
            .waiting
            .unwrap();
        assert_eq!(
            waiting.reason.as_deref(),
            Some("CreateContainerConfigError")
        );
        assert_eq!(
            waiting.message.as_deref(),
            Some("ConfigMap \"x\" not found")
        );
    }

    #[test]
    fn an_end_by_the_node_is_told_with_its_reason() {
        let mut state = State {
            phase: Phase::Failed,
            ..State::default()
        };
        state.disrupt("the node went".to_owned());
        let status = observe(Some(&state), None);
        assert_eq!(status.reason.as_deref(), Some("Terminated"));
        let conditions = status.conditions.unwrap();
        let one = conditions
            .iter()
            .find(|one| one.type_ == "DisruptionTarget")
            .unwrap();
        assert_eq!(
            (
                one.status.as_str(),
                one.reason.as_deref(),
                one.message.as_deref()
            ),
            ("True", Some("TerminationByKubelet"), Some("the node went"))
        );
    }

    #[test]
    fn a_pod_that_is_not_initialized_says_which_containers_it_waits_for() {
        let mut state = State {
            init_containers: vec![ContainerState {
                name: "i".into(),
                ..ContainerState::default()
            }],
            ..State::default()
        };
        let waiting = state.clone();
        state.init_containers[0].started = true;
        for state in [None, Some(&waiting), Some(&state)] {
            let conditions = observe(state, None).conditions.unwrap();
            let one = conditions.iter().find(|one| one.type_ == "Initialized");
            assert_eq!(
                one.unwrap().message.as_deref(),
                Some("containers with incomplete status: [i]")
            );
        }
    }

    #[test]
    fn conditions_of_others_stay_and_ours_follow_the_containers() {
        let container = |name: &str, running: bool| ContainerState {
            name: name.into(),
            status: if running {
                Status::Running {
                    started_at: Timestamp::UNIX_EPOCH,
                }
            } else {
                Status::default()
            },
            ready: running,
            started: running,
            ..ContainerState::default()
        };
        let mut done = container("i", false);
        done.status = Status::Terminated(Terminated {
            exit_code: 0,
            signal: None,
            reason: "Completed".into(),
            message: None,
            started_at: None,
            finished_at: Timestamp::UNIX_EPOCH,
        });
        let state = State {
            phase: Phase::Running,
            init_containers: vec![done],
            containers: vec![container("c", true)],
            ..State::default()
        };
        let status = observe(Some(&state), None);
        let get = |kind: &str| {
            status
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.type_ == kind)
                .map(|condition| condition.status.clone())
        };
        for kind in [
            "Ready",
            "Initialized",
            "ContainersReady",
            "PodScheduled",
            "Custom",
        ] {
            assert_eq!(get(kind).as_deref(), Some("True"), "{kind}");
        }
        assert_eq!(status.pod_ip.as_deref(), Some("10.224.0.2"));
    }
}
