//! Jobs, as lists and pages show them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Cause, Metric, MetricValue, Source, Stall};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreateResponse {
    /// Always `success`; anything else is an error answer.
    #[schema(example = "success")]
    pub status: String,
    #[schema(example = "user123-job-20251105130000")]
    pub trainjob_name: String,
    pub namespace: String,
    pub created_at: Timestamp,
}

/// A folder of code that is stored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotInfo {
    /// The name to give as `snapshot` when creating jobs in this namespace.
    pub digest: String,
    pub namespace: String,
    pub files: usize,
    /// The bytes of all files together.
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    #[schema(example = "success")]
    pub status: String,
    pub trainjob_name: String,
    pub namespace: String,
}

/// Where a job stands.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
pub enum JobState {
    /// Waiting for room, or starting.
    Pending,
    Running,
    /// An attempt failed and the next one has not begun.
    Restarting,
    Suspended,
    Complete,
    Failed,
}

impl JobState {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobStatus {
    pub trainjob_name: String,
    pub state: JobState,
    #[schema(example = "jobset completed successfully")]
    pub message: String,
    pub created_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// A job as it stands in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// `TrainJob`, or a kind of the Training Operator v1 such as `PyTorchJob`.
    #[serde(default = "train_job")]
    #[schema(example = "TrainJob")]
    pub kind: String,
    pub user: Option<String>,
    pub framework: Option<String>,
    /// Empty for a job of the Training Operator v1, which has none.
    pub runtime: String,
    pub state: JobState,
    pub message: String,
    /// The message for programs.
    #[serde(default)]
    pub cause: Cause,
    pub num_nodes: i64,
    /// Nodes whose training container runs now.
    pub nodes_running: i64,
    /// What one node asks for.
    pub per_node: Amounts,
    pub created_at: Timestamp,
    /// When training began for the first time.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// From creation to the end, or until now.
    pub duration_seconds: i64,
    /// Restarts of the whole job and of single containers.
    pub restarts: i64,
    pub progress: Option<Progress>,
    /// Whether it runs and makes no progress, and which rank is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Stall>,
    /// What its people call it by, besides its name.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Why it failed, in short.
    #[serde(default)]
    pub failed_by: Option<FailedBy>,
    /// The metric that most look for first.
    #[serde(default)]
    pub headline: Option<Headline>,
    /// Whether the job only exists in the history any more.
    #[serde(default)]
    pub archived: bool,
}

/// Why a job failed, as far as a list has room for it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FailedBy {
    pub kind: FailureKind,
    pub cause: Cause,
    /// The node that failed first.
    pub worker: Option<i64>,
}

/// The loss, or whatever else a job reports, in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Headline {
    #[schema(example = "loss")]
    pub name: String,
    /// The latest value.
    pub value: MetricValue,
    /// The curve of the first worker from its beginning, in some twenty values.
    pub curve: Vec<f64>,
}

/// What records of the time before there was a choice were of.
fn train_job() -> String {
    "TrainJob".to_owned()
}

/// Amounts of the three things that jobs ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Amounts {
    /// In cores.
    pub cpu: f64,
    /// In bytes.
    pub memory: i64,
    pub gpu: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    pub items: Vec<JobSummary>,
    /// How many there are in all, with these filters.
    pub total: usize,
    /// Give this as `page` to get what follows.
    pub next_page: Option<usize>,
    /// Where a grouping was asked for: how many of them are in each group, in the order of the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<JobGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobGroup {
    /// What its jobs have in common; empty for those that have none.
    pub value: String,
    pub jobs: usize,
}

/// What people write to a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A job in full.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    #[serde(flatten)]
    pub summary: JobSummary,
    pub image: Option<String>,
    pub command: Vec<String>,
    /// How often it may be restarted: as asked for, or as its runtime has it.
    pub max_restarts: Option<i64>,
    /// The digest of the folder that it runs, where it was given one.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The commit that this folder was taken from, as far as whoever sent it said so.
    #[serde(default)]
    pub source: Option<Source>,
    #[serde(default)]
    pub note: Option<String>,
    /// The job that it repeats, as `namespace/name`.
    #[serde(default)]
    pub origin: Option<String>,
    /// The jobs of its namespace that repeat it, as `namespace/name`, the oldest first.
    #[serde(default)]
    pub repeated_as: Vec<String>,
    pub nodes: Vec<JobNode>,
    pub timeline: Timeline,
    pub waiting: Option<Waiting>,
    pub failure: Option<Failure>,
    /// Why the attempt before this one failed, as far as its log tells.
    #[serde(default)]
    pub previous_failure: Option<Failure>,
    pub usage: Usage,
    /// The latest value of each metric.
    pub metrics: Vec<Metric>,
    /// How many values were not kept because the job has too many metrics (more than 100).
    #[serde(default)]
    pub metrics_left_out: u64,
}

