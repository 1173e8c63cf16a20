//! From a supervisor to a running program.
//!
//! ```text
//! supervisor ── fork ──> builder ── clone(user, mount, PID, cgroup; parent = supervisor) ──> init
//!                          │ own mount namespace: root folder, cgroup                         │ pivot_root,
//!                          │ writes the user id map, waits for init                           └ reaps
//!                          │ enters the namespaces
//!                          └ fork(parent = supervisor) ──> program: limits, exec
//! ```
//! Both are children of the supervisor, which thus learns how the program itself ended. PID 1 of the
//! container's PID namespace is [`init`]. All say what happens over one pipe as [`Message`]s; its end
//! without a failure means that the program runs.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::{
    Gid, Pid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, execve, pipe2, pivot_root, setgroups,
    setresgid, setresuid, setsid,
};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use super::cgroup::Group;
use super::identity::{self, Identity};
use super::{capabilities, init, mounts, rootfs, seccomp};
use crate::layout::PodDir;
use crate::spec::{ContainerSpec, Root};
use crate::sys;

/// What the three processes tell each other.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// A process of the container exists, with this id in the supervisor's PID namespace.
    Cloned { pid: i32 },
    /// It will not run.
    Failed { message: String, missing: bool },
}

/// The program's standard streams.
pub(crate) enum Streams {
    Separate {
        input: OwnedFd,
        output: OwnedFd,
        error: OwnedFd,
    },
    Terminal(OwnedFd),
}

/// The processes that make a container, as the supervisor numbers them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes {
    /// PID 1. When it ends, the kernel kills what is left of the container.
    pub(crate) init: Pid,
    pub(crate) program: Pid,
}

/// Starts a container; when this returns, its program runs.
pub(crate) fn start(
    container: &ContainerSpec,
    pod: &PodDir,
    group: Option<&Group>,
    streams: Streams,
) -> Result<Processes> {
    let identity = Identity::choose(container);
    let [init, program] = launch(|report| {
        let root = build(container, pod, group, identity)?;
        let failed = Error::system("create a pipe");
        let (ready, go) = pipe2(OFlag::O_CLOEXEC).map_err(&failed)?;
        let (entered, inside) = pipe2(OFlag::O_CLOEXEC).map_err(&failed)?;
        let flags = CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWCGROUP
            | CloneFlags::CLONE_PARENT;
        let child =
            sys::fork_into(flags).map_err(Error::system("create the container's namespaces"))?;
        let Some(pid) = child else {
            drop((go, entered));
            // Its arguments name folders of the machine.
            init::rename(c"init", &[b"init"]);
            File::from(ready)
                .read_exact(&mut [0])
                .map_err(Error::system("wait for user ids"))?;
            identity::share_watches();
            enter(container, &root, identity)?;
            hide()?;
            surrender(container, identity)?;
            init::run(inside);
        };
        drop((ready, inside));
        send(report, &Message::Cloned { pid: pid.as_raw() });
        identity.apply(pid).map_err(Error::system("map user ids"))?;
        // Now, for it is about to hide itself.
        let spaces = Spaces::of(pid)?;
        let told = File::from(go).write_all(b"!");
        if told.is_err() || File::from(entered).read(&mut [0]).unwrap_or(0) == 0 {
            // It has said why.
            return Ok(Step::Cloned);
        }
        let (argv, env) = (&container.argv, &container.env);
        spaces.run(report, container, argv, env, identity, streams)
    })?;
    Ok(Processes { init, program })
}

/// Runs a program in a running container; when this returns, it runs.
pub(crate) fn join(
    container: &ContainerSpec,
    pid: Pid,
    group: Option<&Group>,
    argv: &[String],
    env: &[(String, String)],
    streams: Streams,
) -> Result<Pid> {
    let identity = Identity::choose(container);
    let [pid] = launch(|report| {
        if let Some(group) = group {
            group.join().map_err(Error::system("enter the cgroup"))?;
        }
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        Spaces::of(pid)?.run(report, container, argv, env, identity, streams)
    })?;
    Ok(pid)
}

/// The namespaces of a container that its pod does not share.
struct Spaces([(File, CloneFlags); 4]);

impl Spaces {
    /// Those of a process, which must not have hidden itself.
    fn of(pid: Pid) -> Result<Self> {
        let open = |name: &str| {
            File::open(format!("/proc/{pid}/ns/{name}"))
                .map_err(Error::system("find the container's namespaces"))
        };
        Ok(Self([
            (open("pid")?, CloneFlags::CLONE_NEWPID),
            (open("cgroup")?, CloneFlags::CLONE_NEWCGROUP),
            (open("mnt")?, CloneFlags::CLONE_NEWNS),
            (open("user")?, CloneFlags::CLONE_NEWUSER),
        ]))
    }

