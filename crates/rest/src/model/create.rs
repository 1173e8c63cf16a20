//! The create request: what the page, the command line and scripts send, and what cloning a job gives back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use utoipa::ToSchema;

/// A request for a training job, in either form of the API: sizes stand nested in `config` (form A) or flat (form B).
///
/// The schema that is made of this type is also what bodies are held against (`form::typed`): kinds, bounds where
/// both are given, and which fields there are. A string of the format `quantity` may be written as a number.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    #[schema(example = "user123")]
    pub user_id: String,
    #[schema(example = "user-123")]
    pub namespace: String,
    /// A framework that a runtime of `/api/runtimes` is for.
    #[schema(example = "pytorch")]
    pub framework: String,
    /// The text of `train.py`.
    #[schema(example = "print('training')")]
    pub training_code: Option<String>,
    /// The digest of a folder that was uploaded to `/api/snapshots`, instead of `training_code`. It
    /// appears at `/workspace/scripts`, which is also where the command starts.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub snapshot: Option<String>,
    /// The script of the snapshot to start; otherwise `train.py` or `main.py`.
    pub entry: Option<String>,
    /// Where a snapshot comes from, to be shown with the job.
    pub source: Option<Source>,
    pub git_repository: Option<String>,
    pub git_branch: Option<String>,
    /// A branch, tag or full commit, instead of `git_branch`.
    pub git_revision: Option<String>,
    /// How many commits of history; 0 for all, otherwise 1.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub git_depth: Option<i64>,
    /// The Secret for a private repository: `username` and `password` (or a token), or `ssh-privatekey`
    /// and `known_hosts`.
    pub git_secret: Option<String>,
    /// A line for the shell, instead of the command that the server makes of the script, `arguments` and
    /// `nproc_per_node`.
    pub command: Option<String>,
    /// Arguments of the script, each as it stands. Only without `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// How many processes torchrun starts on each node. Only with pytorch, and without `command`.
    #[schema(minimum = 1, maximum = 256)]
    pub nproc_per_node: Option<i64>,
    /// A name of your choice; otherwise `{user_id}-job-{time}`.
    pub name: Option<String>,
    /// A runtime other than the framework's own.
    pub runtime: Option<String>,
    pub image: Option<String>,
    pub config: Option<SizesOfNode>,
    /// At most 1000, unless the administrator has set another limit.
    #[schema(minimum = 1)]
    pub num_nodes: Option<i64>,
    #[schema(format = "quantity")]
    pub cpu_request: Option<String>,
    #[schema(format = "quantity")]
    pub cpu_limit: Option<String>,
    #[schema(format = "quantity")]
    pub memory_request: Option<String>,
    #[schema(format = "quantity")]
    pub memory_limit: Option<String>,
    #[schema(minimum = 0, maximum = 1024)]
    pub gpu_count: Option<i64>,
    /// Cores of a launcher that starts the nodes and does not train, as Horovod has one.
    #[schema(format = "quantity", example = "1")]
    pub launcher_cpu: Option<String>,
    /// Memory of such a launcher.
    #[schema(format = "quantity", example = "2Gi")]
    pub launcher_memory: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_vars: Vec<EnvVar>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeRequest>,
    /// Gives the job a volume that is kept over restarts and removed with the job, and names it to
    /// the code as `CHECKPOINT_DIR`.
    pub checkpoint: Option<bool>,
    /// How large that volume may become; otherwise 10Gi.
    #[schema(format = "quantity", example = "10Gi")]
    pub checkpoint_size: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// How often the whole job may be restarted; otherwise the runtime decides.
    #[schema(minimum = 0, maximum = 1000)]
    pub max_restarts: Option<i64>,
    /// `transient`, as without it: a failure that no further attempt can heal, such as a missing module, ends the job.
    /// `all`: restarts after any failure.
    #[schema(example = "transient")]
    pub retry: Option<String>,
    /// Ends the job as failed after this many seconds.
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub deadline_seconds: Option<i64>,
    /// Deletes the job this many seconds after its end; otherwise the runtime decides.
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Higher goes first in the queue.
    #[schema(minimum = -1_000_000_000, maximum = 1_000_000_000)]
    pub priority: Option<i64>,
    /// The job that this one repeats, as `namespace/name`, to be shown with both.
    #[schema(example = "user-123/first-try")]
    pub origin: Option<String>,
    /// Creates the job without starting it.
    pub suspend: Option<bool>,
}

/// The commit that a folder was taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    #[schema(example = "https://git.example.com/team/project")]
    pub repository: String,
    pub commit: String,
}

/// The sizes of form A; each is request and limit.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SizesOfNode {
    #[schema(minimum = 1, example = 2)]
    pub num_nodes: i64,
    #[schema(minimum = 0, maximum = 1024)]
    pub gpu_per_node: Option<i64>,
    #[schema(format = "quantity", example = "4")]
    pub cpu_per_node: Option<String>,
    #[schema(format = "quantity", example = "16Gi")]
    pub memory_per_node: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvVar {
    pub name: String,
    /// Numbers and booleans are taken as they are written.
    #[serde(default)]
    #[schema(format = "scalar")]
    pub value: String,
}

/// A volume: exactly one of `pvc`, `configMap`, `hostPath` and `memory`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRequest {
    pub name: String,
    /// The name of a PersistentVolumeClaim.
    pub pvc: Option<String>,
    pub config_map: Option<String>,
    /// A folder of the machine, where the administrator allows it.
    pub host_path: Option<String>,
    /// The size of a folder in memory, as `/dev/shm` needs.
    #[schema(format = "quantity")]
    pub memory: Option<String>,
    pub mount_path: String,
    #[serde(default)]
    pub read_only: bool,
}