/// One node of a job: the pod of one rank.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobNode {
    /// The rank; what `worker` means in the log calls.
    pub worker: i64,
    /// Which of the runtime's jobs it belongs to, `node` or `launcher`.
    pub role: String,
    pub pod: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or a reason such as `CrashLoopBackOff`.
    pub state: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub exit_code: Option<i32>,
    pub restarts: i64,
    /// The machine that runs it.
    pub machine: Option<String>,
    pub address: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// Where the time went, in seconds: together the time from the job's creation to its end, or until now. A phase
/// that never was is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// Before its nodes had a place.
    pub queued_seconds: Option<i64>,
    /// From then until training ran on every node: images, init containers.
    pub starting_seconds: Option<i64>,
    pub training_seconds: Option<i64>,
    /// From the end of an attempt until the next one trained.
    #[serde(default)]
    pub restarting_seconds: Option<i64>,
    #[serde(default)]
    pub suspended_seconds: Option<i64>,
    /// The same in the order in which it happened.
    #[serde(default)]
    pub intervals: Vec<Interval>,
}

/// A time in which a job did one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Interval {
    pub phase: Phase,
    /// The number of the attempt that trains, or trained last; the first is 1.
    pub attempt: i64,
    pub from: Timestamp,
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Queued,
    Starting,
    Training,
    Restarting,
    Suspended,
}

/// Why a job does not run yet.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// Its place in the queue; 1 goes next.
    pub position: Option<i64>,
    pub reason: String,
    /// The reason for programs.
    #[serde(default)]
    pub cause: Cause,
}

/// Why a job failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub kind: FailureKind,
    /// One or two sentences for the person who wrote the code.
    pub summary: String,
    /// The summary for programs.
    #[serde(default)]
    pub cause: Cause,
    /// The node that failed first.
    pub worker: Option<i64>,
    pub exit_code: Option<i32>,
    /// Whether the same code would fail in the same way again: a syntax error, a missing module, wrong arguments.
    #[serde(default)]
    pub permanent: bool,
    /// The log lines that show it.
    pub evidence: Vec<String>,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    OutOfMemory,
    GpuOutOfMemory,
    MissingModule,
    PythonException,
    SyntaxError,
    CollectiveTimeout,
    RendezvousFailed,
    ImagePull,
    GitClone,
    FileNotFound,
    CommandNotFound,
    DiskFull,
    Signal,
    Deadline,
    Configuration,
    NonZeroExit,
}

/// What a job has used so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    pub cpu_core_hours: f64,
    pub memory_gib_hours: f64,
    pub gpu_hours: f64,
}

impl Usage {
    #[must_use]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            cpu_core_hours: self.cpu_core_hours + other.cpu_core_hours,
            memory_gib_hours: self.memory_gib_hours + other.memory_gib_hours,
            gpu_hours: self.gpu_hours + other.gpu_hours,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: f64,
    pub remaining_seconds: Option<i64>,
    /// Such as `epoch 2 of 3, step 120 of 469`.
    pub step: String,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Count>,
}

/// How far a training is in one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    pub unit: CountUnit,
    pub at: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountUnit {
    Epoch,
    Step,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    pub time: Timestamp,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// What it happened to, such as `Pod/demo-node-0-0-x7k2p`.
    pub object: String,
    pub count: i64,
}

/// What a create request would make.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    pub trainjob_name: String,
    /// The objects that the request itself creates.
    #[schema(value_type = Vec<Object>)]
    pub objects: Vec<Value>,
    /// The pods and other objects that the controllers will derive from them.
    #[schema(value_type = Vec<Object>)]
    pub derived: Vec<Value>,
    /// Where each field of the derived objects comes from, by its path.
    pub provenance: BTreeMap<String, String>,
    /// The same as one YAML document stream, ready for `kubectl apply -f -`.
    pub yaml: String,
    /// The pods that come of it, in order.
    pub pods: Vec<PreviewPod>,
}

/// A pod that a request would become.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewPod {
    /// Which of the runtime's jobs it belongs to, `node` or `launcher`.
    pub role: String,
    pub rank: i64,
    pub needs: Amounts,
    /// The pod as YAML, with a comment on every line that says where it comes from. Absent where
    /// it is the same as that of the first pod of the role but for the rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yaml: Option<String>,
}