    /// Enters them and becomes a program there.
    fn run(
        self,
        report: &OwnedFd,
        container: &ContainerSpec,
        argv: &[String],
        env: &[(String, String)],
        identity: Identity,
        streams: Streams,
    ) -> Result<Step> {
        hide()?;
        for (space, kind) in self.0 {
            setns(space, kind).map_err(Error::system("enter the container's namespaces"))?;
        }
        if let Some(pid) =
            sys::fork_into(CloneFlags::CLONE_PARENT).map_err(Error::system("create a process"))?
        {
            send(report, &Message::Cloned { pid: pid.as_raw() });
            return Ok(Step::Cloned);
        }
        become_root(identity)?;
        execute(container, argv, env, identity, streams)
    }
}

/// Closes this process to the container's own, whose root could otherwise look into it: it still has
/// the supervisor's memory and program.
fn hide() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(Error::system("hide from the container"))
}

/// The user namespace with the ids of every container, for mounts that map owners. The launcher makes it, and its copies
/// have it; whoever is no copy makes one for itself.
pub(crate) fn containers_namespace() -> io::Result<&'static OwnedFd> {
    static MADE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made);
    }
    let made = user_namespace(|pid| Identity::Range.apply(pid))?;
    Ok(MADE.get_or_init(|| made))
}

/// A user namespace with the ids that `apply` gives it, for mounts that map owners.
pub(crate) fn user_namespace(apply: impl FnOnce(Pid) -> io::Result<()>) -> io::Result<OwnedFd> {
    let (wait, hold) = pipe2(OFlag::O_CLOEXEC)?;
    let Some(pid) = sys::fork_into(CloneFlags::CLONE_NEWUSER)? else {
        drop(hold);
        let _ = File::from(wait).read(&mut [0]);
        sys::end(0);
    };
    let namespace = apply(pid).and_then(|()| File::open(format!("/proc/{pid}/ns/user")));
    drop(hold);
    waitpid(pid, None)?;
    Ok(namespace?.into())
}

/// What a builder that has done its part returns.
enum Step {
    Cloned,
}

/// Forks a builder, runs `steps` in it, and reads what it and its container say: the processes that
/// were made.
fn launch<const COUNT: usize>(
    steps: impl FnOnce(&OwnedFd) -> Result<Step>,
) -> Result<[Pid; COUNT]> {
    let (listen, report) = pipe2(OFlag::O_CLOEXEC).map_err(Error::system("create a pipe"))?;
    let Some(builder) =
        sys::fork_into(CloneFlags::empty()).map_err(Error::system("create a process"))?
    else {
        drop(listen);
        match steps(&report) {
            Ok(Step::Cloned) => sys::end(0),
            Err(error) => {
                let missing = matches!(error, Error::NoProgram { .. });
                send(
                    &report,
                    &Message::Failed {
                        message: astrago_net::chain(&error),
                        missing,
                    },
                );
                sys::end(127);
            }
        }
    };
    drop(report);
    let mut made = Vec::new();
    let mut failure = None;
    for line in BufReader::new(File::from(listen)).lines() {
        let line = line.map_err(Error::system("hear from the container"))?;
        match serde_json::from_str(&line) {
            Ok(Message::Cloned { pid }) => made.push(Pid::from_raw(pid)),
            Ok(Message::Failed { message, missing }) => failure = Some((message, missing)),
            Err(_) => failure = Some((line, false)),
        }
    }
    let _ = waitpid(builder, None);
    if failure.is_none()
        && let Ok(all) = made[..].try_into()
    {
        return Ok(all);
    }
    for pid in &made {
        let _ = nix::sys::signal::kill(*pid, nix::sys::signal::Signal::SIGKILL);
    }
    // PID 1 comes first, and ends only when the others have been waited for.
    for pid in made.into_iter().rev() {
        let _ = waitpid(pid, None);
    }
    let (message, missing) =
        failure.unwrap_or_else(|| ("it ended while it was being made".to_owned(), false));
    Err(Error::Reported { message, missing })
}

fn send(report: &OwnedFd, message: &Message) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        // The supervisor reads until the end; when it is gone, so are we.
        let _ = rustix::io::write(report, &line);
    }
}

