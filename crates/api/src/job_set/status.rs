//! `status` of a JobSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a JobSet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetStatus {
    /// The conditions Suspended, Completed, Failed and those of the start-up order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// How often the set was started again.
    #[serde(default)]
    pub restarts: i32,

    /// How many of these count towards the highest number of restarts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts_count_towards_max: i32,

    /// Completed or Failed, once the set ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_state: Option<String>,

    /// The Jobs, counted per template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs_status: Vec<ReplicatedJobStatus>,
}

/// The Jobs of one template, counted by their state.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJobStatus {
    /// The name of the template.
    pub name: String,
    /// Jobs whose pods are all ready or succeeded.
    pub ready: i32,
    /// Jobs that completed.
    pub succeeded: i32,
    /// Jobs that failed.
    pub failed: i32,
    /// Jobs with at least one pod that runs or waits.
    pub active: i32,
    /// Jobs that are held.
    pub suspended: i32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &i32) -> bool {
    *count == 0
}
