//! One task per pod: from the pod's object and the supervisor's state to what has to be done.
//!
//! The task looks at four things, and at nothing that it remembers: the object (is it to be deleted?),
//! the pod's folder, its lock (does a supervisor live?) and its state file. So it makes no difference
//! whether this agent or an earlier one began.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Namespace, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

use super::admission::{self, Refusal};
use super::node::Node;
use super::prepare;
use super::references::Error;
use super::status::{self, Observed};
use crate::control::{Channel, Request, Response};
use crate::launch;
use crate::layout::PodDir;
use crate::phase::Phase;
use crate::spec::PodSpec;
use crate::state::{State, Status};

/// How long to wait before trying again what failed.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often at most the progress of a pull is told.
const PULL_TOLD: Duration = Duration::from_secs(5);
/// How often volumes are compared with the objects that they are made of.
const REFRESH: Duration = Duration::from_secs(30);

/// How long a supervisor may take to answer, and to end its pod when the pod's own time is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to do after a step.
enum Next {
    /// Wait for news, or for the time to refresh.
    Wait,
    /// Do the next step at once.
    Again,
    /// The pod is gone.
    Gone,
}

/// The task of one pod.
pub(super) struct Worker {
    node: Arc<Node>,
    pod: watch::Receiver<Arc<Pod>>,
    dir: PodDir,
    uid: String,
    /// News of the supervisor; `None` once it is gone.
    follower: Option<watch::Receiver<State>>,
    asked_to_stop: Option<u64>,
    /// The deadline that the supervisor was told, of those that it may not have been started with.
    deadline: Option<u64>,
    told: Option<Value>,
    warned: usize,
    retry: Duration,
    /// Why it is not to be started.
    refusal: Option<Refusal>,
    /// When volumes were last made, and of which metadata of the pod.
    refreshed: Option<(Instant, u64)>,
    /// Nothing is left to be taken away but the pod's folder.
    tidy: bool,
}

impl Worker {
    pub(super) fn new(
        node: Arc<Node>,
        pod: watch::Receiver<Arc<Pod>>,
        refusal: Option<Refusal>,
    ) -> Self {
        let uid = pod.borrow().uid().unwrap_or_default();
        let dir = PodDir::new(&node.options.data_dir, &uid);
        Self {
            node,
            pod,
            dir,
            uid,
            follower: None,
            asked_to_stop: None,
            deadline: None,
            told: None,
            warned: 0,
            retry: RETRY_FIRST,
            refusal,
            refreshed: None,
            tidy: false,
        }
    }

