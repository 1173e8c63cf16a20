//! The process that keeps the way out, from the first pod's need to the last one's end.
//!
//! It is PID 1 of a PID namespace, so that `pasta` and its other children cannot outlive it, and stays in
//! the host's network namespace; what concerns the node's own is done by children that go there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::mount::{MsFlags, mount};
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};

use super::host::{let_through, nft, opened_by_others, read_setting, setting, uplinks};
use super::resolvers::{self, Resolvers};
use super::rules::{self, Host, OUT};
use super::{Forward, LINK_PREFIX, Setup, Way, find_program};
use crate::layout;
use crate::sandbox::netlink::{Changes, Netlink};
use crate::sys;

/// How long `pasta` may take to make its interface.
const PATIENCE: Duration = Duration::from_secs(5);
/// Changes come in bursts; the last of them counts.
const SETTLE: Duration = Duration::from_millis(200);
/// How long to wait before `pasta` is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// Who keeps what, in the file that the keeper has locked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: i32,
    /// The inode of the network namespace that holds the bridges.
    pub(crate) namespace: u64,
    pub(crate) setup: Setup,
}

/// Reads what is to be kept, and locks the keeper's place; `None` if another has it.
pub(crate) fn prepare(folder: &Path) -> Result<Option<(Setup, Flock<File>)>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(layout::egress_keeper(folder))
        .map_err(Error::system("open the keeper's lock"))?;
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, errno)) => return Err(Error::kernel("lock the keeper's place")(errno)),
    };
    let setup = std::fs::read(folder.join("setup.json"))
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from))
        .map_err(Error::system("read what to keep"))?;
    Ok(Some((setup, lock)))
}

/// Writes down who keeps what.
pub(crate) fn record(
    folder: &Path,
    pid: Pid,
    bridges: BorrowedFd<'_>,
    setup: &Setup,
) -> Result<()> {
    let failed = Error::system("write down who keeps the way out");
    let namespace = bridges.try_clone_to_owned().map(File::from);
    let namespace = namespace
        .and_then(|file| file.metadata())
        .map_err(&failed)?;
    let record = Record {
        pid: pid.as_raw(),
        namespace: namespace.ino(),
        setup: setup.clone(),
    };
    let bytes = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
    std::fs::write(layout::egress_keeper(folder), bytes).map_err(&failed)
}

/// The keeper's life. Says `ready` once pods can use the way out.
pub(crate) fn keep(folder: &Path, setup: Setup, bridges: OwnedFd, say: OwnedFd) -> Result<()> {
    let mut say = File::from(say);
    let opened = Keeper::open(folder, setup, bridges).and_then(|mut keeper| match keeper.start() {
        Ok(()) => Ok(keeper),
        Err(error) => {
            keeper.end();
            Err(error)
        }
    });
    match opened {
        Ok(mut keeper) => {
            let _ = say.write_all(b"ready\n");
            drop(say);
            let result = keeper.run();
            keeper.end();
            result
        }
        Err(error) => {
            let _ = writeln!(say, "error: {}", astrago_net::chain(&error));
            Err(error)
        }
    }
}

struct Keeper {
    folder: PathBuf,
    setup: Setup,
    bridges: OwnedFd,
    signals: SignalFd,
    changes: Changes,
    /// Ends when nobody needs the way out any longer.
    waiter: Pid,
    pasta: Option<Pid>,
    host: Host,
}

