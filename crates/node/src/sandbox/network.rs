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
use std::os::fd::{AsFd, BorrowedFd};

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};

use super::netlink::Netlink;
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
    let failed = |source| Error::Bridge {
        bridge: bridge.clone(),
        source,
    };
    outside.add_bridge(bridge).map_err(failed)?;
    let index = if_nametoindex(bridge.as_str()).map_err(|errno| failed(errno.into()))?;
    if let Some(gateway) = gateway {
        outside
            .add_address(index, *gateway, *prefix)
            .map_err(failed)?;
    }

    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Create(errno.into()))?;
    let mut inside = Netlink::open().map_err(Error::Netlink)?;
    settings();
    let here = File::open("/proc/thread-self/ns/net").map_err(Error::Create)?;
    let name = interface(uid);
    let failed = |source| Error::Attach {
        bridge: bridge.clone(),
        source,
    };
    match outside.add_pair(&name, Some(index), "eth0", here.as_fd()) {
        // Left by a supervisor of this pod that was killed, whose namespace is still being taken down.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let _ = outside.delete(&name);
            outside
                .add_pair(&name, Some(index), "eth0", here.as_fd())
                .map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
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

/// The name of a pod's interface on its bridge; at most 15 bytes.
fn interface(uid: &str) -> String {
    let letters = uid
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(char::from);
    // The beginning of a UID is its random part, whatever its version.
    format!("p{}", letters.take(14).collect::<String>())
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

/// What goes wrong with networks.
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