    /// Works until the pod is gone, or until nobody is interested.
    pub(super) async fn run(mut self) {
        loop {
            let pod = self.pod.borrow_and_update().clone();
            let pause = match self.step(&pod).await {
                Ok(Next::Gone) => return,
                Ok(Next::Again) => continue,
                Ok(Next::Wait) => {
                    self.retry = RETRY_FIRST;
                    REFRESH
                }
                Err(problem) => {
                    tracing::warn!(pod = %pod.name_any(), namespace = ?pod.namespace(), error = %astrago_net::chain(&*problem), "a step of a pod failed");
                    let pause = self.retry;
                    self.retry = (self.retry * 2).min(RETRY_MAX);
                    pause
                }
            };
            let pause = pause.min(until_overdue(&pod).unwrap_or(pause));
            let news = async {
                match &mut self.follower {
                    Some(follower) => follower.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            let supervised = tokio::select! {
                changed = self.pod.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    true
                }
                alive = news => alive,
                () = tokio::time::sleep(pause) => true,
            };
            if !supervised {
                self.follower = None;
                self.wait_for_lock().await;
            }
        }
    }

    async fn step(
        &mut self,
        pod: &Arc<Pod>,
    ) -> Result<Next, Box<dyn std::error::Error + Send + Sync>> {
        let deleted = pod.metadata.deletion_timestamp.is_some();
        if until_overdue(pod).is_some_and(|left| left.is_zero()) && launch::is_supervised(&self.dir)
        {
            tracing::warn!(pod = %pod.name_any(), namespace = ?pod.namespace(), "a supervisor did not end its pod in time, and is killed");
            launch::kill(&self.dir)?;
            self.follower = None;
            self.wait_for_lock().await;
        }
        if self.follower.is_none() && launch::is_supervised(&self.dir) {
            self.follower = self.follow().await;
            self.deadline = None;
            if self.follower.is_none() {
                // It is just beginning, or just ending. Nothing may be decided without it.
                tokio::time::sleep(Duration::from_millis(10)).await;
                return Ok(Next::Again);
            }
        }
        let state = match &self.follower {
            Some(follower) => Some(follower.borrow().clone()),
            None => self.recorded(pod),
        };
        let finished = state
            .as_ref()
            .is_some_and(|state| state.phase.is_finished());
        match (&self.follower, deleted) {
            (Some(_), true) if !finished => {
                self.stop(pod).await?;
                self.report(pod, state.as_ref(), None).await?;
                Ok(Next::Wait)
            }
            (Some(_), _) => {
                self.report(pod, state.as_ref(), None).await?;
                self.tell_of_trouble(pod, state.as_ref()).await;
                if !finished {
                    self.set_deadline(pod).await?;
                    self.refresh(pod).await?;
                }
                Ok(Next::Wait)
            }
            (None, true) => {
                if state.is_some() {
                    self.report(pod, Some(&ended(state.unwrap_or_default())), None)
                        .await?;
                }
                self.node.unclaim(&self.uid);
                self.delete(pod).await?;
                self.clean().await?;
                Ok(Next::Gone)
            }
            (None, false) if finished => {
                if !self.tidy {
                    self.node.release(&self.uid);
                }
                self.report(pod, state.as_ref(), None).await?;
                if !self.tidy {
                    let uid = self.uid.clone();
                    tokio::task::spawn_blocking(move || launch::remove_cgroups(&uid)).await??;
                    self.tidy = true;
                }
                Ok(Next::Wait)
            }
            (None, false) if is_terminal(pod) => Ok(Next::Wait),
            (None, false) => {
                if let Some(refusal) = self.refusal(pod).await? {
                    self.node
                        .events
                        .warn(pod, &refusal.reason, &refusal.message)
                        .await;
                    let state = State {
                        phase: Phase::Failed,
                        reason: Some(refusal.reason),
                        message: Some(refusal.message),
                        ..State::default()
                    };
                    self.node.release(&self.uid);
                    self.report(pod, Some(&state), None).await?;
                    return Ok(Next::Wait);
                }
                if let Err(error) = self.start(pod, state.as_ref()).await {
                    let message = astrago_net::chain(&error);
                    self.node.events.warn(pod, error.event(), &message).await;
                    self.report(pod, state.as_ref(), Some((error.reason(), message)))
                        .await?;
                    return Err(error.into());
                }
                // Beside what comes next: that the pod runs is told no later for it.
                let (node, started) = (Arc::clone(&self.node), Arc::clone(pod));
                self.node.tasks.spawn(async move {
                    let note = "started the pod's sandbox";
                    node.events.note(&started, "Started", note).await;
                });
                Ok(Next::Again)
            }
        }
    }

    /// Containers that wait before they are started again, and those that a probe finds ill.
    async fn tell_of_trouble(&self, pod: &Pod, state: Option<&State>) {
        let containers = state.iter().flat_map(|state| state.all());
        for container in containers {
            if let Some(note) = &container.unhealthy {
                self.node.events.warn(pod, "Unhealthy", note).await;
            }
            if matches!(&container.status, Status::Waiting { reason, .. } if reason == "CrashLoopBackOff")
            {
                let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
                let (container, uid) = (&container.name, &self.uid);
                let note = format!(
                    "Back-off restarting failed container {container} in pod {name}_{namespace}({uid})"
                );
                self.node.events.warn(pod, "BackOff", &note).await;
            }
        }
    }

    /// Why the pod is not to be started, unless it has been.
    async fn refusal(&self, pod: &Pod) -> kube::Result<Option<Refusal>> {
        if self.dir.spec().exists() {
            return Ok(None);
        }
        if let Some(refusal) = admission::claims_devices(pod) {
            return Ok(Some(refusal));
        }
        if self.refusal.is_some() || !admission::wants_host_network(pod) {
            return Ok(self.refusal.clone());
        }
        let namespaces: Api<Namespace> = Api::all(self.node.client.clone());
        let namespace = namespaces
            .get_opt(&pod.namespace().unwrap_or_default())
            .await?;
        Ok(admission::shares(pod, namespace.as_ref()))
    }

    /// What the last supervisor wrote down. A pod that ran and of which nothing can be read is lost: to
    /// start it once more would be another run under the same name, which its peers do not know of. Where
    /// the machine was started anew meanwhile, that is no fault of the pod.
    fn recorded(&self, pod: &Pod) -> Option<State> {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let problem = match State::read(&self.dir.state()) {
            Ok(None) if phase != Some("Running") => return None,
            Ok(None) => "its state file is gone".to_owned(),
            Ok(state) => return state,
            Err(error) => astrago_net::chain(&error),
        };
        if !is_terminal(pod) {
            tracing::warn!(pod = %pod.name_any(), namespace = ?pod.namespace(), problem, "a pod is lost");
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let names = |containers: Vec<Container>| -> Vec<String> {
            containers
                .into_iter()
                .map(|container| container.name)
                .collect()
        };
        let again = spec.restart_policy.as_deref() != Some("Never");
        let init_containers = names(spec.init_containers.unwrap_or_default());
        let containers = names(spec.containers);
        let mut state = State::lost(&init_containers, &containers, Timestamp::now());
        if began_before(pod, booted()) {
            if again {
                // A supervisor would not begin with one that it cannot read.
                let _ = std::fs::remove_file(self.dir.state());
                return None;
            }
            state.disrupt("the machine was started anew while the pod ran".to_owned());
        }
        Some(state)
    }

    /// Starts the pod's supervisor, after everything that it needs has been made.
    async fn start(&mut self, pod: &Arc<Pod>, state: Option<&State>) -> Result<(), Error> {
        if !self.dir.spec().exists() && self.node.facts.disk.is_short() {
            return Err(Error::DiskPressure);
        }
        if !is_prepared(&self.dir) {
            self.prepare(pod, state).await?;
            self.refreshed = Some((Instant::now(), metadata(pod)));
        }
        let _slot = self.node.launches.acquire().await.ok();
        let (node, dir) = (Arc::clone(&self.node), self.dir.clone());
        let started = tokio::task::spawn_blocking(move || node.launcher.start(&dir));
        started
            .await
            .unwrap_or_else(|error| Err(launch::Error::Refused(error.to_string())))?;
        Ok(())
    }

    /// Passes on a deadline, which may be set and lowered while the pod runs.
    async fn set_deadline(&mut self, pod: &Pod) -> Result<(), launch::Error> {
        let seconds = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.active_deadline_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        if let Some(seconds) = seconds.filter(|_| self.deadline != seconds) {
            let dir = self.dir.clone();
            let told = tokio::task::spawn_blocking(move || launch::set_deadline(&dir, seconds));
            told.await
                .unwrap_or_else(|error| Err(launch::Error::Refused(error.to_string())))?;
            self.deadline = Some(seconds);
        }
        Ok(())
    }

    /// Makes what the pod needs. Tells meanwhile, now and then, how far the pull of an image is.
    async fn prepare(&mut self, pod: &Pod, state: Option<&State>) -> Result<(), Error> {
        let (sender, mut pulling) = watch::channel(None);
        let (node, dir) = (Arc::clone(&self.node), self.dir.clone());
        let mut preparing = std::pin::pin!(prepare::pod(&node, pod, &dir, &sender));
        let mut due = tokio::time::Instant::now();
        loop {
            let news = async {
                tokio::time::sleep_until(due).await;
                pulling.changed().await
            };
            tokio::select! {
                prepared = &mut preparing => return prepared,
                _ = news => {}
            }
            let Some((image, progress)) = pulling.borrow_and_update().clone() else {
                continue;
            };
            let message = format!("pulling image {image}: {progress}");
            // Waited for, so that it cannot overtake what is told later. If it fails, that will be told.
            let waiting = Some(("ContainerCreating", message));
            let _ = self.report(pod, state, waiting).await;
            due = tokio::time::Instant::now() + PULL_TOLD;
        }
    }

    /// Brings volumes made of objects up to date, now and then, and when the pod itself has changed.
    async fn refresh(&mut self, pod: &Arc<Pod>) -> Result<(), Error> {
        let own = metadata(pod);
        let is_due = |(when, of): (Instant, u64)| when.elapsed() >= REFRESH || of != own;
        if self.refreshed.is_none_or(is_due) && prepare::refers_to_objects(pod) {
            prepare::volumes(&self.node, pod, &self.dir).await?;
            self.refreshed = Some((Instant::now(), own));
        }
        Ok(())
    }

    async fn stop(&mut self, pod: &Pod) -> Result<(), launch::Error> {
        let grace = pod
            .metadata
            .deletion_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(30);
        if self.asked_to_stop.is_none_or(|asked| grace < asked) {
            let dir = self.dir.clone();
            let asked = tokio::task::spawn_blocking(move || launch::stop(&dir, Some(grace))).await;
            let asked =
                asked.unwrap_or_else(|error| Err(launch::Error::Refused(error.to_string())));
            if let Err(error) = asked {
                // It is killed when its time is over.
                tracing::warn!(pod = %pod.name_any(), namespace = ?pod.namespace(), error = %astrago_net::chain(&error), "a supervisor does not hear that its pod is to end");
                return Ok(());
            }
            self.node
                .events
                .note(pod, "Killing", "stopping the pod's containers")
                .await;
            self.asked_to_stop = Some(grace);
        }
        Ok(())
    }

    /// Listens to the supervisor.
    async fn follow(&self) -> Option<watch::Receiver<State>> {
        let dir = self.dir.clone();
        let connected = tokio::task::spawn_blocking(move || {
            let channel = Channel::connect(dir.path())?;
            channel.send(&Request::Watch, &[])?;
            Ok::<_, crate::control::Error>(channel.into_stream())
        });
        let stream = connected.await.ok()?.ok()?;
        stream.set_nonblocking(true).ok()?;
        let mut lines = BufReader::new(tokio::net::UnixStream::from_std(stream).ok()?).lines();
        // One that is stopped says nothing.
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let first = parse(&first.ok()?.ok()??)?;
        let (sender, receiver) = watch::channel(first);
        self.node.tasks.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(state) = parse(&line) else { break };
                if sender.send(state).is_err() {
                    break;
                }
            }
        });
        Some(receiver)
    }

    /// A supervisor that closed its socket holds the lock for a moment longer.
    async fn wait_for_lock(&self) {
        for _ in 0..200 {
            if !launch::is_supervised(&self.dir) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Tells the API, if there is news.
    async fn report(
        &mut self,
        pod: &Pod,
        state: Option<&State>,
        waiting: Option<(&str, String)>,
    ) -> kube::Result<()> {
        if is_terminal(pod) {
            return Ok(());
        }
        if let Some(state) = state {
            if state.phase.is_finished() {
                self.node.unclaim(&self.uid);
            }
            for warning in state.warnings.iter().skip(self.warned) {
                self.node
                    .events
                    .warn(pod, "LimitsNotEnforced", warning)
                    .await;
            }
            self.warned = state.warnings.len().max(self.warned);
        }
        let spec: Option<PodSpec> = std::fs::read(self.dir.spec())
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let observed = Observed {
            spec: spec.as_ref(),
            state,
            waiting,
            address: self.node.address(&self.uid),
            host_address: self.node.facts.host_address,
            now: Timestamp::now(),
        };
        let mut status = json!(status::of(pod, &observed));
        if let Some(fields) = status.as_object_mut() {
            for name in ["reason", "message"] {
                fields.entry(name).or_insert(Value::Null);
            }
        }
        if self.told.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(
            self.node.client.clone(),
            &pod.namespace().unwrap_or_default(),
        );
        let patch = Patch::Merge(json!({"metadata": {"uid": self.uid}, "status": status}));
        match api
            .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await
        {
            // Gone, or another pod of that name: nobody to tell.
            Err(kube::Error::Api(error)) if error.code == 404 || error.code == 409 => {}
            other => drop(other?),
        }
        self.told = Some(status);
        Ok(())
    }

    /// Deletes the object, as only its node may.
    async fn delete(&self, pod: &Pod) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(
            self.node.client.clone(),
            &pod.namespace().unwrap_or_default(),
        );
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match api.delete(&pod.name_any(), &parameters).await {
            Err(kube::Error::Api(error)) if error.code == 404 || error.code == 409 => Ok(()),
            other => other.map(drop),
        }
    }

    /// Takes away everything but the logs.
    async fn clean(&self) -> Result<(), launch::Error> {
        self.node.forget(&self.uid);
        clean(self.dir.clone(), self.uid.clone()).await
    }
}

