//! What a container may see and do.
//!
//! Two user namespaces are involved. In the *setup* namespace the supervisor has all rights over its
//! mounts and networks: it is the machine's own namespace for root, and one made by the agent for an
//! ordinary user. Each container gets a namespace below it, with other user ids, in which it has no
//! right over anything that was set up. So both kinds of node run the same code.
//!
//! Host files keep their owners, which are nobody inside. A container therefore reads of the system
//! folders what everybody may read, and the kernel refuses it the rest (`/etc/shadow` …).

pub(crate) mod capabilities;
pub(crate) mod cgroup;
pub(crate) mod detach;
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod mounts;
pub(crate) mod netlink;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod rootfs;
pub(crate) mod seccomp;
pub(crate) mod terminal;