impl Keeper {
    fn open(folder: &Path, setup: Setup, bridges: OwnedFd) -> Result<Self> {
        let failed = Error::kernel("prepare the keeper's mounts");
        // What the host unmounts goes here too.
        let follow = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(None::<&str>, "/", None::<&str>, follow, None::<&str>).map_err(&failed)?;
        let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), quiet, None::<&str>).map_err(&failed)?;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.add(Signal::SIGTERM);
        mask.add(Signal::SIGHUP);
        mask.thread_block()
            .map_err(Error::kernel("block signals"))?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(Error::kernel("listen for signals"))?;
        // Before the first look, so that nothing is missed after it.
        let changes = Changes::open().map_err(Error::system("follow the host's network"))?;
        let waiter = wait_for_users(folder, bridges.as_fd())?;
        let opened = std::fs::read(folder.join("opened.json")).unwrap_or_default();
        Ok(Self {
            folder: folder.to_owned(),
            bridges,
            signals,
            changes,
            waiter,
            pasta: None,
            host: Host {
                opened: serde_json::from_slice(&opened).unwrap_or_default(),
                ..Host::default()
            },
            setup,
        })
    }

    fn start(&mut self) -> Result<()> {
        inside(self.bridges.as_fd(), || {
            setting("ipv4/ip_forward", "1")?;
            // Frames between pods of one bridge are not for our rules.
            let _ = setting("bridge/bridge-nf-call-iptables", "0");
            // To a pod that reaches another one by a Service's address.
            let _ = setting("ipv4/conf/all/send_redirects", "0");
            let _ = setting("ipv4/conf/default/send_redirects", "0");
            Ok(())
        })?;
        self.look();
        self.apply_inside()?;
        self.apply_services()?;
        match self.setup.way {
            Way::Pasta => self.start_pasta()?,
            _ => self.connect_host()?,
        }
        Ok(())
    }

    /// Follows signals and changes until it is time to go.
    fn run(&mut self) -> Result<()> {
        let mut look_at: Option<Instant> = None;
        let mut restart_at: Option<Instant> = None;
        loop {
            let next = look_at.into_iter().chain(restart_at).min();
            let timeout = next.map_or(PollTimeout::NONE, |at| {
                let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            let mut sources = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.changes.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut sources, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Error::kernel("wait")(errno)),
            }
            let changed = sources[1].any().unwrap_or(false);
            if self.is_over()? {
                return Ok(());
            }
            if changed {
                self.changes.drain();
                look_at.get_or_insert(Instant::now() + SETTLE);
            }
            if self.setup.way == Way::Pasta && self.pasta.is_none() && restart_at.is_none() {
                restart_at = Some(Instant::now() + AGAIN);
            }
            let now = Instant::now();
            if restart_at.is_some_and(|at| at <= now) {
                restart_at = None;
                if let Err(error) = self.start_pasta() {
                    complain(&error);
                }
            }
            if look_at.is_some_and(|at| at <= now) {
                look_at = None;
                if let Err(error) = self.refresh() {
                    complain(&error);
                }
            }
        }
    }

    /// Takes in signals; whether it is time to go.
    fn is_over(&mut self) -> Result<bool> {
        let (mut over, mut news) = (false, false);
        while let Some(signal) = self
            .signals
            .read_signal()
            .map_err(Error::kernel("read signals"))?
        {
            over |= i32::try_from(signal.ssi_signo) == Ok(Signal::SIGTERM as i32);
            news |= i32::try_from(signal.ssi_signo) == Ok(Signal::SIGHUP as i32);
        }
        if news && let Err(error) = self.apply_services() {
            complain(&error);
        }
        while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            match status.pid() {
                Some(pid) if pid == self.waiter => over = true,
                Some(pid) if Some(pid) == self.pasta => self.pasta = None,
                Some(_) => {}
                None => break,
            }
        }
        Ok(over)
    }

    /// Brings the rules up to date with the host.
    fn refresh(&mut self) -> Result<()> {
        let before = self.host.clone();
        self.look();
        if self.host != before {
            self.apply_inside()?;
        }
        if self.setup.way == Way::Masquerade {
            self.open_uplinks()?;
            if self.host != before {
                nft(&rules::host(&self.setup, &self.host))?;
            }
            let_through(&self.setup.name, true);
        }
        Ok(())
    }

    fn look(&mut self) {
        self.host.addresses = resolvers::own_addresses();
        self.host.resolvers = Resolvers::of_host(&self.setup.resolvers).servers;
    }

    fn apply_inside(&self) -> Result<()> {
        let text = rules::inside(&self.setup, &self.host);
        inside(self.bridges.as_fd(), || nft(&text))
    }

    /// Leads from the addresses of Services to pods, as the agent says.
    fn apply_services(&self) -> Result<()> {
        let text = std::fs::read(layout::egress_services(&self.folder)).unwrap_or_default();
        let forwards: Vec<Forward> = serde_json::from_slice(&text).unwrap_or_default();
        let text = rules::services(&forwards);
        inside(self.bridges.as_fd(), || nft(&text))
    }

    /// Root's way: a pair of interfaces, and the host forwards.
    fn connect_host(&mut self) -> Result<()> {
        let name = self.setup.name.clone();
        let failed = Error::system("connect the node with the host");
        let mut here = Netlink::open().map_err(&failed)?;
        // Of a keeper that was killed.
        let _ = here.delete(&name);
        // The rules come before the interface, so that there is no moment without them.
        self.open_uplinks()?;
        nft(&rules::host(&self.setup, &self.host))?;
        // Once more: another node that went meanwhile did not know yet that this one needs them.
        self.open_uplinks()?;
        let bridges = self.bridges.as_fd();
        inside(bridges, || {
            let _ = Netlink::open().and_then(|mut there| there.delete(OUT));
            Ok(())
        })?;
        here.add_pair(&name, None, OUT, bridges).map_err(&failed)?;
        let index = if_nametoindex(name.as_str()).map_err(|errno| failed(errno.into()))?;
        here.add_address(index, self.setup.link, LINK_PREFIX)
            .map_err(&failed)?;
        setting(&format!("ipv4/conf/{name}/forwarding"), "1")?;
        let _ = setting(&format!("ipv6/conf/{name}/disable_ipv6"), "1");
        let (address, gateway) = (self.setup.inside(), self.setup.link);
        inside(bridges, || connect_inside(address, gateway))?;
        let_through(&name, true);
        Ok(())
    }

    /// Lets replies in where the host forwards nothing yet: on the interfaces that lead outside.
    fn open_uplinks(&mut self) -> Result<()> {
        let mut opened = BTreeSet::new();
        // Where the whole host forwards by somebody else's wish, it is not ours to open or to guard.
        if read_setting("ipv4/ip_forward") == "0" {
            let others = opened_by_others(&self.setup.name);
            for uplink in uplinks() {
                let file = format!("ipv4/conf/{uplink}/forwarding");
                let known = self.host.opened.contains(&uplink) || others.contains(&uplink);
                if known || read_setting(&file) == "0" {
                    opened.insert(uplink);
                }
            }
            for closed in self.host.opened.difference(&opened) {
                if !others.contains(closed) {
                    let _ = setting(&format!("ipv4/conf/{closed}/forwarding"), "0");
                }
            }
        }
        if opened != self.host.opened {
            // Written first: what is not written down is never closed again.
            let text = serde_json::to_vec(&opened).unwrap_or_default();
            std::fs::write(self.folder.join("opened.json"), text)
                .map_err(Error::system("write down what was opened"))?;
        }
        self.host.opened = opened;
        for uplink in &self.host.opened {
            setting(&format!("ipv4/conf/{uplink}/forwarding"), "1")?;
        }
        Ok(())
    }

    /// Has the host forward nothing again, unless another node on it needs that.
    fn close_uplinks(&self) {
        if read_setting("ipv4/ip_forward") == "0" {
            let others = opened_by_others(&self.setup.name);
            for uplink in self.host.opened.difference(&others) {
                let _ = setting(&format!("ipv4/conf/{uplink}/forwarding"), "0");
            }
        }
    }

    /// An ordinary user's way.
    #[expect(
        clippy::disallowed_methods,
        reason = "pasta does not say when its interface is there"
    )]
    fn start_pasta(&mut self) -> Result<()> {
        let program = find_program("pasta").ok_or_else(|| Error::Words {
            action: "find pasta",
            words: "it is not installed".to_owned(),
        })?;
        let log = self.folder.join("pasta.log");
        let words = File::create(&log).map_err(Error::system("open pasta's log"))?;
        // Named through a process that is there: guards of programs allow that path alone.
        let namespace = format!("/proc/{}/ns/net", self.waiter);
        let mut child = Command::new(program)
            .args(rules::pasta(&self.setup, &namespace))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            .spawn()
            .map_err(Error::system("start pasta"))?;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        let begun = Instant::now();
        loop {
            let made = inside(self.bridges.as_fd(), || {
                if_nametoindex(OUT)
                    .map(drop)
                    .map_err(Error::kernel("find pasta's interface"))
            });
            let ended = child.try_wait().map_err(Error::system("watch pasta"))?;
            match (made, ended) {
                (Ok(()), None) => break,
                (Err(_), None) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let words = std::fs::read(&log).unwrap_or_default();
                    return Err(Error::Words {
                        action: "start pasta",
                        words: last_line(&words),
                    });
                }
            }
        }
        self.pasta = Some(pid);
        Ok(())
    }

    /// Takes everything away.
    fn end(&mut self) {
        for child in [Some(self.waiter), self.pasta].into_iter().flatten() {
            let _ = kill(child, Signal::SIGKILL);
            let _ = waitpid(child, None);
        }
        if self.setup.way == Way::Masquerade {
            let _ = Netlink::open().and_then(|mut here| here.delete(&self.setup.name));
            let_through(&self.setup.name, false);
            self.close_uplinks();
            if let Err(error) = nft(&rules::nothing(&self.setup)) {
                complain(&error);
            }
            // Once more: of two nodes that go at the same time each saw the other's rules.
            self.close_uplinks();
        }
        let _ = std::fs::remove_file(self.folder.join("opened.json"));
    }
}

