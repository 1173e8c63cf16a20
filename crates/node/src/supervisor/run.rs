//! The supervisor's loop: one `poll` over signals, output, callers and clocks.
//!
//! | source | what it changes |
//! |---|---|
//! | signals | children that ended; SIGTERM, which stops the pod |
//! | containers' pipes | logs |
//! | the control socket | stop, exec, stats, watch |
//! | clocks | back-off, kill after grace, probes, the pod's deadline |
//!
//! After each turn [`lifecycle::next`] says what to do, and a changed state is written before anything
//! else happens. A container is started only after the state file says that it runs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::lifecycle::{self, Step, Which};
use super::live::{self, Live};
use super::relay::Relay;
use super::requests::Callers;
use super::storage::Storage;
use super::{Error, Result};
use crate::control;
use crate::layout::PodDir;
use crate::phase::Phase;
use crate::sandbox::cgroup::{Group, PodGroup};
use crate::spec::{ContainerSpec, PodSpec, RestartPolicy};
use crate::state::{ContainerState, State, Status, Terminated};

pub(super) struct Supervisor {
    pub(super) pod: PodDir,
    pub(super) spec: PodSpec,
    pub(super) state: State,
    pub(super) live: BTreeMap<Which, Live>,
    pub(super) group: Option<PodGroup>,
    /// Keeps the namespace of the bridges alive.
    pub(super) bridges: OwnedFd,
    pub(super) callers: Callers,
    groups: BTreeMap<Which, Group>,
    /// Hooks that run: what to do with the container when they end.
    pub(super) hooks: BTreeMap<Pid, (Which, Hook)>,
    written: Option<State>,
    signals: SignalFd,
    listener: UnixListener,
    relay: Option<Relay>,
    pub(super) storage: Storage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    PostStart,
    PreStop,
}

/// Who woke the supervisor.
#[derive(Clone, Copy)]
enum Woken {
    Signal,
    /// Somebody new at the control socket.
    Caller,
    /// A stream of a container.
    Output(Which, usize),
    /// A pod that reports its progress.
    Report,
    /// The caller of a command that runs.
    HungUp(Pid),
}

impl Supervisor {
    /// Takes up the pod where the last supervisor left it.
    pub(super) fn new(
        pod: PodDir,
        spec: PodSpec,
        bridges: OwnedFd,
        group: Option<PodGroup>,
        warnings: Vec<String>,
    ) -> Result<Self> {
        let now = Timestamp::now();
        let mut state = match State::read(&pod.state())? {
            Some(mut state) => {
                if lifecycle::recover(&mut state, now)
                    && spec.restart_policy == RestartPolicy::Never
                {
                    state.disrupt("the pod was lost: its supervisor was killed".to_owned());
                }
                state
            }
            None => lifecycle::initial(&spec),
        };
        state.started_at.get_or_insert(now);
        state.warnings = warnings;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.add(Signal::SIGTERM);
        mask.thread_block()
            .map_err(Error::system("block signals"))?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(Error::system("listen for signals"))?;
        let listener = control::listen(pod.path())?;
        listener
            .set_nonblocking(true)
            .map_err(Error::system("listen for callers"))?;
        let relay = spec.relay.clone().and_then(|directory| {
            let opened = Relay::open(directory, spec.uid.clone());
            if let Err(error) = &opened {
                let problem = format!("the pod cannot report its progress: {error}");
                state.warnings.push(problem);
            }
            opened.ok()
        });
        let storage = Storage::new(spec.storage.clone());
        // Not written down yet: until a container is started nothing has happened that anybody must know of.
        Ok(Self {
            pod,
            spec,
            state,
            live: BTreeMap::new(),
            group,
            bridges,
            callers: Callers::default(),
            groups: BTreeMap::new(),
            hooks: BTreeMap::new(),
            written: None,
            signals,
            listener,
            relay,
            storage,
        })
    }

