//! What jobs and machines really use, over time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use utoipa::ToSchema;

/// Measurements over time, one series per node of a job, or one for a machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct UsageOverTime {
    /// Seconds between two measurements; old ones are thinned out.
    pub interval_seconds: i64,
    pub series: Vec<UsageSeries>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UsageSeries {
    /// The rank; absent for a machine.
    pub worker: Option<i64>,
    pub points: Vec<UsagePoint>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePoint {
    pub time: Timestamp,
    /// In cores.
    pub cpu: f64,
    /// In bytes.
    pub memory: i64,
    /// How busy the GPUs were, in whole GPUs, where that is measured.
    pub gpu: Option<f64>,
    /// In bytes, where that is measured.
    pub gpu_memory: Option<i64>,
}
