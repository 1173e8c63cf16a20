//! A container that runs: its process, its output, its probes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Gid, Pid, Uid, fchown, pipe2};

use super::probe::Probes;
use super::processes;
use crate::control::Usage;
use crate::layout::PodDir;
use crate::logs::{self, Stream};
use crate::sandbox::cgroup::Group;
use crate::sandbox::identity::Identity;
use crate::sandbox::process::{self, Processes, Streams};
use crate::spec::{ContainerSpec, Mount};
use crate::tree;

/// How much of the end of the output can become a termination message.
const TAIL_BYTES: usize = 2048;
/// How much of a termination message file is read.
const MESSAGE_BYTES: u64 = 4096;

/// How often memory is looked at where no cgroup limits it.
const MEMORY_PERIOD: Duration = Duration::from_millis(250);

pub(super) struct Live {
    pub(super) processes: Processes,
    /// How the program ended, while others of the container are left.
    end: Option<(i32, Option<i32>)>,
    pub(super) group: Option<Group>,
    pub(super) probes: Probes,
    /// When it is killed if it has not ended.
    pub(super) kill_at: Option<Instant>,
    /// It has been asked to end.
    pub(super) stopping: bool,
    /// Why it is being stopped, when that is not the pod's end.
    pub(super) stop_reason: Option<String>,
    pub(super) output: Output,
    /// A limit that has to be watched because no cgroup does, and when to look next.
    memory: Option<(u64, Instant)>,
    stop_signal: Signal,
    exhausted: bool,
    message: Option<PathBuf>,
    kills_before: u64,
}

/// What a container writes.
pub(super) struct Output {
    writer: logs::Writer,
    pub(super) streams: [Option<File>; 2],
    tail: VecDeque<u8>,
    buffer: Vec<u8>,
}

impl Live {
    pub(super) fn start(
        container: &ContainerSpec,
        pod: &PodDir,
        log_dir: &Path,
        attempt: u32,
        group: Option<Group>,
    ) -> Result<Self> {
        clean(pod, &container.name).map_err(Error::Clean)?;
        let mut prepared = container.clone();
        let message = termination_file(container, pod).map_err(Error::Clean)?;
        if let (Some(source), Some(target)) = (&message, &container.termination_message_path) {
            prepared.mounts.push(Mount::Bind {
                source: source.clone(),
                host: None,
                sub_path: None,
                target: target.clone(),
                read_only: false,
            });
        }
        let writer = logs::Writer::open(log_dir, &container.name, attempt, logs::Limits::default())
            .map_err(Error::Log)?;
        let identity = Identity::choose(container);
        let (stdout, stdout_writer) = pipe(container, identity).map_err(Error::Pipe)?;
        let (stderr, stderr_writer) = pipe(container, identity).map_err(Error::Pipe)?;
        let input = File::open("/dev/null").map_err(Error::Pipe)?;
        let kills_before = group.as_ref().map_or(0, Group::out_of_memory_kills);
        let streams = Streams::Separate {
            input: input.into(),
            output: stdout_writer,
            error: stderr_writer,
        };
        let processes = process::start(&prepared, pod, group.as_ref(), streams)?;
        let output = Output {
            writer,
            streams: [Some(stdout.into()), Some(stderr.into())],
            tail: VecDeque::new(),
            buffer: Vec::new(),
        };
        let watched = !group.as_ref().is_some_and(Group::limits_memory);
        let memory = container
            .limits
            .memory
            .filter(|_| watched)
            .map(|limit| (limit, Instant::now()));
        Ok(Self {
            memory,
            exhausted: false,
            processes,
            end: None,
            group,
            probes: Probes::new(container),
            stop_signal: container
                .stop_signal
                .as_ref()
                .and_then(|name| name.parse().ok())
                .unwrap_or(Signal::SIGTERM),
            kill_at: None,
            stopping: false,
            stop_reason: None,
            output,
            message,
            kills_before,
        })
    }

    /// Asks its program to end, in the way that it wants to be asked.
    pub(super) fn ask(&self) {
        self.signal(self.stop_signal);
    }

    /// Sends a signal to its program; SIGKILL is for all of it.
    pub(super) fn signal(&self, signal: Signal) {
        let target = if signal == Signal::SIGKILL || self.end.is_some() {
            self.processes.init
        } else {
            self.processes.program
        };
        // It may have ended a moment ago, which is what was wanted.
        let _ = kill(target, signal);
    }

    /// Its program ended. What is left ends with it; if it is being stopped, with the time that it has.
    pub(super) fn program_ended(&mut self, code: i32, signal: Option<i32>) {
        self.end = Some((code, signal));
        self.signal(if self.stopping {
            Signal::SIGTERM
        } else {
            Signal::SIGKILL
        });
    }

