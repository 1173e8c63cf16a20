//! Starting supervisors, and what they share: a launcher, and the namespaces of the node's networks.

pub(crate) mod orders;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use rustix::process::{Resource, Rlimit};

use self::orders::Order;
use crate::control::{Channel, Request, Response};
use crate::layout::PodDir;
use crate::sandbox::cgroup;
use crate::tree;

/// How long a supervisor may take to answer; one that is stopped never does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps the descriptors that this process was started with from the programs that it starts.
pub fn keep_descriptors() {
    // Kernels that cannot do it are too old for pods anyway.
    let _ = crate::sys::close_range(3, u32::MAX, true);
}

/// The network namespace that holds a node's bridges, and through it the user namespace that pods are
/// set up in. It lives as long as somebody has it open.
#[derive(Debug)]
pub struct Bridges(OwnedFd);

impl Bridges {
    /// Takes over the namespace of pods that are still running, or makes a new one.
    pub fn obtain<'a>(program: &Path, pods: impl IntoIterator<Item = &'a PodDir>) -> Result<Self> {
        let adopted = pods
            .into_iter()
            .find_map(|pod| Self::of(pod).ok().flatten());
        adopted.map_or_else(|| Self::create(program), Ok)
    }

    /// What tells this namespace from others.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(File::from(self.0.try_clone()?).metadata()?.ino())
    }

    fn of(pod: &PodDir) -> Result<Option<Self>> {
        let mut channel = Channel::connect(pod.path())?;
        let _ = channel.set_timeout(PATIENCE);
        channel.send(&Request::Bridges, &[])?;
        let answer = channel.receive::<Response>()?;
        Ok(answer
            .and_then(|(_, descriptors)| descriptors.into_iter().next())
            .map(Self))
    }

    fn create(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["supervise", "--bridges"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::Spawn)?;
        let mut word = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut word)
                .map_err(Error::Spawn)?;
        }
        let namespace = File::open(format!("/proc/{}/ns/net", child.id()));
        // The end of its input lets it go.
        drop(child.stdin.take());
        let output = child.wait_with_output().map_err(Error::Spawn)?;
        if word.trim() != "ready" {
            return Err(Error::Refused(words(&output.stderr)));
        }
        Ok(Self(namespace.map_err(Error::Spawn)?.into()))
    }
}

/// Starts the supervisors of a node's pods.
///
/// The process that they are copies of is started with the first of them, and anew when it was killed.
pub struct Launcher {
    program: PathBuf,
    bridges: Bridges,
    /// How many files pods may have open; the agent takes as many as it can get.
    files: Rlimit,
    running: Mutex<Option<Running>>,
}

struct Running {
    process: Child,
    /// The launcher ends when this is closed.
    socket: Option<OwnedFd>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.socket = None;
        let _ = self.process.wait();
    }
}

/// Room for the words by which supervisors are listed, which name the folders of their pods.
const ROOM: usize = 1024;

impl Launcher {
    pub fn new(program: &Path, bridges: Bridges) -> Self {
        Self {
            program: program.to_owned(),
            bridges,
            files: open_many(),
            running: Mutex::default(),
        }
    }

    /// Starts the supervisor of a pod whose `pod.json` is written. Returns when it serves; one that is
    /// already there is as good.
    pub fn start(&self, pod: &PodDir) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(pod.supervisor_log())
            .map_err(Error::Spawn)?;
        let (mut answer, say) = io::pipe().map_err(Error::Spawn)?;
        let order = Order {
            bridges: self.bridges.0.try_clone().map_err(Error::Spawn)?,
            log: log.into(),
            say: say.into(),
        };
        self.send(pod, &order).map_err(Error::Spawn)?;
        drop(order);
        // To its end, which comes when nothing of the launch is left but the supervisor.
        let mut said = String::new();
        answer.read_to_string(&mut said).map_err(Error::Spawn)?;
        if said.trim_end() == "ready" {
            return Ok(());
        }
        Err(Error::Refused(words(said.as_bytes())))
    }

    /// The process that supervisors are copies of, if there is one.
    pub fn process(&self) -> Option<u32> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.process.id())
    }

    fn send(&self, pod: &PodDir, order: &Order) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let send = |running: &Option<Running>| {
            let socket = running.as_ref().and_then(|it| it.socket.as_ref());
            let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
            orders::send(socket, pod.path(), order)
        };
        send(&running).or_else(|_| {
            *running = None;
            *running = Some(self.run()?);
            send(&running)
        })
    }

    fn run(&self) -> io::Result<Running> {
        let (near, far) = orders::pair()?;
        let process = Command::new(&self.program)
            .args(["supervise", "--launcher"])
            .arg("-".repeat(ROOM))
            .env_clear()
            .stdin(Stdio::from(far))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let running = Running {
            socket: Some(near),
            process,
        };
        let pid = rustix::process::Pid::from_child(&running.process);
        rustix::process::prlimit(Some(pid), Resource::Nofile, self.files)?;
        Ok(running)
    }
}

