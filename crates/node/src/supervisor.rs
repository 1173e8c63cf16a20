//! The supervisor of one pod: a small process that owns the pod's sandbox and outlives the agent.
//!
//! ```text
//! agent ── once ──> launcher ── fork, per pod ──> copy ── fork ──> supervisor, PID 1 of the pod
//!                                                   └ exits
//! ```
//! The launcher's copy takes the pod's lock, leaves the agent's cgroup and makes the pod's namespaces.
//! It hands the lock to the supervisor, which keeps it as long as it lives: a second one for the same
//! pod finds it taken and goes. The supervisor being PID 1 of the pod's PID namespace, the kernel kills
//! all containers when it dies, however it dies.
//!
//! With each pod comes the network namespace that holds the node's bridges; the user namespace that owns
//! it is the one to work in. So neither needs a name in the file system.

mod checks;
pub(crate) mod launcher;
mod lifecycle;
mod live;
mod probe;
pub(crate) mod processes;
mod relay;
mod requests;
mod run;
mod storage;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{dup2_stdin, dup2_stdout, pipe2, sethostname, setsid};

use crate::egress::{self, keeper};
use crate::layout::PodDir;
use crate::sandbox::cgroup::{self, PodGroup};
use crate::sandbox::rootfs::SYSTEM;
use crate::sandbox::{detach, identity, network, seccomp};
use crate::spec::{Mount, Network, PodSpec, Root};
use crate::sys;

pub(crate) use lifecycle::recover;

/// What `astrago supervise …` does, before any runtime exists: with `--launcher` it starts the
/// supervisors that are asked for at standard input, with `--bridges` it makes the namespaces of the
/// node's networks and holds them until standard input ends, and with `--egress` and a folder it keeps
/// the way out.
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // What the agent was started with would be kept open for as long as the pod lives.
    if let Err(error) = sys::close_range(3, u32::MAX, false) {
        let _ = writeln!(io::stderr(), "error: failed to close descriptors: {error}");
        return ExitCode::FAILURE;
    }
    let mut arguments = arguments.into_iter();
    let result = match arguments.next() {
        Some(word) if word == "--bridges" => hold_bridges(),
        Some(word) if word == "--egress" => match arguments.next() {
            Some(folder) => keep_egress(Path::new(&folder)),
            None => Err(Error::Usage),
        },
        Some(word) if word == "--launcher" => launcher::serve(),
        _ => Err(Error::Usage),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {}", astrago_net::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Starts the supervisor of a pod, which takes over `say`.
fn launch(pod: &PodDir, bridges: &OwnedFd, say: &mut Option<File>) -> Result<()> {
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(pod.lock())
        .map_err(Error::system("open the lock file"))?;
    let lock = match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Err(Error::AlreadyRunning),
        Err((_, errno)) => return Err(Error::system("lock the pod")(errno)),
    };
    let text = std::fs::read(pod.spec()).map_err(Error::system("read pod.json"))?;
    let spec: PodSpec = serde_json::from_slice(&text).map_err(Error::Spec)?;
    drop(text);
    if let Some(users) = &spec.egress {
        let held = egress::hold(users).map_err(Error::system("hold the way out"))?;
        // Until the supervisor ends: unlocking in one of the two would take it from both.
        std::mem::forget(held);
    }
    let (group, mut warnings) = PodGroup::create(&spec.uid);
    if let Some(group) = &group
        && let Err(error) = group.adopt_supervisor()
    {
        warnings.push(format!(
            "the supervisor stays in the agent's cgroup: {error}"
        ));
    }
    enter_user_namespace(bridges)?;
    let spaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    unshare(spaces).map_err(Error::system("create the pod's namespaces"))?;
    let Some(pid) =
        sys::fork_into(CloneFlags::empty()).map_err(Error::system("create the supervisor"))?
    else {
        // A session of its own: it is no longer of the launcher's.
        let _ = setsid();
        let result = supervisor(pod, spec, bridges, group, warnings, say.take());
        drop(lock);
        end(&result);
    };
    let pid = pid.to_string();
    let written = lock
        .set_len(0)
        .and_then(|()| lock.write_all_at(pid.as_bytes(), 0))
        .map_err(Error::system("write down who supervises"));
    // The lock now belongs to the supervisor alone: unlocking here would take it away.
    std::mem::forget(lock);
    written
}