    pub(super) fn run(mut self) -> Result<()> {
        while !self.state.phase.is_finished() {
            self.advance()?;
            self.save()?;
            if !self.state.phase.is_finished() {
                self.wait()?;
            }
        }
        for container in self
            .spec
            .init_containers
            .iter()
            .chain(&self.spec.containers)
        {
            let _ = live::clean(&self.pod, &container.name);
        }
        let _ = std::fs::remove_file(self.pod.control());
        Ok(())
    }

    /// Does all that can be done without waiting.
    fn advance(&mut self) -> Result<()> {
        loop {
            let now = Timestamp::now();
            if !self.state.stopping
                && lifecycle::deadline(&self.spec, &self.state).is_some_and(|due| due <= now)
            {
                self.state.reason = Some("DeadlineExceeded".to_owned());
                self.state.message = Some(
                    "Pod was active on the node longer than the specified deadline".to_owned(),
                );
                self.stop(self.spec.grace_seconds);
            }
            let steps = lifecycle::next(&self.spec, &self.state, now);
            if steps.is_empty() {
                return Ok(());
            }
            let mut moved = false;
            for step in steps {
                match step {
                    Step::Start(which) => {
                        self.start(which)?;
                        moved = true;
                    }
                    Step::BackOff(which, until) => {
                        lifecycle::back_off(self.container_mut(which), until);
                    }
                    Step::StopSidecars => self.stop_containers(self.spec.grace_seconds),
                    Step::Finish(phase) => {
                        self.state.phase = phase;
                        self.state.finished_at = Some(now);
                        return Ok(());
                    }
                }
            }
            self.update_phase();
            if !moved {
                return Ok(());
            }
        }
    }

    fn start(&mut self, which: Which) -> Result<()> {
        let container = self.spec_of(which).clone();
        let group = self.group_of(which, &container);
        let now = Timestamp::now();
        let (probed, gated) = (
            container.readiness_probe.is_some(),
            container.startup_probe.is_some(),
        );
        lifecycle::begin(self.container_mut(which), now, probed, gated);
        self.update_phase();
        self.save()?;
        let attempt = self.container_mut(which).attempt;
        match Live::start(&container, &self.pod, &self.spec.log_dir, attempt, group) {
            Ok(live) => {
                self.live.insert(which, live);
                if let Some(handler) = &container.post_start {
                    self.hook(which, Hook::PostStart, handler);
                }
            }
            Err(error) => {
                let reason = match &error {
                    live::Error::Process(error) if error.is_missing_program() => "StartError",
                    _ => "ContainerCannotRun",
                };
                let end = Terminated {
                    exit_code: 128,
                    signal: None,
                    reason: reason.to_owned(),
                    message: Some(astrago_net::chain(&error)),
                    started_at: Some(now),
                    finished_at: Timestamp::now(),
                };
                lifecycle::terminate(self.container_mut(which), end);
            }
        }
        Ok(())
    }

    /// The cgroups of a container, made when it is first needed.
    fn group_of(&mut self, which: Which, container: &ContainerSpec) -> Option<Group> {
        if let Some(group) = self.groups.get(&which) {
            return Some(group.clone());
        }
        let (group, warnings) = self
            .group
            .as_ref()?
            .container(&container.name, &container.limits);
        self.state.warnings.extend(warnings);
        self.groups.insert(which, group.clone());
        Some(group)
    }

    /// Asks the pod to end. A second call may only shorten the time that is left.
    pub(super) fn stop(&mut self, grace_seconds: u64) {
        self.state.stopping = true;
        self.stop_containers(grace_seconds);
    }

    /// Ends the pod because it takes what is not its own.
    fn evict(&mut self, message: String) {
        self.state.reason = Some("Evicted".to_owned());
        self.state.message = Some(message);
        self.stop(0);
    }

