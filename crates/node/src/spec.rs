//! What a supervisor is told: a pod with every reference resolved.
//!
//! The agent reads ConfigMaps, Secrets, fields and images; here there are only strings, numbers and
//! paths of this machine. So the supervisor needs no API client, and a spec is enough to start the
//! pod again after both it and the agent were killed.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PodSpec {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub hostname: String,
    /// Folder of this pod's logs.
    pub log_dir: PathBuf,
    pub restart_policy: RestartPolicy,
    /// Seconds between SIGTERM and SIGKILL unless the caller says otherwise.
    pub grace_seconds: u64,
    /// Seconds after the start at which the pod is failed.
    pub active_deadline_seconds: Option<u64>,
    pub network: Network,
    /// Limits of all containers together.
    #[serde(default)]
    pub limits: Limits,
    /// In order; those with [`ContainerSpec::sidecar`] keep running beside the containers.
    #[serde(default)]
    pub init_containers: Vec<ContainerSpec>,
    pub containers: Vec<ContainerSpec>,
    /// The file to hold a shared lock on while the pod needs the way out, if it has one.
    #[serde(default)]
    pub egress: Option<PathBuf>,
    /// The folder of the agent's socket for reports of progress, if the pod may report.
    #[serde(default)]
    pub relay: Option<PathBuf>,
    /// Disk space that the pod may use.
    #[serde(default)]
    pub storage: Vec<StorageLimit>,
    /// GPUs that the pod has, by index.
    #[serde(default)]
    pub gpus: Vec<u32>,
}

/// When an ended container is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// How the pod is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// The host's own network.
    Host,
    /// Only a loopback interface.
    None,
    /// An address on the bridge of the pod's Kubernetes namespace.
    Bridge {
        bridge: String,
        address: Ipv4Addr,
        prefix: u8,
        /// The way out, where there is one.
        gateway: Option<Ipv4Addr>,
    },
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub name: String,
    /// The image as the pod names it, and what it turned out to be; for the status.
    #[serde(default)]
    pub image: String,
    #[serde(default)]
    pub image_id: String,
    pub root: Root,
    /// Program and arguments; the program is searched in the container's `PATH`.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
    pub user: u32,
    pub group: u32,
    #[serde(default)]
    pub groups: Vec<u32>,
    /// In the order in which they are made.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    #[serde(default)]
    pub limits: Limits,
    /// An init container that is not waited for and always started again.
    #[serde(default)]
    pub sidecar: bool,
    #[serde(default)]
    pub read_only_root: bool,
    /// Device files beyond the usual ones, e.g. of GPUs.
    #[serde(default)]
    pub devices: Vec<PathBuf>,
    /// Names without `CAP_`, to add to and take from the usual set; `ALL` is understood.
    #[serde(default)]
    pub capabilities_add: Vec<String>,
    #[serde(default)]
    pub capabilities_drop: Vec<String>,
    /// File in the container whose content becomes the termination message.
    pub termination_message_path: Option<PathBuf>,
    /// Take the end of the log when that file is empty and the container failed.
    #[serde(default)]
    pub termination_message_from_logs: bool,
    #[serde(default)]
    pub startup_probe: Option<Probe>,
    #[serde(default)]
    pub readiness_probe: Option<Probe>,
    #[serde(default)]
    pub liveness_probe: Option<Probe>,
    #[serde(default)]
    pub post_start: Option<Handler>,
    #[serde(default)]
    pub pre_stop: Option<Handler>,
    /// What asks it to end instead of SIGTERM; a name with `SIG`.
    #[serde(default)]
    pub stop_signal: Option<String>,
}

/// What a container sees at `/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Root {
    /// Private overlays of the host's system folders, and of some folders in their own place; read-only where the
    /// file system takes no overlay.
    Host { read_only: Vec<PathBuf> },
    /// One overlay over image layers, uppermost first.
    Layers { lower: Vec<PathBuf> },
}

impl Default for Root {
    fn default() -> Self {
        Self::Host {
            read_only: Vec::new(),
        }
    }
}

/// One mount beyond the usual ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mount {
    /// A file or folder of this machine.
    Bind {
        source: PathBuf,
        /// For `hostPath` volumes: where the volume is below `source`, a folder that the administrator
        /// allows. Resolved again for each container, without following a link out of `source`. The
        /// container's user then acts as the owner of the volume, unless that is the machine's root.
        #[serde(default)]
        host: Option<PathBuf>,
        /// Relative path below the volume, resolved without leaving it; made as a folder if missing.
        #[serde(default)]
        sub_path: Option<PathBuf>,
        target: PathBuf,
        #[serde(default)]
        read_only: bool,
    },
    /// A file system in memory. Containers of one pod that name the same `key` share it.
    Memory {
        key: String,
        #[serde(default)]
        sub_path: Option<PathBuf>,
        target: PathBuf,
        size: Option<u64>,
        #[serde(default)]
        read_only: bool,
    },
}

/// What a container may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Thousandths of a CPU that it may use at most.
    pub cpu_limit: Option<u64>,
    /// Thousandths of a CPU that it asked for, its weight when CPUs are short.
    pub cpu_request: Option<u64>,
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// How much disk space some folders may take together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageLimit {
    pub paths: Vec<PathBuf>,
    pub bytes: u64,
    /// What the pod is told when it has more, and is evicted.
    pub message: String,
}

/// A check that is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub handler: Handler,
    pub initial_delay_seconds: u64,
    pub period_seconds: u64,
    pub timeout_seconds: u64,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    /// What a container has to end that fails it, instead of the pod's time.
    #[serde(default)]
    pub grace_seconds: Option<u64>,
}

/// What a probe or a lifecycle hook does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handler {
    /// Run a command in the container; good when it exits with 0.
    Exec { argv: Vec<String> },
    /// Open a connection; good when it is accepted.
    Tcp { host: String, port: u16 },
    /// `GET`; good when the status is from 200 to 399.
    Http {
        host: String,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
    },
    /// Ask a gRPC server about its health; good when the service serves.
    Grpc {
        host: String,
        port: u16,
        service: String,
    },
    /// Wait that many seconds.
    Sleep { seconds: u64 },
}
