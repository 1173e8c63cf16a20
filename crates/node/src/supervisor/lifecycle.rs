//! What a pod does next, as a pure function of what it should be and what it is.

use jiff::{SignedDuration, Timestamp};

use crate::phase::Phase;
use crate::spec::{ContainerSpec, PodSpec, RestartPolicy};
use crate::state::{ContainerState, State, Status, Terminated};

/// A container that ran for this long is not in a crash loop.
const CALM: SignedDuration = SignedDuration::from_mins(10);
const BACK_OFF_FIRST: i64 = 10;
const BACK_OFF_MAX: i64 = 300;

/// Which container of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Which {
    Init(usize),
    Main(usize),
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start this container now.
    Start(Which),
    /// Show that this container waits for its next start.
    BackOff(Which, Timestamp),
    /// Ask these running sidecars to end: the containers they served are done.
    StopSidecars,
    /// Nothing more will happen.
    Finish(Phase),
}

/// What to do now. Nothing, when only the end of a container or the clock can change that.
pub(crate) fn next(spec: &PodSpec, state: &State, now: Timestamp) -> Vec<Step> {
    let running = state.all().any(ContainerState::is_running);
    if state.stopping {
        return if running {
            Vec::new()
        } else {
            vec![Step::Finish(verdict(state))]
        };
    }
    let mut steps = Vec::new();
    let mut failed = false;
    let mut ready = true;
    for (index, (container, is)) in spec
        .init_containers
        .iter()
        .zip(&state.init_containers)
        .enumerate()
    {
        let which = Which::Init(index);
        if container.sidecar {
            let finished = finished(spec, state);
            match &is.status {
                _ if finished => {}
                Status::Running { .. } => ready = is.started,
                Status::Waiting { .. } | Status::Terminated(_) => {
                    steps.extend(restart(which, is, now));
                    ready = ready && (is.last.is_some() || is.terminated().is_some());
                }
            }
        } else {
            match &is.status {
                Status::Terminated(end) if end.exit_code == 0 => {}
                Status::Terminated(_) if spec.restart_policy == RestartPolicy::Never => {
                    failed = true;
                }
                Status::Running { .. } => ready = false,
                Status::Waiting { .. } | Status::Terminated(_) => {
                    steps.extend(restart(which, is, now));
                    ready = false;
                }
            }
        }
        if failed || !ready {
            break;
        }
    }
    if failed {
        return end(state, Phase::Failed);
    }
    if !ready {
        return steps;
    }
    for (index, is) in state.containers.iter().enumerate() {
        let again = match &is.status {
            Status::Running { .. } => false,
            Status::Waiting { .. } => true,
            Status::Terminated(end) => comes_again(spec.restart_policy, end),
        };
        if again {
            steps.extend(restart(Which::Main(index), is, now));
        }
    }
    if finished(spec, state) {
        return end(state, verdict(state));
    }
    steps
}

/// When something changes by itself.
pub(crate) fn wake(spec: &PodSpec, state: &State) -> Option<Timestamp> {
    // Those that have ended are started at once, later, and then wait, or never.
    let due = state
        .all()
        .filter(|container| matches!(container.status, Status::Waiting { .. }))
        .filter_map(due);
    let deadline = deadline(spec, state).filter(|_| !state.stopping);
    due.chain(deadline).min()
}

/// When the pod has had all the time that it may have.
pub(crate) fn deadline(spec: &PodSpec, state: &State) -> Option<Timestamp> {
    let seconds = i64::try_from(spec.active_deadline_seconds?).ok()?;
    state
        .started_at?
        .checked_add(SignedDuration::from_secs(seconds))
        .ok()
}

/// Writes down that a container ended.
pub(crate) fn terminate(container: &mut ContainerState, end: Terminated) {
    let ran = end.started_at.map_or(SignedDuration::ZERO, |start| {
        end.finished_at.duration_since(start)
    });
    container.crashes = if ran >= CALM {
        1
    } else {
        container.crashes + 1
    };
    container.ready = false;
    container.started = false;
    container.status = Status::Terminated(end);
}

