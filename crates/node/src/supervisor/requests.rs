//! Answering those who come to the control socket.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, alarm, setsid};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::lifecycle::Which;
use super::live::Live;
use super::run::Supervisor;
use crate::control::{Channel, ContainerStats, Exec, Failure, Request, Response, Stats, Usage};
use crate::sandbox::cgroup::PodGroup;
use crate::sandbox::process::{self, Streams};
use crate::sandbox::terminal;
use crate::spec::ContainerSpec;
use crate::state::State;
use crate::{stacks, sys};

/// How long a caller may take to say what it wants; it is a program on this machine.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long reading stacks may take, in seconds. It ends earlier by itself; this is for memory that the kernel asks
/// somebody for who does not answer.
const READING: u32 = 6;

type Refusal = (Failure, String);

/// Those who stay connected.
#[derive(Default)]
pub(super) struct Callers {
    watchers: Vec<Channel>,
    commands: BTreeMap<Pid, Channel>,
}

impl Callers {
    /// What to watch for a caller that leaves while its command runs.
    pub(super) fn sources(&self) -> impl Iterator<Item = (Pid, BorrowedFd<'_>)> {
        self.commands
            .iter()
            .map(|(pid, channel)| (*pid, channel.as_fd()))
    }

    /// Kills the command of a caller that left: nobody reads what it writes.
    pub(super) fn hang_up(&mut self, pid: Pid) {
        self.commands.remove(&pid);
        let _ = killpg(pid, Signal::SIGKILL);
    }

    /// Tells a caller that its command ended; whether the process was such a command.
    pub(super) fn exited(&mut self, pid: Pid, code: i32) -> bool {
        let Some(channel) = self.commands.remove(&pid) else {
            return false;
        };
        let _ = channel.send(&Response::Exited { code }, &[]);
        true
    }

    /// Tells the state to those who watch it.
    pub(super) fn tell(&mut self, state: &State) {
        if !self.watchers.is_empty() {
            let news = Response::State(Box::new(state.clone()));
            self.watchers
                .retain(|watcher| watcher.send(&news, &[]).is_ok());
        }
    }
}

