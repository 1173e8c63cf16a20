//! What the administrator decides about a node.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::metrics::Collector;

/// How the node is set up; see each field for its default.
#[derive(Clone)]
pub struct Options {
    /// Name of the Node object, by default the machine's host name.
    pub node_name: String,
    /// Where pods, logs, volumes and images live. Created with mode 0700.
    pub data_dir: PathBuf,
    /// The program that is run as `<program> supervise …`; by default this very binary.
    pub supervisor: PathBuf,
    /// Where the root file systems of containers come from.
    pub images: Images,
    /// Interpreter whose environment host-image containers see; `None` takes `python3` on `PATH`.
    pub python: Option<PathBuf>,
    /// Replaces what the node would find, by resource name, e.g. `cpu` to `8`.
    pub capacity: BTreeMap<String, String>,
    /// Labels that the Node carries besides the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// Where the kubelet endpoints listen; port 0 picks a free one.
    pub kubelet_listen: SocketAddr,
    /// The bearer token that callers of the kubelet endpoints must present.
    pub kubelet_token: String,
    /// File with an authority, in PEM, whose certificates are as good as the token. A real API server
    /// identifies itself so; an authority that also signs for users would let them into all pods.
    pub kubelet_client_ca: Option<PathBuf>,
    /// Host folders that pods may mount with `hostPath`; everything else is refused.
    pub host_paths: Vec<PathBuf>,
    /// Users may name images in registries on this machine and in private networks.
    pub private_registries: bool,
    /// Bytes of disk that a pod may take whose containers do not all say how much; `Some(0)` sets no such
    /// limit, `None` takes [`storage_share`] when the pod starts.
    pub pod_storage: Option<u64>,
    /// The folder with the snapshots that pods may mount, each namespace its own; `None` has none.
    pub snapshots: Option<PathBuf>,
    /// The network that pod addresses are taken from, as address and prefix length.
    pub pod_network: (Ipv4Addr, u8),
    /// Give pods a way out; see [`crate::egress`].
    pub egress: bool,
    /// The name servers that pods ask, instead of those of this machine.
    pub resolvers: Vec<Ipv4Addr>,
    /// Knows what pods use, for whoever serves `metrics.k8s.io`; `None` lets the node make its own.
    pub collector: Option<Collector>,
    /// Where pods' reports of progress go; see [`crate::relay`]. `None` leaves pods without that road.
    pub status_relay: Option<crate::relay::Target>,
    /// Told once the node is registered and its endpoints answer.
    pub registered: Arc<Notify>,
    /// Stop all pods when the agent is cancelled, instead of leaving them to the next agent.
    pub stop_pods: bool,
}

/// How much of the disk of this folder a pod may take where nobody says anything: half of what is free,
/// so that no single pod can fill it.
pub fn storage_share(data_dir: &std::path::Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(data_dir).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize) / 2)
}

/// Where root file systems come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// A private overlay of the host's own system folders; the image's name is ignored.
    #[default]
    Host,
    /// Images pulled from OCI registries.
    Pull,
}

impl Options {
    /// The defaults for a node that keeps everything below `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let node_name = nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .map(|name| name.to_lowercase())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned());
        Self {
            node_name,
            data_dir: data_dir.into(),
            supervisor: PathBuf::from("/proc/self/exe"),
            images: Images::default(),
            python: None,
            capacity: BTreeMap::new(),
            labels: BTreeMap::new(),
            kubelet_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            kubelet_token: String::new(),
            kubelet_client_ca: None,
            host_paths: Vec::new(),
            private_registries: false,
            pod_storage: None,
            snapshots: None,
            pod_network: (Ipv4Addr::new(10, 224, 0, 0), 12),
            egress: false,
            resolvers: Vec::new(),
            collector: None,
            status_relay: None,
            registered: Arc::default(),
            stop_pods: false,
        }
    }
}