/// Ends a pod that the API does not (or no longer) know, and removes everything but its logs.
pub(super) async fn bury(node: Arc<Node>, dir: PodDir, uid: String) {
    let begun = Instant::now();
    for attempt in 0.. {
        if launch::is_supervised(&dir) {
            let asked = dir.clone();
            if begun.elapsed() > PATIENCE {
                let _ = launch::kill(&dir);
            }
            // Nobody waits for it: a short grace period, as kubelets give.
            let _ = tokio::task::spawn_blocking(move || launch::stop(&asked, Some(2))).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        match clean(dir.clone(), uid.clone()).await {
            Ok(()) => break,
            Err(error) if attempt > 100 => {
                tracing::error!(uid, error = %astrago_net::chain(&error), "a pod could not be removed");
                break;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    node.forget(&uid);
}

async fn clean(dir: PodDir, uid: String) -> Result<(), launch::Error> {
    let removed = tokio::task::spawn_blocking(move || launch::remove(&dir, &uid)).await;
    removed.unwrap_or_else(|error| Err(launch::Error::Refused(error.to_string())))
}

/// Stands for what of the pod's object its volumes may show.
fn metadata(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    (pod.labels(), pod.annotations()).hash(&mut hasher);
    hasher.finish()
}

/// Whether what was made for a pod can be relied on. Of files from before the machine was started, those
/// that were never synced may be empty.
fn is_prepared(dir: &PodDir) -> bool {
    let read = || -> Option<bool> {
        let text = std::fs::read(dir.spec()).ok()?;
        serde_json::from_slice::<PodSpec>(&text).ok()?;
        let made = std::fs::metadata(dir.spec()).ok()?.modified().ok()?;
        let booted = Duration::from_secs(u64::try_from(booted()?).ok()?);
        Some(made.duration_since(SystemTime::UNIX_EPOCH).ok()? >= booted)
    };
    read().unwrap_or(false)
}

/// Whether the pod, of which it may not have been told when it began, began before that second.
fn began_before(pod: &Pod, second: Option<i64>) -> bool {
    let told = pod.status.as_ref().and_then(|it| it.start_time.as_ref());
    let began = told.or(pod.metadata.creation_timestamp.as_ref());
    began
        .zip(second)
        .is_some_and(|(began, second)| began.0.as_second() < second)
}

/// When the machine was started, in seconds of the epoch.
fn booted() -> Option<i64> {
    let kernel = std::fs::read_to_string("/proc/stat").ok()?;
    let mut lines = kernel.lines();
    let booted = lines.find_map(|line| line.strip_prefix("btime "))?;
    booted.trim().parse().ok()
}

fn parse(line: &str) -> Option<State> {
    match serde_json::from_str(line) {
        Ok(Response::State(state)) => Some(*state),
        _ => None,
    }
}

/// How long a pod that is being deleted may still take; `None` while nobody has deleted it.
fn until_overdue(pod: &Pod) -> Option<Duration> {
    let due = pod.metadata.deletion_timestamp.as_ref()?.0;
    let left = due.duration_since(Timestamp::now());
    let left = left.checked_add(PATIENCE.try_into().ok()?)?;
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The state of a pod whose supervisor is gone and will not come back.
fn ended(mut state: State) -> State {
    crate::supervisor::recover(&mut state, Timestamp::now());
    if !state.phase.is_finished() {
        let well = state
            .containers
            .iter()
            .all(|container| container.terminated().is_some_and(|end| end.exit_code == 0));
        state.phase = if well {
            Phase::Succeeded
        } else {
            Phase::Failed
        };
    }
    state
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn a_pod_began_when_it_was_told_or_when_it_was_made() {
        let at = |second| Some(Time(Timestamp::from_second(second).unwrap()));
        let mut pod = Pod::default();
        assert!(!began_before(&pod, Some(100)));
        pod.metadata.creation_timestamp = at(50);
        assert!(began_before(&pod, Some(100)) && !began_before(&pod, None));
        pod.status.get_or_insert_default().start_time = at(100);
        assert!(!began_before(&pod, Some(100)) && began_before(&pod, Some(101)));
    }

    #[test]
    fn volumes_are_made_again_when_what_they_show_of_the_pod_changed() {
        let mut pod = Pod::default();
        let before = metadata(&pod);
        pod.status.get_or_insert_default().phase = Some("Running".to_owned());
        assert_eq!(metadata(&pod), before);
        pod.annotations_mut().insert("a".to_owned(), "b".to_owned());
        assert_ne!(metadata(&pod), before);
    }
}