/// What a process that was just created has to say: that it is ready, or why not.
fn hear(ready: OwnedFd) -> Result<()> {
    // A line and not all there is: children of that process may have the pipe open for long.
    let mut word = String::new();
    BufReader::new(File::from(ready))
        .read_line(&mut word)
        .map_err(Error::system("hear from a process"))?;
    let word = word.trim_end();
    match word.strip_prefix("error: ") {
        None if word == "ready" => Ok(()),
        Some(message) => Err(Error::Supervisor(message.to_owned())),
        None => Err(Error::Supervisor("it ended without a word".to_owned())),
    }
}

/// The supervisor's life, from PID 1 to the end of the pod.
fn supervisor(
    pod: &PodDir,
    spec: PodSpec,
    bridges: &OwnedFd,
    group: Option<PodGroup>,
    warnings: Vec<String>,
    mut say: Option<File>,
) -> Result<()> {
    let mut answer = |word: &str| {
        say.take()
            .map_or(Ok(()), |mut say| say.write_all(word.as_bytes()))
    };
    let prepared = prepare(pod, &spec, bridges).and_then(|()| {
        run::Supervisor::new(
            pod.clone(),
            spec,
            bridges
                .try_clone()
                .map_err(Error::system("keep the bridges"))?,
            group,
            warnings,
        )
    });
    match prepared {
        Ok(supervisor) => {
            answer("ready\n").map_err(Error::system("answer the agent"))?;
            supervisor.run()
        }
        Err(error) => {
            let _ = answer(&format!("error: {}\n", astrago_net::chain(&error)));
            Err(error)
        }
    }
}

/// Makes the namespaces into those of the pod.
fn prepare(pod: &PodDir, spec: &PodSpec, bridges: &OwnedFd) -> Result<()> {
    detach::release(&paths(pod, spec)).map_err(Error::system("prepare the pod's mounts"))?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), quiet, None::<&str>)
        .map_err(Error::system("mount /proc of the pod"))?;
    let mut made: Vec<&str> = Vec::new();
    for mounted in spec
        .init_containers
        .iter()
        .chain(&spec.containers)
        .flat_map(|container| &container.mounts)
    {
        if let Mount::Memory { key, size, .. } = mounted
            && !made.contains(&key.as_str())
        {
            made.push(key);
            memory(pod, key, *size)?;
        }
    }
    if spec.network != Network::Host {
        sethostname(&spec.hostname).map_err(Error::system("set the host name"))?;
    }
    network::enter(bridges.as_fd(), &spec.network, &spec.uid)?;
    seccomp::programs()?;
    Ok(())
}

/// All that the pod needs of the machine's file systems.
fn paths(pod: &PodDir, spec: &PodSpec) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["/proc", "/sys", "/dev"].map(PathBuf::from).to_vec();
    all.extend([pod.path().to_owned(), spec.log_dir.clone()]);
    all.extend(spec.relay.clone());
    for container in spec.init_containers.iter().chain(&spec.containers) {
        match &container.root {
            Root::Host { read_only } => {
                all.extend(SYSTEM.iter().map(|name| Path::new("/").join(name)));
                all.extend(read_only.iter().cloned());
            }
            Root::Layers { lower } => all.extend(lower.iter().cloned()),
        }
        all.extend(container.mounts.iter().filter_map(|mount| match mount {
            Mount::Bind { source, .. } => Some(source.clone()),
            Mount::Memory { .. } => None,
        }));
    }
    all
}

/// A volume in memory, which all containers of the pod share.
fn memory(pod: &PodDir, key: &str, size: Option<u64>) -> Result<()> {
    let path = pod.volume(key);
    std::fs::create_dir_all(&path).map_err(Error::system("prepare a volume in memory"))?;
    let owner = identity::volume_owner(None).map_or(0, |(user, _)| user);
    let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
    let data = format!("mode=1777,uid={owner},gid={owner}{size}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(
        Some("tmpfs"),
        &path,
        Some("tmpfs"),
        flags,
        Some(data.as_str()),
    )
    .map_err(Error::system("mount a volume in memory"))
}

/// What is at standard input, which is then empty.
fn take_input() -> Result<OwnedFd> {
    let failed = Error::system("take what is at standard input");
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(&failed)?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(&failed)?;
    dup2_stdin(&null).map_err(Error::system("leave standard input"))?;
    dup2_stdout(&null).map_err(Error::system("leave standard output"))?;
    Ok(input)
}

