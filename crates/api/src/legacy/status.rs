//! `status` of a v1 job.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// What is known of a v1 job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyJobStatus {
    /// What happened to the job, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    /// Its pods, counted by replica type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    /// When the job was first taken up, or last resumed.
    pub start_time: Option<Time>,
    /// When it ended.
    pub completion_time: Option<Time>,
    /// Failed pods whose replacement is counted in `replicaStatuses` and that are not gone yet, by their uid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_pods: Vec<String>,
    /// When it was last looked at.
    pub last_reconcile_time: Option<Time>,
}

/// One thing that happened to a v1 job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyCondition {
    /// Created, Running, Restarting, Suspended, Succeeded or Failed.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
    /// When the condition was last written.
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// The pods of one replica type, counted by their state.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Pods that run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active: i32,
    /// Pods that succeeded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i32,
    /// How often a pod was made anew, with the restarts of its containers before that. It counts towards
    /// `backoffLimit`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: i32,
    /// Which pods these are, as a label selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &i32) -> bool {
    *count == 0
}
