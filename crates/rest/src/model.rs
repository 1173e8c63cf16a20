//! The bodies of requests and answers. Names are in `snake_case`, times in RFC 3339.
//!
//! They live here and not in `api` because they carry their OpenAPI schemas, and because nothing
//! below `rest` may depend on what the product's own API looks like. The command line reads the
//! same types.

mod cause;
mod cluster;
mod create;
mod error;
mod job;
mod logs;
mod metric;
mod people;
mod place;
mod refusal;
mod stacks;
mod usage;
mod webhook;

pub use self::cause::Cause;
pub use self::cluster::ClusterInfo;
pub use self::create::{CreateRequest, EnvVar, SizesOfNode, Source, VolumeRequest};
pub use self::error::{ErrorBody, ErrorDetail, FieldError};
pub use self::job::{
    Amounts, Count, CountUnit, CreateResponse, Deleted, FailedBy, Failure, FailureKind, Headline,
    Interval, JobDetail, JobEvent, JobGroup, JobList, JobNode, JobState, JobStatus, JobSummary,
    Notes, Phase, Preview, PreviewPod, Progress, SnapshotInfo, Timeline, Usage, Waiting,
};
pub use self::logs::{LogAttempt, LogLine, LogLines, LogPage, SearchHit, SearchResult, WorkerLogs};
pub use self::metric::{Metric, MetricPoint, MetricValue, NotFinite};
pub use self::people::{
    Audit, AuditEntry, CreatedToken, CreatedUser, NewToken, NewUser, SignIn, SignInMethods, Token,
    User, WhoAmI,
};
pub use self::place::{
    Claim, ClaimRequest, Fit, FitVerdict, Namespace, NewNamespace, NewRuntime, NodeInfo, Priority,
    Queue, QueueEntry, Quota, Runtime, SecretInfo, SecretRequest,
};
pub(crate) use self::refusal::Refusal;
pub use self::stacks::{
    JobStacks, ProcessStacks, StackFrame, StacksProblem, Stall, StallPlace, StallReason,
    ThreadStack, WorkerStacks,
};
pub use self::usage::{UsageOverTime, UsagePoint, UsageSeries};
pub use self::webhook::{Notification, TestedWebhook, Webhook, WebhookEvent, WebhookRequest};