/// The builder's part: cgroup, mount namespace, root folder.
fn build(
    container: &ContainerSpec,
    pod: &PodDir,
    group: Option<&Group>,
    identity: Identity,
) -> Result<PathBuf> {
    if let Some(group) = group {
        group.join().map_err(Error::system("enter the cgroup"))?;
    }
    // When memory is short, a container goes before anything of the machine.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    unshare(CloneFlags::CLONE_NEWNS).map_err(Error::system("create a mount namespace"))?;
    Ok(rootfs::build(container, pod, identity)?)
}

/// The container's own part: its view of the file system.
fn enter(container: &ContainerSpec, root: &Path, identity: Identity) -> Result<()> {
    setsid().map_err(Error::system("create a session"))?;
    let failed = Error::system("enter the root folder");
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    // As the owner of the pod's folder, which nobody else may pass.
    mount(Some(root), root, None::<&str>, bind, None::<&str>).map_err(&failed)?;
    std::env::set_current_dir(root).map_err(Error::system("enter the root folder"))?;
    become_root(identity)?;
    processes()?;
    init::lend_streams();
    if container.read_only_root {
        protect(container)?;
    }
    pivot_root(".", ".").map_err(&failed)?;
    umount2(".", MntFlags::MNT_DETACH).map_err(&failed)?;
    std::env::set_current_dir("/").map_err(Error::system("enter the root folder"))?;
    Ok(())
}

/// The container's root user has its rights only once the process has its id.
fn become_root(identity: Identity) -> Result<()> {
    if identity == Identity::Range {
        let failed = Error::system("become root of the container");
        setgroups(&[]).map_err(&failed)?;
        let (group, user) = (Gid::from_raw(0), Uid::from_raw(0));
        setresgid(group, group, group).map_err(&failed)?;
        setresuid(user, user, user).map_err(&failed)?;
    }
    Ok(())
}

/// `/proc` of the container's PID namespace, without what concerns the machine.
fn processes() -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = rustix::fs::openat2(
        rustix::fs::CWD,
        "proc",
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )
    .map_err(Error::system("find /proc in the root folder"))?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        Some("proc"),
        &mounts::descriptor(&at),
        Some("proc"),
        quiet,
        None::<&str>,
    )
    .map_err(Error::system(
        "mount /proc (is /proc of this machine itself masked?)",
    ))?;
    drop(at);
    let failed = Error::system("mask /proc");
    for name in [
        "kcore",
        "keys",
        "kallsyms",
        "kpagecount",
        "kpageflags",
        "kpagecgroup",
        "latency_stats",
        "sched_debug",
        "timer_list",
        "timer_stats",
        "vmallocinfo",
        "slabinfo",
    ] {
        let target = Path::new("proc").join(name);
        if target.exists() {
            mount(
                Some("dev/null"),
                &target,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )
            .map_err(&failed)?;
        }
    }
    for name in ["acpi", "scsi", "driver/nvram"] {
        let target = Path::new("proc").join(name);
        if target.is_dir() {
            mount(
                Some("tmpfs"),
                &target,
                Some("tmpfs"),
                quiet | MsFlags::MS_RDONLY,
                Some("size=0"),
            )
            .map_err(&failed)?;
        }
    }
    for name in ["bus", "fs", "irq", "sys", "sysrq-trigger"] {
        let target = Path::new("proc").join(name);
        if target.exists() {
            mount(
                Some(&target),
                &target,
                None::<&str>,
                MsFlags::MS_BIND | MsFlags::MS_REC,
                None::<&str>,
            )
            .map_err(&failed)?;
            sys::mount_attributes(&target, sys::READ_ONLY, true)
                .map_err(Error::system("protect /proc"))?;
        }
    }
    Ok(())
}

/// `readOnlyRootFilesystem`: the root folder and, with the host image, the layers in it.
fn protect(container: &ContainerSpec) -> Result<()> {
    let mut targets = vec![PathBuf::from(".")];
    if let Root::Host { .. } = container.root {
        targets.extend(["usr", "etc", "opt"].map(PathBuf::from));
    }
    for target in targets.iter().filter(|target| target.is_dir()) {
        match sys::mount_attributes(target, sys::READ_ONLY, false) {
            // A plain folder of the root, which is protected with it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            other => other.map_err(Error::system("make the root folder read-only"))?,
        }
    }
    Ok(())
}