    /// How it ended: as its program did, unless process 1 went first.
    pub(super) fn end(&self, code: i32, signal: Option<i32>) -> (i32, Option<i32>) {
        self.end.unwrap_or((code, signal))
    }

    /// When to look at its memory.
    pub(super) fn memory_due(&self) -> Option<Instant> {
        self.memory.map(|(_, due)| due)
    }

    /// Ends it if it has more memory than it may.
    pub(super) fn watch_memory(&mut self, now: Instant) {
        let Some((limit, due)) = &mut self.memory else {
            return;
        };
        if *due > now {
            return;
        }
        *due = now + MEMORY_PERIOD;
        if processes::exceeds(self.processes.program, *limit) {
            self.exhausted = true;
            self.signal(Signal::SIGKILL);
        }
    }

    /// What it uses.
    pub(super) fn usage(&self) -> Usage {
        match &self.group {
            Some(group) if group.limits_memory() => group.usage(),
            _ => processes::usage(self.processes.program),
        }
    }

    /// Whether a process of it was killed for want of memory.
    pub(super) fn out_of_memory(&self) -> bool {
        self.exhausted
            || self
                .group
                .as_ref()
                .is_some_and(|group| group.out_of_memory_kills() > self.kills_before)
    }

    /// The termination message, from its file or from the end of the output.
    pub(super) fn message(&self, container: &ContainerSpec, failed: bool) -> Option<String> {
        let mut text = Vec::new();
        if let Some(path) = &self.message
            && let Ok(file) = File::open(path)
        {
            let _ = file.take(MESSAGE_BYTES).read_to_end(&mut text);
        }
        if text.is_empty() && failed && container.termination_message_from_logs {
            text.extend(&self.output.tail);
        }
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

impl Output {
    /// Takes what a stream has to give, up to a bound, so that no container starves the others.
    pub(super) fn take(&mut self, index: usize) {
        const ROUNDS: usize = 16;
        for _ in 0..ROUNDS {
            if !self.take_once(index) {
                return;
            }
        }
    }

    /// Takes everything; for a container that has ended.
    pub(super) fn drain(&mut self) {
        for index in 0..self.streams.len() {
            while self.take_once(index) {}
        }
        let _ = self.writer.flush();
    }

    /// Whether more may come at once.
    fn take_once(&mut self, index: usize) -> bool {
        let Some(file) = &mut self.streams[index] else {
            return false;
        };
        self.buffer.resize(64 << 10, 0);
        match file.read(&mut self.buffer) {
            Ok(0) => {
                self.streams[index] = None;
                false
            }
            Ok(count) => {
                let stream = if index == 0 {
                    Stream::Stdout
                } else {
                    Stream::Stderr
                };
                let bytes = &self.buffer[..count];
                // A full disk loses output; the container goes on.
                let _ = self.writer.write_stream(stream, bytes);
                let end = &bytes[count.saturating_sub(TAIL_BYTES)..];
                self.tail.extend(end);
                let excess = self.tail.len().saturating_sub(TAIL_BYTES);
                self.tail.drain(..excess);
                count == self.buffer.len()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                self.streams[index] = None;
                false
            }
        }
    }
}

/// The exit code and signal that a status stands for, if it is an end.
pub(super) fn ending(status: WaitStatus) -> Option<(Pid, i32, Option<i32>)> {
    match status {
        WaitStatus::Exited(pid, code) => Some((pid, code, None)),
        WaitStatus::Signaled(pid, signal, _) => {
            Some((pid, 128 + signal as i32, Some(signal as i32)))
        }
        _ => None,
    }
}

/// Takes away the layers of the attempt before.
pub(super) fn clean(pod: &PodDir, container: &str) -> io::Result<()> {
    tree::remove(&pod.container(container))
}

fn termination_file(container: &ContainerSpec, pod: &PodDir) -> io::Result<Option<PathBuf>> {
    use std::os::unix::fs::PermissionsExt;
    if container.termination_message_path.is_none() {
        return Ok(None);
    }
    let directory = pod.container(&container.name);
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("termination-log");
    File::create(&path)?.set_permissions(std::fs::Permissions::from_mode(0o666))?;
    Ok(Some(path))
}

/// A pipe whose writing end belongs to the container's user, who may open it again by name.
fn pipe(container: &ContainerSpec, identity: Identity) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let user = Uid::from_raw(identity.outside(container.user));
    let group = Gid::from_raw(identity.outside(container.group));
    fchown(&writer, Some(user), Some(group))?;
    Ok((reader, writer))
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("failed to prepare the container's folder")]
    Clean(#[source] io::Error),
    #[error("failed to open the container's log")]
    Log(#[source] io::Error),
    #[error("failed to create the container's pipes")]
    Pipe(#[source] io::Error),
    #[error(transparent)]
    Process(#[from] process::Error),
}

type Result<T, E = Error> = std::result::Result<T, E>;