/// Writes down that a container is about to start, before it does.
pub(crate) fn begin(container: &mut ContainerState, now: Timestamp, probed: bool, gated: bool) {
    let previous = std::mem::replace(&mut container.status, Status::Running { started_at: now });
    if let Status::Terminated(end) = previous {
        container.last = Some(end);
    }
    if container.last.is_some() {
        container.attempt += 1;
    }
    container.started = !gated;
    container.ready = !gated && !probed;
}

/// Writes down that a container waits for its next start.
pub(crate) fn back_off(container: &mut ContainerState, until: Timestamp) {
    let status = Status::Waiting {
        reason: "CrashLoopBackOff".to_owned(),
        message: Some(format!(
            "back-off restarting failed container {} until {until:.0}",
            container.name
        )),
    };
    if let Status::Terminated(end) = std::mem::replace(&mut container.status, status) {
        container.last = Some(end);
    }
}

/// What the state is after a supervisor was killed with everything that it ran; whether that was
/// anything.
pub(crate) fn recover(state: &mut State, now: Timestamp) -> bool {
    let mut lost = false;
    for container in state
        .init_containers
        .iter_mut()
        .chain(&mut state.containers)
    {
        let started_at = match container.status {
            Status::Running { started_at } => Some(started_at),
            Status::Waiting { .. } | Status::Terminated(_) => continue,
        };
        lost = true;
        terminate(
            container,
            Terminated {
                exit_code: 137,
                signal: Some(9),
                reason: "Error".to_owned(),
                message: Some(
                    "the pod's supervisor was killed, and the container with it".to_owned(),
                ),
                started_at,
                finished_at: now,
            },
        );
    }
    lost
}

/// A state in which nothing has happened yet.
pub(crate) fn initial(spec: &PodSpec) -> State {
    let waiting = |container: &ContainerSpec, reason: &str| ContainerState {
        name: container.name.clone(),
        status: Status::Waiting {
            reason: reason.to_owned(),
            message: None,
        },
        ..ContainerState::default()
    };
    let reason = if spec.init_containers.is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    State {
        init_containers: spec
            .init_containers
            .iter()
            .map(|container| waiting(container, "PodInitializing"))
            .collect(),
        containers: spec
            .containers
            .iter()
            .map(|container| waiting(container, reason))
            .collect(),
        ..State::default()
    }
}

fn restart(which: Which, container: &ContainerState, now: Timestamp) -> Option<Step> {
    match due(container) {
        Some(due) if due > now => {
            matches!(container.status, Status::Terminated(_)).then_some(Step::BackOff(which, due))
        }
        _ => Some(Step::Start(which)),
    }
}

/// When a container that has ended may start again: at once, then after 10 s, 20 s, 40 s …
fn due(container: &ContainerState) -> Option<Timestamp> {
    let end = container.terminated().or(match container.status {
        Status::Waiting { .. } => container.last.as_ref(),
        Status::Running { .. } | Status::Terminated(_) => None,
    })?;
    let delay = match container.crashes {
        0 | 1 => 0,
        crashes => (BACK_OFF_FIRST << (crashes - 2).min(16)).min(BACK_OFF_MAX),
    };
    end.finished_at
        .checked_add(SignedDuration::from_secs(delay))
        .ok()
}

fn comes_again(policy: RestartPolicy, end: &Terminated) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => end.exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// All containers have ended for good.
fn finished(spec: &PodSpec, state: &State) -> bool {
    let done = |container: &ContainerState| {
        container
            .terminated()
            .is_some_and(|end| !comes_again(spec.restart_policy, end))
    };
    state.containers.iter().all(done)
}

fn end(state: &State, phase: Phase) -> Vec<Step> {
    if state.all().any(ContainerState::is_running) {
        vec![Step::StopSidecars]
    } else {
        vec![Step::Finish(phase)]
    }
}

fn verdict(state: &State) -> Phase {
    let well =
        |container: &ContainerState| container.terminated().is_some_and(|end| end.exit_code == 0);
    if state.reason.is_none() && state.containers.iter().all(well) {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

#[cfg(test)]
mod tests;