/// A child in the node's namespace that ends when neither agent nor supervisor is left.
fn wait_for_users(folder: &Path, bridges: BorrowedFd<'_>) -> Result<Pid> {
    let failed = Error::system("wait for those who need the way out");
    let users = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(layout::egress_users(folder))
        .map_err(&failed)?;
    let (ready, say) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let Some(pid) = sys::fork_into(CloneFlags::empty()).map_err(&failed)? else {
        drop(ready);
        // Others find the namespace through this process, and may look at it if it has no rights
        // that they have not.
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        if setns(bridges, CloneFlags::CLONE_NEWNET).is_err()
            || set_capabilities(None, none).is_err()
            || set_dumpable_behavior(DumpableBehavior::Dumpable).is_err()
        {
            sys::end(1);
        }
        drop(say);
        // Kept until the end of the process, whichever way that comes.
        let _lock = Flock::lock(users, FlockArg::LockExclusive);
        sys::end(0);
    };
    drop(say);
    let _ = File::from(ready).read(&mut [0]);
    Ok(pid)
}

/// Does something in another network namespace.
fn inside(namespace: BorrowedFd<'_>, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let failed = Error::system("work in the node's namespace");
    let (listen, say) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let Some(pid) = sys::fork_into(CloneFlags::empty()).map_err(&failed)? else {
        drop(listen);
        let done = setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(Error::kernel("enter the node's namespace"))
            .and_then(|()| work());
        if let Err(error) = done {
            let words = astrago_net::chain(&error);
            let _ = File::from(say).write_all(words.as_bytes());
            sys::end(1);
        }
        sys::end(0);
    };
    drop(say);
    let mut words = String::new();
    let _ = File::from(listen).read_to_string(&mut words);
    match waitpid(pid, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        _ => Err(Error::Words {
            action: "set up the node's namespace",
            words,
        }),
    }
}

fn connect_inside(address: Ipv4Addr, gateway: Ipv4Addr) -> Result<()> {
    let failed = Error::system("connect the node's namespace");
    let index = if_nametoindex(OUT).map_err(|errno| failed(errno.into()))?;
    let mut netlink = Netlink::open().map_err(&failed)?;
    netlink
        .add_address(index, address, LINK_PREFIX)
        .map_err(&failed)?;
    netlink.set_up(index).map_err(&failed)?;
    netlink.add_default_route(index, gateway).map_err(&failed)
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").to_owned()
}

fn complain(error: &Error) {
    let _ = writeln!(io::stderr(), "error: {}", astrago_net::chain(error));
}

/// What goes wrong with the way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to {action}")]
    System {
        action: &'static str,
        source: io::Error,
    },
    #[error("failed to set {}", path.display())]
    Setting { path: PathBuf, source: io::Error },
    /// What another process said.
    #[error("failed to {action}: {words}")]
    Words { action: &'static str, words: String },
}

impl Error {
    pub(super) fn system(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    fn kernel(action: &'static str) -> impl Fn(nix::errno::Errno) -> Self {
        move |errno| Self::System {
            action,
            source: errno.into(),
        }
    }
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;