/// Gives up all rights that the container's user does not have.
fn surrender(container: &ContainerSpec, identity: Identity) -> Result<()> {
    let keep = capabilities::of(container);
    capabilities::bound(keep).map_err(Error::system("drop capabilities"))?;
    if identity == Identity::Range {
        let failed = Error::system("change the user");
        let groups: Vec<_> = container
            .groups
            .iter()
            .copied()
            .map(Gid::from_raw)
            .collect();
        setgroups(&groups).map_err(&failed)?;
        let (user, group) = (
            Uid::from_raw(container.user),
            Gid::from_raw(container.group),
        );
        setresgid(group, group, group).map_err(&failed)?;
        setresuid(user, user, user).map_err(&failed)?;
    }
    capabilities::limit(keep).map_err(Error::system("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(Error::system("forbid new rights"))?;
    seccomp::apply()?;
    Ok(())
}

fn execute(
    container: &ContainerSpec,
    argv: &[String],
    env: &[(String, String)],
    identity: Identity,
    streams: Streams,
) -> Result<Step> {
    std::env::set_current_dir(&container.working_dir).map_err(|source| Error::WorkingDir {
        path: container.working_dir.clone(),
        source,
    })?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let text = |text: &str| CString::new(text).map_err(|_| Error::Zero);
    let arguments = argv
        .iter()
        .map(|argument| text(argument))
        .collect::<Result<Vec<_>>>()?;
    let variables = env
        .iter()
        .map(|(name, value)| text(&format!("{name}={value}")))
        .collect::<Result<Vec<_>>>()?;
    match streams {
        Streams::Separate {
            input,
            output,
            error,
        } => {
            if nix::unistd::getpid() != nix::unistd::getsid(None).unwrap_or(Pid::from_raw(0)) {
                let _ = setsid();
            }
            connect(&input, &output, &error)?;
        }
        Streams::Terminal(terminal) => {
            setsid().map_err(Error::system("create a session"))?;
            sys::control_terminal(&terminal).map_err(Error::system("take the terminal"))?;
            connect(&terminal, &terminal, &terminal)?;
        }
    }
    if let Some(pids) = container.limits.pids {
        // Counted per user namespace, so this holds for the container alone, with cgroups or without.
        setrlimit(Resource::RLIMIT_NPROC, pids, pids).map_err(Error::system("limit processes"))?;
    }
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(Error::system("forbid core dumps"))?;
    // Ours are closed by then anyway; this is for those that whoever started us left open.
    sys::close_range(3, u32::MAX, true).map_err(Error::system("close descriptors"))?;
    sys::reset_signals().map_err(Error::system("reset signals"))?;
    surrender(container, identity)?;
    let program = argv.first().ok_or_else(|| Error::NoProgram {
        name: String::new(),
    })?;
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map_or(
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        |(_, value)| value,
    );
    let mut refused = None;
    for candidate in candidates(program, path) {
        let candidate = CString::new(candidate.as_os_str().as_bytes()).map_err(|_| Error::Zero)?;
        let Err(errno) = execve(&candidate, &arguments, &variables);
        if !matches!(
            errno,
            nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR
        ) {
            refused.get_or_insert(errno);
        }
    }
    Err(refused.map_or_else(
        || Error::NoProgram {
            name: program.clone(),
        },
        |errno| Error::Execute {
            name: program.clone(),
            source: errno.into(),
        },
    ))
}

fn connect(input: &OwnedFd, output: &OwnedFd, error: &OwnedFd) -> Result<()> {
    let failed = Error::system("connect standard streams");
    dup2_stdin(input.as_fd()).map_err(&failed)?;
    dup2_stdout(output.as_fd()).map_err(&failed)?;
    dup2_stderr(error.as_fd()).map_err(&failed)
}

/// Where a program may be, as a shell looks for it.
fn candidates(program: &str, path: &str) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    path.split(':')
        .map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(program))
        .collect()
}

/// What goes wrong on the way to a running program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("failed to {action}")]
    System {
        action: &'static str,
        source: io::Error,
    },
    #[error("failed to furnish the root folder")]
    Root(#[from] rootfs::Error),
    #[error("failed to install the system call filter")]
    Filter(#[from] seccomp::Error),
    #[error("failed to enter the working directory {}", path.display())]
    WorkingDir { path: PathBuf, source: io::Error },
    #[error("an argument or variable contains a zero byte")]
    Zero,
    #[error("exec: \"{name}\": executable file not found in $PATH")]
    NoProgram { name: String },
    #[error("exec: \"{name}\" cannot be executed")]
    Execute { name: String, source: io::Error },
    /// What another process on the way said.
    #[error("{message}")]
    Reported { message: String, missing: bool },
}

impl Error {
    /// The program is not there, which is the user's mistake.
    pub(crate) fn is_missing_program(&self) -> bool {
        matches!(
            self,
            Self::Reported { missing: true, .. } | Self::NoProgram { .. }
        )
    }

    fn system<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System {
            action,
            source: error.into(),
        }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;
