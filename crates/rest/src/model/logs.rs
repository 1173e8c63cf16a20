//! Logs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One worker's log, as the original API answers it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkerLogs {
    pub trainjob_name: String,
    pub worker: i64,
    pub logs: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub time: Option<Timestamp>,
    pub worker: i64,
    pub text: String,
}

/// The merged log of all workers, in the order of time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLines {
    pub trainjob_name: String,
    pub lines: Vec<LogLine>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SearchResult {
    pub hits: Vec<SearchHit>,
    /// How many lines were read.
    pub searched: usize,
    /// Whether there are more hits than were returned.
    pub truncated: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SearchHit {
    pub worker: i64,
    /// The line's number in that worker's log, from 1.
    pub line: usize,
    pub time: Option<Timestamp>,
    pub text: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
}