    fn stop_containers(&mut self, grace_seconds: u64) {
        let kill_at = Instant::now() + Duration::from_secs(grace_seconds);
        let mains = self
            .live
            .keys()
            .any(|which| matches!(which, Which::Main(_)));
        let chosen: Vec<_> = self.live.keys().copied().collect();
        for which in chosen {
            let Some(live) = self.live.get_mut(&which) else {
                continue;
            };
            live.kill_at = Some(live.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
            // Sidecars serve until the containers are done; the end of the last of them comes here.
            let later = mains && matches!(which, Which::Init(_));
            if !live.stopping && !later {
                self.terminate(which);
            }
        }
    }

    /// Asks a container to end, after the hook that wants to run before it.
    fn terminate(&mut self, which: Which) {
        if let Some(live) = self.live.get_mut(&which) {
            live.stopping = true;
        }
        let handler = self.spec_of(which).pre_stop.clone();
        let hooked = handler.is_some_and(|handler| self.hook(which, Hook::PreStop, &handler));
        if !hooked && let Some(live) = self.live.get(&which) {
            live.ask();
        }
    }

    /// Stops one container, which its restart policy may bring back.
    pub(super) fn restart(&mut self, which: Which, reason: &str, grace: Option<u64>) {
        let grace = Duration::from_secs(grace.unwrap_or(self.spec.grace_seconds));
        if let Some(live) = self.live.get_mut(&which)
            && !live.stopping
        {
            live.stop_reason = Some(reason.to_owned());
            live.kill_at = Some(Instant::now() + grace);
            self.terminate(which);
        }
    }

    /// Waits for the next thing to happen, and takes it in.
    fn wait(&mut self) -> Result<()> {
        for woken in self.poll()? {
            match woken {
                Woken::Signal => self.signalled()?,
                Woken::Caller => self.serve(),
                Woken::Output(which, index) => {
                    if let Some(live) = self.live.get_mut(&which) {
                        live.output.take(index);
                    }
                }
                Woken::Report => {
                    if let Some(relay) = &mut self.relay {
                        relay.hand_over();
                    }
                }
                Woken::HungUp(pid) => self.callers.hang_up(pid),
            }
        }
        if let Some(relay) = &mut self.relay {
            relay.tick(Instant::now());
        }
        self.clocks();
        Ok(())
    }

    /// Who has something to say: output first, for a signal may be the end of who wrote it.
    fn poll(&self) -> Result<Vec<Woken>> {
        let mut sources = Vec::new();
        for (which, live) in &self.live {
            for (index, stream) in live.output.streams.iter().enumerate() {
                let stream = stream.as_ref();
                sources.extend(stream.map(|it| (Woken::Output(*which, index), it.as_fd())));
            }
        }
        let callers = self.callers.sources();
        sources.extend(callers.map(|(pid, fd)| (Woken::HungUp(pid), fd)));
        sources.push((Woken::Signal, self.signals.as_fd()));
        sources.push((Woken::Caller, self.listener.as_fd()));
        let relay = self.relay.as_ref().and_then(Relay::source);
        sources.extend(relay.map(|fd| (Woken::Report, fd)));
        let mut polled: Vec<_> = sources
            .iter()
            .map(|(_, fd)| PollFd::new(*fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut polled, self.timeout()) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(Error::system("wait")(errno)),
        }
        let all = sources.iter().zip(&polled);
        let woken = all.filter(|(_, source)| source.any().unwrap_or(false));
        Ok(woken.map(|((who, _), _)| *who).collect())
    }

    fn timeout(&self) -> PollTimeout {
        let now = Instant::now();
        let clock = lifecycle::wake(&self.spec, &self.state).map(|at| {
            let left = at.duration_since(Timestamp::now());
            now + Duration::try_from(left).unwrap_or(Duration::ZERO)
        });
        let containers = self.live.iter().flat_map(|(which, live)| {
            let started = self.container(*which).started;
            let probes = live.probes.wake(started).filter(|_| !live.stopping);
            [live.kill_at, probes, live.memory_due()]
        });
        let relay = self.relay.as_ref().and_then(Relay::wake);
        let storage = self.storage.wake().filter(|_| !self.state.stopping);
        let others = clock.into_iter().chain(relay).chain(storage);
        let next = containers.flatten().chain(others).min();
        next.map_or(PollTimeout::NONE, |at| {
            // Rounded up, or the loop would spin through the last millisecond.
            let left = at.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(left.min(Duration::from_hours(1))).unwrap_or(PollTimeout::MAX)
        })
    }

    fn signalled(&mut self) -> Result<()> {
        while let Some(signal) = self
            .signals
            .read_signal()
            .map_err(Error::system("read signals"))?
        {
            if i32::try_from(signal.ssi_signo) == Ok(Signal::SIGTERM as i32) {
                self.stop(self.spec.grace_seconds);
            }
        }
        while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            match live::ending(status) {
                Some((pid, code, signal)) => self.ended(pid, code, signal),
                None => break,
            }
        }
        Ok(())
    }