impl Supervisor {
    pub(super) fn answer(&mut self, stream: UnixStream) {
        let prepared = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        let mut channel = Channel::new(stream);
        let (Ok(()), Ok(Some((request, descriptors)))) = (prepared, channel.receive::<Request>())
        else {
            return;
        };
        let response = match request {
            Request::Stop {
                grace_seconds,
                disruption,
            } => {
                if let Some(why) = disruption.filter(|_| !self.state.stopping) {
                    self.state.disrupt(why);
                }
                self.stop(grace_seconds.unwrap_or(self.spec.grace_seconds));
                Response::Done
            }
            Request::Deadline { seconds } => {
                let before = self.spec.active_deadline_seconds.unwrap_or(seconds);
                self.spec.active_deadline_seconds = Some(before.min(seconds));
                Response::Done
            }
            Request::Stats => Response::Stats(self.stats()),
            Request::Watch => {
                if channel
                    .send(&Response::State(Box::new(self.state.clone())), &[])
                    .is_ok()
                {
                    self.callers.watchers.push(channel);
                }
                return;
            }
            Request::Bridges => {
                let _ = channel.send(&Response::Done, &[self.bridges.as_fd()]);
                return;
            }
            // The supervisor is in the pod's network, and a socket stays where it was made.
            Request::Socket => match rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            ) {
                Ok(socket) => {
                    let _ = channel.send(&Response::Done, &[socket.as_fd()]);
                    return;
                }
                Err(error) => failed(internal(error)),
            },
            Request::Terminal { container } => match self.terminal(&container) {
                Ok((near, far)) => {
                    let _ = channel.send(&Response::Done, &[near.as_fd(), far.as_fd()]);
                    return;
                }
                Err(refusal) => failed(refusal),
            },
            Request::Stacks { container } => {
                let running = self.running(&container);
                let first = running.map(|(_, live)| live.processes.program);
                match first.and_then(|first| read_stacks(first, &channel)) {
                    Ok(pid) => {
                        self.callers.commands.insert(pid, channel);
                        return;
                    }
                    Err(refusal) => failed(refusal),
                }
            }
            Request::Exec(exec) => match self.exec(&exec, descriptors) {
                Ok(pid) => {
                    if channel.send(&Response::Started, &[]).is_ok() {
                        self.callers.commands.insert(pid, channel);
                    } else {
                        let _ = killpg(pid, Signal::SIGKILL);
                    }
                    return;
                }
                Err(refusal) => failed(refusal),
            },
        };
        let _ = channel.send(&response, &[]);
    }

    fn exec(&self, exec: &Exec, descriptors: Vec<OwnedFd>) -> Result<Pid, Refusal> {
        if exec.argv.is_empty() || descriptors.len() != exec.descriptors() {
            return Err((
                Failure::Invalid,
                "a command and its descriptors are needed".to_owned(),
            ));
        }
        let (container, live) = self.running(&exec.container)?;
        let mut descriptors = descriptors.into_iter();
        let mut stream = |sent: bool| match sent.then(|| descriptors.next()).flatten() {
            Some(descriptor) => Ok(descriptor),
            None => std::fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .map(OwnedFd::from),
        };
        let streams = if exec.tty {
            Streams::Terminal(stream(true).map_err(internal)?)
        } else {
            Streams::Separate {
                input: stream(exec.stdin).map_err(internal)?,
                output: stream(exec.stdout).map_err(internal)?,
                error: stream(exec.stderr).map_err(internal)?,
            }
        };
        let mut env = container.env.clone();
        for (name, value) in &exec.env {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        process::join(
            container,
            live.processes.program,
            live.group.as_ref(),
            &exec.argv,
            &env,
            streams,
        )
        .map_err(|error| {
            let reason = if error.is_missing_program() {
                Failure::NotExecutable
            } else {
                Failure::Internal
            };
            (reason, astrago_net::chain(&error))
        })
    }

    fn terminal(&self, container: &str) -> Result<(OwnedFd, OwnedFd), Refusal> {
        let (container, live) = self.running(container)?;
        terminal::open_in(container, live.processes.program).map_err(internal)
    }

    fn stats(&self) -> Stats {
        let containers = self.live.iter().map(|(which, live)| ContainerStats {
            name: self.spec_of(*which).name.clone(),
            usage: live.usage(),
        });
        let pod = self
            .group
            .as_ref()
            .map_or_else(Usage::default, PodGroup::usage);
        Stats {
            pod,
            containers: containers.collect(),
        }
    }

    fn running(&self, name: &str) -> Result<(&ContainerSpec, &Live), Refusal> {
        let which = self.find(name).ok_or_else(|| {
            let message = format!("container {name} is not found in pod {}", self.spec.name);
            (Failure::NoSuchContainer, message)
        })?;
        let live = self.live.get(&which).ok_or_else(|| {
            let message = format!("container {name} is not running");
            (Failure::NotRunning, message)
        })?;
        Ok((self.spec_of(which), live))
    }

    fn find(&self, name: &str) -> Option<Which> {
        let at = |containers: &[ContainerSpec]| {
            containers
                .iter()
                .position(|container| container.name == name)
        };
        at(&self.spec.containers)
            .map(Which::Main)
            .or_else(|| at(&self.spec.init_containers).map(Which::Init))
    }
}

/// Reads stacks in a process of its own, which answers and ends: what it reads is hostile, and may be slow.
fn read_stacks(first: Pid, channel: &Channel) -> Result<Pid, Refusal> {
    let child = sys::fork_into(CloneFlags::empty()).map_err(internal)?;
    child.map_or_else(
        || {
            // A group of its own, which is killed if the caller leaves.
            let _ = setsid();
            alarm::set(READING);
            // Behind everything that trains.
            let _ = rustix::process::nice(10);
            let _ = channel.send(&Response::Stacks(stacks::of(first)), &[]);
            sys::end(0)
        },
        Ok,
    )
}

fn internal(error: impl std::fmt::Display) -> Refusal {
    (Failure::Internal, error.to_string())
}

fn failed((reason, message): Refusal) -> Response {
    Response::Failed { reason, message }
}
