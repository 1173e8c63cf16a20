//! Probes, hooks and clocks of a pod's containers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::lifecycle::Which;
use super::probe::{self, Purpose, Verdict};
use super::run::{Hook, Supervisor};
use crate::sandbox::process::{self, Streams};
use crate::spec::Handler;

impl Supervisor {
    /// Begins a hook; whether it runs.
    pub(super) fn hook(&mut self, which: Which, hook: Hook, handler: &Handler) -> bool {
        match self.check(
            which,
            handler,
            Duration::from_secs(self.spec.grace_seconds.max(1)),
        ) {
            Some(pid) => {
                self.hooks.insert(pid, (which, hook));
                true
            }
            None => false,
        }
    }

    /// Begins a check in a container or in its network.
    fn check(&self, which: Which, handler: &Handler, timeout: Duration) -> Option<Pid> {
        let live = self.live.get(&which)?;
        match handler {
            Handler::Exec { argv } => {
                let null = || {
                    std::fs::File::options()
                        .read(true)
                        .write(true)
                        .open("/dev/null")
                        .map(OwnedFd::from)
                };
                let streams = Streams::Separate {
                    input: null().ok()?,
                    output: null().ok()?,
                    error: null().ok()?,
                };
                let container = self.spec_of(which);
                process::join(
                    container,
                    live.processes.program,
                    live.group.as_ref(),
                    argv,
                    &container.env,
                    streams,
                )
                .ok()
            }
            Handler::Tcp { .. }
            | Handler::Http { .. }
            | Handler::Grpc { .. }
            | Handler::Sleep { .. } => probe::spawn(handler, timeout).ok(),
        }
    }

    /// Begins the probes that are due and ends what has had its time.
    pub(super) fn clocks(&mut self) {
        let now = Instant::now();
        if !self.state.stopping {
            self.storage.tick(now);
        }
        let all: Vec<_> = self.live.keys().copied().collect();
        for which in all {
            let started = self.container_mut(which).started;
            let Some(live) = self.live.get_mut(&which) else {
                continue;
            };
            if live.kill_at.is_some_and(|at| at <= now) {
                live.signal(Signal::SIGKILL);
                // The kernel needs a moment; do not spin meanwhile.
                live.kill_at = Some(now + Duration::from_millis(100));
            }
            live.watch_memory(now);
            live.probes.kill_late(now);
            if live.stopping {
                continue;
            }
            for (purpose, handler, timeout) in live.probes.due(started, now) {
                let pid = self.check(which, &handler, Duration::from_secs(timeout.max(1)));
                let Some(live) = self.live.get_mut(&which) else {
                    break;
                };
                let verdict = live.probes.begun(purpose, pid, now);
                self.judge(which, verdict);
            }
        }
    }

    pub(super) fn judge(&mut self, which: Which, verdict: Verdict) {
        self.tell(which, verdict);
        match verdict {
            Verdict::Undecided | Verdict::Missed(_) | Verdict::Good(Purpose::Liveness) => {}
            Verdict::Good(Purpose::Startup) => {
                let probed = self.spec_of(which).readiness_probe.is_some();
                let container = self.container_mut(which);
                container.started = true;
                container.ready = !probed;
            }
            Verdict::Good(Purpose::Readiness) => self.container_mut(which).ready = true,
            Verdict::Bad(Purpose::Readiness) => self.container_mut(which).ready = false,
            Verdict::Bad(purpose @ Purpose::Startup) => {
                let grace = self.grace(which, purpose);
                self.restart(which, "failed startup probe", grace);
            }
            Verdict::Bad(purpose @ Purpose::Liveness) => {
                let grace = self.grace(which, purpose);
                self.restart(which, "failed liveness probe", grace);
            }
        }
    }

    /// How long a container has to end that a probe fails, if the probe says so.
    fn grace(&self, which: Which, purpose: Purpose) -> Option<u64> {
        self.live.get(&which)?.probes.get(purpose)?.grace_seconds
    }

    /// Notes what a probe found, for whoever asks why a container is not ready or does not stay.
    fn tell(&mut self, which: Which, verdict: Verdict) {
        match verdict {
            Verdict::Undecided => {}
            Verdict::Good(purpose) => {
                let told = &mut self.container_mut(which).unhealthy;
                told.take_if(|told| told.starts_with(purpose.failure()));
            }
            Verdict::Missed(purpose) | Verdict::Bad(purpose) => {
                let probes = self.live.get(&which).map(|live| &live.probes);
                let probe = probes.and_then(|probes| probes.get(purpose));
                let what = probe.map(|probe| probe::described(&probe.handler));
                let told = format!("{}: {}", purpose.failure(), what.unwrap_or_default());
                self.container_mut(which).unhealthy = Some(told);
            }
        }
    }
}
