//! Where things lie below the data folder.
//!
//! ```text
//! pods/<uid>/pod.json            what the supervisor was told
//!            state.json          what became of it, replaced atomically
//!            control.sock        the supervisor's ear
//!            lock                held by the living supervisor alone; names its process
//!            supervisor.log      the supervisor's own words
//!            hosts, resolv.conf, hostname, nsswitch.conf
//!            volumes/<name>/     ConfigMaps, Secrets, emptyDirs …
//!            containers/<name>/  root file system layers of the current attempt
//! volumes/<namespace>/<claim>_<uid>/  persistent volume claims
//! snapshots/<namespace>/<digest>/  folders of code, unpacked
//! logs/<namespace>_<pod>_<uid>/<container>/<attempt>.log
//! skeletons/<name>-<digest>/     folders that every container begins with, shared below the layers of all
//! relay/control.sock             the agent's ear for reports of progress
//! egress/                        the way out of pods: its keeper's lock and words
//! deleted/<namespace>_<claim>_<uid>/  files of claims that were deleted, for a while
//! orphans                        the volumes that have no claim, one path a line
//! quarantine/                    what could be neither read nor removed, for an administrator to look at
//! ```
//! Logs and claims outlive the pod's folder.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDir(PathBuf);

impl PodDir {
    /// The folder of the pod with this UID below the node's data folder.
    pub fn new(data_dir: &Path, uid: &str) -> Self {
        Self(pods(data_dir).join(uid))
    }

    /// A pod folder at a known place.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the pod's folder goes if it cannot be removed.
    pub(crate) fn quarantine(&self) -> PathBuf {
        let data_dir = self.0.parent().and_then(Path::parent);
        quarantine(data_dir.unwrap_or(&self.0))
    }

    /// Where what all containers begin with lies.
    pub(crate) fn skeletons(&self) -> PathBuf {
        let data_dir = self.0.parent().and_then(Path::parent);
        data_dir.unwrap_or(&self.0).join("skeletons")
    }

    /// What the supervisor was told.
    pub fn spec(&self) -> PathBuf {
        self.0.join("pod.json")
    }

    /// What became of the pod.
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub fn control(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// The file whose lock says that a supervisor lives.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// What the supervisor has to say about itself.
    pub fn supervisor_log(&self) -> PathBuf {
        self.0.join("supervisor.log")
    }

    pub fn volume(&self, name: &str) -> PathBuf {
        self.0.join("volumes").join(name)
    }

    /// The folder with one container's writable layers.
    pub fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }
}

/// The folder that holds all pod folders.
pub fn pods(data_dir: &Path) -> PathBuf {
    data_dir.join("pods")
}

/// The folder that holds the folders of all namespaces' persistent volume claims.
pub fn claims(data_dir: &Path) -> PathBuf {
    data_dir.join("volumes")
}

/// The folder of one persistent volume claim. A later claim of the same name is another one, perhaps
/// somebody else's, and must not find its files.
pub fn claim(data_dir: &Path, namespace: &str, claim: &str, uid: &str) -> PathBuf {
    claims(data_dir)
        .join(namespace)
        .join(format!("{claim}_{uid}"))
}

/// Where the files of deleted claims wait for their end.
pub fn deleted(data_dir: &Path) -> PathBuf {
    data_dir.join("deleted")
}

/// The file that lists the volumes without a claim.
pub fn orphans(data_dir: &Path) -> PathBuf {
    data_dir.join("orphans")
}

/// Where things go that can be neither read nor removed.
pub fn quarantine(data_dir: &Path) -> PathBuf {
    data_dir.join("quarantine")
}

/// The folder with the socket at which the agent takes pods' reports.
pub fn relay(data_dir: &Path) -> PathBuf {
    data_dir.join("relay")
}

/// The folder in which agent, supervisors and keeper of the way out meet.
pub fn egress(data_dir: &Path) -> PathBuf {
    data_dir.join("egress")
}

/// The file on which those who need the way out hold a shared lock.
pub(crate) fn egress_users(folder: &Path) -> PathBuf {
    folder.join("users.lock")
}

/// The file whose lock says that a keeper lives.
pub(crate) fn egress_keeper(folder: &Path) -> PathBuf {
    folder.join("keeper.lock")
}

/// The file that tells the keeper where the addresses of Services lead.
pub(crate) fn egress_services(folder: &Path) -> PathBuf {
    folder.join("services.json")
}

/// Prefix length of the addresses of one Kubernetes namespace: a thousand pods.
pub(crate) const SUBNET: u8 = 22;

/// The longest prefix of a network of pods: one subnet for pods and one for the way out.
pub(crate) const LONGEST_PREFIX: u8 = SUBNET - 1;

/// The first address of the last subnet of a network of pods, which no pod gets.
pub(crate) fn last_subnet((network, prefix): (Ipv4Addr, u8)) -> Ipv4Addr {
    let mask = u32::MAX << (32 - u32::from(prefix.clamp(8, LONGEST_PREFIX)));
    Ipv4Addr::from((u32::from(network) | !mask) & (u32::MAX << (32 - u32::from(SUBNET))))
}

/// The folder that holds the folders of all namespaces' unpacked snapshots.
pub fn snapshots(data_dir: &Path) -> PathBuf {
    data_dir.join("snapshots")
}

/// The log folder of one pod.
pub fn pod_logs(data_dir: &Path, namespace: &str, pod: &str, uid: &str) -> PathBuf {
    data_dir
        .join("logs")
        .join(format!("{namespace}_{pod}_{uid}"))
}
