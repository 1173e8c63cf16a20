//! A pod's connection to the pods of its Kubernetes namespace.
//!
//! All bridges of a node, one per Kubernetes namespace, live in one network namespace that belongs to
//! nobody but the node. The host has no interface there, so pods see neither the host's addresses nor
//! its loopback, and the host's routes and firewall do not matter. Between bridges nothing is
//! forwarded: pods of two Kubernetes namespaces cannot reach each other. Where there is a way out
//! ([`crate::egress`]), each bridge has the first address of its subnet, and is the pods' gateway.
//!
//! The namespace is kept alive by the descriptors that the agent and every supervisor hold. When the
//! last of them ends, the kernel takes the bridges away; there is nothing to clean up.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::fcntl::{Flock, FlockArg};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};

use super::netlink::Netlink;
use crate::image::hex;
use crate::spec::Network;

/// Moves this process into a new network namespace and connects that as `network` says.
/// `bridges` is the namespace that holds the bridges; `uid` names the pod's end there.
pub(crate) fn enter(bridges: BorrowedFd<'_>, network: &Network, uid: &str) -> Result<()> {
    let Network::Bridge {
        bridge,
        address,
        prefix,
        gateway,
    } = network
    else {
        if *network == Network::None {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Create(errno.into()))?;
            return loopback(&mut Netlink::open().map_err(Error::Netlink)?);
        }
        return Ok(());
    };
    setns(bridges, CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Join(errno.into()))?;
    let mut outside = Netlink::open().map_err(Error::Netlink)?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Create(errno.into()))?;
    let mut inside = Netlink::open().map_err(Error::Netlink)?;
    settings();
    let here = File::open("/proc/thread-self/ns/net").map_err(Error::Create)?;
    let failed = |source| Error::Bridge {
        bridge: bridge.clone(),
        source,
    };
    // Pods of a gang come all at once, and the first of them makes the bridge for all.
    let turn = turn(bridges).map_err(failed)?;
    outside.add_bridge(bridge).map_err(failed)?;
    let index = outside.index(bridge).map_err(failed)?;
    if let Some(gateway) = gateway {
        outside
            .add_address(index, *gateway, *prefix)
            .map_err(failed)?;
    }
    let failed = |source| Error::Attach {
        bridge: bridge.clone(),
        source,
    };
    // A name that is taken is another pod's, or left by a supervisor of this one that was killed and
    // whose namespace is still being taken down.
    let mut names = (0..ATTEMPTS).map(|attempt| interface(uid, attempt));
    loop {
        let Some(name) = names.next() else {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        };
        match outside.add_pair(&name, Some(index), "eth0", here.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => break other.map_err(failed)?,
        }
    }
    drop(turn);
    loopback(&mut inside)?;
    let eth0 = if_nametoindex("eth0").map_err(|errno| failed(errno.into()))?;
    inside
        .add_address(eth0, *address, *prefix)
        .map_err(failed)?;
    inside.set_up(eth0).map_err(failed)?;
    if let Some(gateway) = gateway {
        inside.add_default_route(eth0, *gateway).map_err(failed)?;
    }
    Ok(())
}

/// How many names are tried for an interface.
const ATTEMPTS: u32 = 16;

/// A name for a pod's interface on its bridge; at most 15 bytes. A digest, because the beginning of a
/// UID may be the time at which the pod was made, which others share.
fn interface(uid: &str, attempt: u32) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{uid} {attempt}"));
    format!("p{}", hex(&digest[..7]))
}

/// The right to change the bridges, which one process has at a time.
fn turn(bridges: BorrowedFd<'_>) -> io::Result<Flock<File>> {
    // Opened again: all supervisors share what they were given, and would share its lock.
    let own = File::open(format!("/proc/self/fd/{}", bridges.as_raw_fd()))?;
    Flock::lock(own, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

fn loopback(inside: &mut Netlink) -> Result<()> {
    let index = if_nametoindex("lo").map_err(|errno| Error::Netlink(errno.into()))?;
    inside.set_up(index).map_err(Error::Netlink)
}

/// Low ports are free for all users, `ping` works, and no IPv6 address but the loopback is made:
/// there is no IPv6 network, and addresses without one make programs wait.
fn settings() {
    for (name, value) in [
        ("ipv4/ip_unprivileged_port_start", "0"),
        ("ipv4/ping_group_range", "0 65535"),
        ("ipv6/conf/default/disable_ipv6", "1"),
    ] {
        // Each is a comfort that some kernels do not have.
        let _ = std::fs::write(format!("/proc/sys/net/{name}"), value);
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("failed to create a network namespace")]
    Create(#[source] io::Error),
    #[error("failed to enter the network namespace of the bridges")]
    Join(#[source] io::Error),
    #[error("failed to talk to the kernel about networks")]
    Netlink(#[source] io::Error),
    #[error("failed to create the bridge {bridge}")]
    Bridge { bridge: String, source: io::Error },
    #[error("failed to attach the pod to the bridge {bridge}")]
    Attach { bridge: String, source: io::Error },
}

type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::interface;

    #[test]
    fn pods_of_the_same_moment_have_interfaces_of_their_own() {
        let uids = (0..100).map(|pod| format!("019a8c2f-1b3d-7abc-8def-0123456789{pod:02}"));
        let names: BTreeSet<String> = uids.map(|uid| interface(&uid, 0)).collect();
        assert_eq!(names.len(), 100);
        assert!(names.iter().all(|name| name.len() <= 15), "{names:?}");
        assert_ne!(interface("a", 0), interface("a", 1));
    }
}
