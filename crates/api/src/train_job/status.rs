//! `status` of a TrainJob.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// What is known of a training job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TrainJobStatus {
    /// The conditions Suspended, Complete and Failed, as far as they came up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub conditions: Vec<Condition>,

    /// The child Jobs, counted per job of the runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub jobs_status: Vec<JobStatus>,

    /// What the training code itself last reported of its progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.lastUpdatedTime)",
        "message": "lastUpdatedTime is required when trainerStatus is present"
    }]))]
    pub trainer_status: Option<TrainerStatus>,
}

/// The child Jobs of one job of the runtime, counted by their state.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// The name of the job in the runtime's template.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Jobs whose pods are all ready or succeeded.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Jobs that completed.
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Jobs that failed.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Jobs with at least one pod that runs or waits.
    #[schemars(range(min = 0))]
    pub active: i32,
    /// Jobs that are held.
    #[schemars(range(min = 0))]
    pub suspended: i32,
}

/// What the training code itself reported of its progress.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainerStatus {
    /// How much is done, in percent.
    #[schemars(range(min = 0, max = 100))]
    pub progress_percentage: Option<i32>,

    /// How many seconds are left by the code's own estimate.
    #[schemars(range(min = 0))]
    pub estimated_remaining_seconds: Option<i32>,

    /// The latest value of each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub metrics: Vec<Metric>,

    /// When the code reported.
    pub last_updated_time: Option<Time>,
}

/// The latest value of one metric.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// The name of the metric.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its value, as text.
    #[schemars(length(min = 1, max = 64))]
    pub value: String,
}

/// The body that training code posts to report its progress.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTrainJobStatusRequest {
    /// The report; it replaces the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer_status: Option<TrainerStatus>,
}
