//! What agent and launcher say to each other: the path of a pod's folder, with descriptors.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// What the supervisor of a pod is given.
pub(crate) struct Order {
    /// The network namespace that holds the node's bridges.
    pub(crate) bridges: OwnedFd,
    /// Where its own words go.
    pub(crate) log: OwnedFd,
    /// Where it says that it is ready, or why not.
    pub(crate) say: OwnedFd,
}

const DESCRIPTORS: usize = 3;
/// The longest path that the kernel takes.
const PATH_MAX: usize = 4096;

/// Both ends of a line on which messages stay apart.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

pub(super) fn send(socket: &OwnedFd, pod: &Path, order: &Order) -> io::Result<()> {
    let descriptors = [&order.bridges, &order.log, &order.say].map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let part = [IoSlice::new(pod.as_os_str().as_bytes())];
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &part, &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// The next pod; `None` when the agent is gone.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Option<(PathBuf, Order)>> {
    let mut path = vec![0; PATH_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut part = [IoSliceMut::new(&mut path)];
        rustix::net::recvmsg(socket, &mut part, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    path.truncate(received.bytes);
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let mut next = || descriptors.next().ok_or(io::ErrorKind::InvalidData);
    let order = Order {
        bridges: next()?,
        log: next()?,
        say: next()?,
    };
    Ok(Some((PathBuf::from(OsString::from_vec(path)), order)))
}