/// Lets this process, which listens to the supervisor of each pod, have as many files open as it may.
/// Returns what the limit was.
fn open_many() -> Rlimit {
    // What was there before the first of them is what pods get.
    static BEFORE: OnceLock<Rlimit> = OnceLock::new();
    let before = BEFORE.get_or_init(|| {
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let more = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Where it may not, it has room for fewer pods.
        let _ = rustix::process::setrlimit(Resource::Nofile, more);
        limit
    });
    *before
}

/// Starts the keeper of the way out. Returns when pods can use it.
pub(crate) fn keep_egress(program: &Path, bridges: &Bridges, folder: &Path) -> Result<()> {
    let log = folder.join("keeper.log");
    let output = File::create(&log).map_err(Error::Spawn)?;
    let input = bridges.0.try_clone().map_err(Error::Spawn)?;
    let status = Command::new(program)
        .args(["supervise", "--egress"])
        .arg(folder)
        .env_clear()
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .stderr(output)
        .status()
        .map_err(Error::Spawn)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Refused(words(
        &std::fs::read(log).unwrap_or_default(),
    )))
}

/// Whether a supervisor has the pod. The lock is the truth: the kernel releases it with the last
/// process of the supervisor.
pub fn is_supervised(pod: &PodDir) -> bool {
    match File::options().write(true).open(pod.lock()) {
        Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err(),
        Err(_) => false,
    }
}

/// Asks a supervisor to end its pod, as its owner wants.
pub fn stop(pod: &PodDir, grace_seconds: Option<u64>) -> Result<()> {
    ask_to_stop(pod, grace_seconds, None)
}

/// Asks a supervisor to end its pod because the node goes, for which the pod is not to blame.
pub fn shut_down(pod: &PodDir) -> Result<()> {
    let why = "the node stopped its pods when it ended".to_owned();
    ask_to_stop(pod, None, Some(why))
}

/// Tells a supervisor that its pod has so many seconds from its start, if it had more.
pub fn set_deadline(pod: &PodDir, seconds: u64) -> Result<()> {
    ask(pod, &Request::Deadline { seconds })
}

fn ask_to_stop(pod: &PodDir, grace_seconds: Option<u64>, disruption: Option<String>) -> Result<()> {
    let request = Request::Stop {
        grace_seconds,
        disruption,
    };
    ask(pod, &request)
}

fn ask(pod: &PodDir, request: &Request) -> Result<()> {
    let mut channel = Channel::connect(pod.path())?;
    let _ = channel.set_timeout(PATIENCE);
    channel.send(request, &[])?;
    match channel.receive::<Response>()? {
        Some((Response::Failed { message, .. }, _)) => Err(Error::Refused(message)),
        _ => Ok(()),
    }
}

/// Ends a supervisor that does not answer, and with it all that its pod has.
pub fn kill(pod: &PodDir) -> Result<()> {
    if !is_supervised(pod) {
        return Ok(());
    }
    let pid = std::fs::read_to_string(pod.lock()).unwrap_or_default();
    if let Ok(pid) = pid.trim().parse() {
        let pid = nix::unistd::Pid::from_raw(pid);
        return nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)
            .map_err(|errno| Error::Remove(errno.into()));
    }
    // Supervisors of earlier versions did not say who they are.
    let uid = pod.path().file_name().unwrap_or_default();
    remove_cgroups(&uid.to_string_lossy())
}

/// Takes away what a pod leaves behind once its supervisor is gone: cgroups and folder. Logs stay.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel tells nobody when a file is free"
)]
pub fn remove(pod: &PodDir, uid: &str) -> Result<()> {
    cgroup::remove(uid).map_err(Error::Remove)?;
    // A process that still dies may hold a file for a moment.
    for _ in 0..5 {
        if tree::remove(pod.path()).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    tree::remove_or_set_aside(pod.path(), &pod.quarantine()).map_err(Error::Remove)
}

/// Takes away the cgroups of a pod whose supervisor is gone.
pub fn remove_cgroups(uid: &str) -> Result<()> {
    cgroup::remove(uid).map_err(Error::Remove)
}

/// Takes away the folders above all pods' cgroups, if no pod is left.
pub fn remove_empty_cgroups() {
    cgroup::remove_base();
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let last = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing");
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// What goes wrong between the agent and its supervisors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("failed to start a supervisor")]
    Spawn(#[source] io::Error),
    #[error("failed to talk to a supervisor")]
    Control(#[from] crate::control::Error),
    #[error("failed to remove what a pod left behind")]
    Remove(#[source] io::Error),
    /// The supervisor's own words.
    #[error("{0}")]
    Refused(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
