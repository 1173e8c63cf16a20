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

/// A part of the merged log of all workers, in the order of time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// The place of the first line: as `before` it reads what comes before.
    pub start: String,
    /// The place behind the last line: as `after`, or as `Last-Event-ID` of the stream, it reads on.
    pub end: String,
    /// Whether nothing comes before.
    pub first: bool,
    /// Whether nothing comes behind, for now.
    pub last: bool,
    /// How many bytes of the log lie before the first line.
    pub start_byte: u64,
    /// How many bytes there are up to the last line.
    pub end_byte: u64,
    pub total_bytes: u64,
}

/// One attempt of a job to run through, of which there is a log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogAttempt {
    /// How many attempts it lies back; 0 is the last one.
    pub back: usize,
    pub workers: Vec<i64>,
    pub started_at: Option<Timestamp>,
    pub bytes: u64,
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
    /// The line's place in the log: as `around` it reads the page that the line is in.
    pub place: String,
    pub time: Option<Timestamp>,
    pub text: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
}