/// Enters the user namespace that owns the bridges, if it is not this one.
fn enter_user_namespace(bridges: &OwnedFd) -> Result<()> {
    let failed = Error::system("find the user namespace of the bridges");
    let owner = File::from(sys::owning_user_namespace(bridges).map_err(&failed)?);
    let here = std::fs::metadata("/proc/self/ns/user").map_err(&failed)?;
    if owner.metadata().map_err(&failed)?.ino() != here.ino() {
        setns(&owner, CloneFlags::CLONE_NEWUSER)
            .map_err(Error::system("enter the user namespace of the bridges"))?;
    }
    Ok(())
}

/// Becomes the keeper of the way out; the launcher goes when pods can use it.
fn keep_egress(folder: &Path) -> Result<()> {
    let Some((setup, lock)) = keeper::prepare(folder)? else {
        return Ok(());
    };
    let bridges = take_input()?;
    let _ = setsid();
    std::env::set_current_dir("/").map_err(Error::system("leave the working directory"))?;
    cgroup::leave();
    enter_user_namespace(&bridges)?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)
        .map_err(Error::system("create the keeper's namespaces"))?;
    let (ready, say) = pipe2(OFlag::O_CLOEXEC).map_err(Error::system("create a pipe"))?;
    let Some(pid) =
        sys::fork_into(CloneFlags::empty()).map_err(Error::system("create the keeper"))?
    else {
        drop(ready);
        let result = keeper::keep(folder, setup, bridges, say);
        drop(lock);
        end(&result);
    };
    drop(say);
    keeper::record(folder, pid, bridges.as_fd(), &setup)?;
    let result = hear(ready);
    if result.is_ok() {
        // The lock now belongs to the keeper alone: unlocking here would take it away.
        std::mem::forget(lock);
    }
    result
}

/// Ends this process, after saying what went wrong.
fn end<E: std::error::Error>(result: &Result<(), E>) -> ! {
    if let Err(error) = result {
        let _ = writeln!(io::stderr(), "error: {}", astrago_net::chain(error));
    }
    sys::end(i32::from(result.is_err()))
}

/// Makes the namespace for the node's bridges, in a user namespace of its own where this is not root,
/// says so and holds it until the agent has opened it.
fn hold_bridges() -> Result<()> {
    let user = nix::unistd::geteuid();
    let group = nix::unistd::getegid();
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNET).map_err(Error::system("create a network namespace"))?;
    } else {
        // What the user has left when the namespace is made is what all pods below it may have together,
        // also without cgroups. A part stays for the user.
        if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NPROC) {
            let share = cgroup::pods_share().min(soft / 4 * 3);
            let _ = setrlimit(Resource::RLIMIT_NPROC, share, share);
        }
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(Error::system(
            "create a user namespace (does this machine allow unprivileged ones?)",
        ))?;
        let write = |file: &str, text: String| {
            std::fs::write(file, text).map_err(Error::system("map user ids"))
        };
        write("/proc/self/uid_map", format!("0 {user} 1\n"))?;
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/gid_map", format!("0 {group} 1\n"))?;
    }
    let mut output = io::stdout();
    output
        .write_all(b"ready\n")
        .and_then(|()| output.flush())
        .map_err(Error::system("answer the agent"))?;
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("usage: supervise --launcher | --bridges | --egress <folder>")]
    Usage,
    #[error("another supervisor has this pod")]
    AlreadyRunning,
    #[error("failed to {action}")]
    System {
        action: &'static str,
        source: io::Error,
    },
    #[error("pod.json is not understood")]
    Spec(#[source] serde_json::Error),
    #[error("failed to connect the pod")]
    Network(#[from] network::Error),
    #[error("failed to keep the way out of pods")]
    Egress(#[from] keeper::Error),
    #[error("failed to prepare the system call filter")]
    Filter(#[from] seccomp::Error),
    #[error("failed to keep the pod's state")]
    State(#[from] crate::state::Error),
    #[error("failed to serve the pod's control socket")]
    Control(#[from] crate::control::Error),
    /// The words of the process that failed.
    #[error("{0}")]
    Supervisor(String),
}

impl Error {
    fn system<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System {
            action,
            source: error.into(),
        }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;
