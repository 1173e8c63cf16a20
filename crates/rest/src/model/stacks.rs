//! What the processes of a job are doing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct JobStacks {
    pub workers: Vec<WorkerStacks>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkerStacks {
    #[serde(default)]
    pub worker: i64,
    /// Why nothing is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<StacksProblem>,
    /// The oldest first.
    pub processes: Vec<ProcessStacks>,
    /// There was more than is told.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StacksProblem {
    /// Its container does not run.
    NotRunning,
    /// Its machine is not run by Astrago, and cannot tell.
    Unsupported,
    /// Its machine did not answer, or the answer of all workers would be too large.
    Unavailable,
}

/// A process, with ids as its container has them.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessStacks {
    pub pid: u32,
    pub parent: u32,
    pub command: String,
    /// The letter that `ps` shows: `R`, `S`, `D`, `T` …
    pub state: String,
    pub cpu_milliseconds: u64,
    /// The rank that it trains as; none for launchers, data loaders and the like.
    pub rank: Option<u32>,
    /// The kernel's call that its first thread is in.
    pub system_call: Option<String>,
    /// The function of the kernel that it waits in.
    pub wait_channel: Option<String>,
    /// The version of Python that it runs.
    pub python: Option<String>,
    /// Threads that run Python, the first one of the process first.
    pub threads: Vec<ThreadStack>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThreadStack {
    /// Pythons before 3.11 do not tell.
    pub id: Option<u32>,
    pub name: Option<String>,
    pub state: Option<String>,
    /// The function that runs first, its callers below.
    pub frames: Vec<StackFrame>,
    /// The stack is deeper, or changed while it was read.
    pub truncated: bool,
}

/// A job that runs and makes no progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stall {
    /// When it last showed any sign of progress.
    pub since: Timestamp,
    pub reason: StallReason,
    /// The ranks that the others wait for; empty where that cannot be told.
    pub suspects: Vec<StallPlace>,
    pub others: Vec<StallPlace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StallReason {
    /// A rank is held by a signal, such as SIGSTOP.
    Stopped,
    /// A rank has ended while others wait for it.
    Ended,
    /// A rank is not where the others wait.
    Elsewhere,
    /// All wait, but a rank does so at another place than the others.
    OtherCollective,
    /// It cannot be told who is waited for.
    Unknown,
}

/// Ranks that are at the same line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StallPlace {
    pub ranks: Vec<u32>,
    /// The worker of the first of them.
    pub worker: i64,
    /// The innermost line of the user's own code.
    pub at: Option<StackFrame>,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct StackFrame {
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub function: String,
}