    fn ended(&mut self, pid: Pid, code: i32, signal: Option<i32>) {
        if let Some((which, hook)) = self.hooks.remove(&pid) {
            match hook {
                Hook::PreStop => {
                    if let Some(live) = self.live.get(&which) {
                        live.ask();
                    }
                }
                Hook::PostStart if code != 0 => {
                    self.restart(which, "failed postStart hook", None);
                }
                Hook::PostStart => {}
            }
            return;
        }
        if self.callers.exited(pid, code) {
            return;
        }
        if let Some(exceeded) = self.storage.ended(pid) {
            if let Some(message) = exceeded.filter(|_| !self.state.stopping) {
                self.evict(message);
            }
            return;
        }
        let probe = self
            .live
            .iter_mut()
            .find_map(|(which, live)| Some((*which, live.probes.ended(pid, code == 0)?)));
        if let Some((which, verdict)) = probe {
            return self.judge(which, verdict);
        }
        if let Some(live) = self
            .live
            .values_mut()
            .find(|live| live.processes.program == pid)
        {
            return live.program_ended(code, signal);
        }
        let which = self
            .live
            .iter()
            .find(|(_, live)| live.processes.init == pid)
            .map(|(which, _)| *which);
        let Some((which, mut live)) =
            which.and_then(|which| Some((which, self.live.remove(&which)?)))
        else {
            return;
        };
        let (code, signal) = live.end(code, signal);
        live.output.drain();
        let out_of_memory = code != 0 && live.out_of_memory();
        let reason = match (out_of_memory, code) {
            (true, _) => "OOMKilled",
            (false, 0) => "Completed",
            (false, _) => "Error",
        };
        let message = live
            .message(self.spec_of(which), code != 0)
            .or(live.stop_reason.take());
        let started_at = match self.container(which).status {
            Status::Running { started_at } => Some(started_at),
            Status::Waiting { .. } | Status::Terminated(_) => None,
        };
        let end = Terminated {
            exit_code: code,
            signal,
            reason: reason.to_owned(),
            message,
            started_at,
            finished_at: Timestamp::now(),
        };
        lifecycle::terminate(self.container_mut(which), end);
        if self.state.stopping
            && !self
                .live
                .keys()
                .any(|which| matches!(which, Which::Main(_)))
        {
            // Now it is the sidecars' turn; their time is what was left.
            self.stop_containers(self.spec.grace_seconds);
        }
    }

    fn serve(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.answer(stream);
        }
    }

    fn update_phase(&mut self) {
        let started = self.state.containers.iter().any(|container| {
            container.is_running() || container.terminated().is_some() || container.last.is_some()
        });
        if started && self.state.phase == Phase::Pending {
            self.state.phase = Phase::Running;
        }
    }

    /// Writes the state and tells it to those who watch, if it changed.
    fn save(&mut self) -> Result<()> {
        if self.written.as_ref() != Some(&self.state) {
            self.state.write(&self.pod.state())?;
            self.callers.tell(&self.state);
            self.written = Some(self.state.clone());
        }
        Ok(())
    }

    pub(super) fn spec_of(&self, which: Which) -> &ContainerSpec {
        match which {
            Which::Init(index) => &self.spec.init_containers[index],
            Which::Main(index) => &self.spec.containers[index],
        }
    }

    fn container(&self, which: Which) -> &ContainerState {
        match which {
            Which::Init(index) => &self.state.init_containers[index],
            Which::Main(index) => &self.state.containers[index],
        }
    }

    pub(super) fn container_mut(&mut self, which: Which) -> &mut ContainerState {
        match which {
            Which::Init(index) => &mut self.state.init_containers[index],
            Which::Main(index) => &mut self.state.containers[index],
        }
    }
}
