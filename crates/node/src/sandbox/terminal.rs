//! Terminals: a pair of descriptors, the near end first.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::unistd::Pid;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::pty::OpenptFlags;

use super::identity::Identity;
use crate::spec::ContainerSpec;

const FLAGS: OpenptFlags = OpenptFlags::RDWR
    .union(OpenptFlags::NOCTTY)
    .union(OpenptFlags::CLOEXEC);
/// The device that makes terminals, in whichever set of them it is opened.
const MULTIPLEXER: (u32, u32) = (5, 2);

pub(crate) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(rustix::pty::openpt(FLAGS)?)
}

/// A terminal in a container's own set, where it has a name, as `tty` and `tmux` want it. `program` is a
/// process of the container; nothing that it planted can lead us elsewhere, or to another device.
pub(crate) fn open_in(container: &ContainerSpec, program: Pid) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(
        format!("/proc/{program}/root"),
        flags | OFlags::DIRECTORY,
        Mode::empty(),
    )?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(root, "dev/pts/ptmx", flags, Mode::empty(), resolve)?;
    // Looked at before it is opened, which for another device could have an effect.
    let stat = rustix::fs::fstat(&found)?;
    let device = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    if !FileType::from_raw_mode(stat.st_mode).is_char_device() || device != MULTIPLEXER {
        return Err(io::Error::other("the container has no terminals"));
    }
    let master = rustix::fs::open(
        format!("/proc/self/fd/{}", found.as_raw_fd()),
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let (master, slave) = pair(master)?;
    let owner = Identity::choose(container).outside(container.user);
    std::os::unix::fs::fchown(&slave, Some(owner), None)?;
    Ok((master, slave))
}

fn pair(master: OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, FLAGS)?;
    Ok((master, slave))
}
