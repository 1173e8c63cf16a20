//! The policies of a JobSet: how it starts, ends, fails, is reached and keeps its data.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// How the pods of the set find each other.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether every pod has a host name of its own below the subdomain.
    #[serde(rename = "enableDNSHostnames")]
    pub enable_dns_hostnames: Option<bool>,

    /// The subdomain, in place of the name of the set; the Service has this name.
    pub subdomain: Option<String>,

    /// Whether pods are found before they are ready.
    pub publish_not_ready_addresses: Option<bool>,
}

/// When the set has succeeded.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// Whether all or any of the targets must succeed.
    pub operator: SuccessPolicyOperator,

    /// The templates that count; all of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// Whether all or any of the targets must succeed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum SuccessPolicyOperator {
    #[default]
    All,
    Any,
}

/// What happens when a Job of the set fails.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How often the set is started again.
    pub max_restarts: Option<i32>,

    /// How the Jobs are replaced when the set is started again.
    #[schemars(extend("default" = "Recreate"))]
    pub restart_strategy: Option<RestartStrategy>,

    /// Rules for particular failures; the first that matches decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FailurePolicyRule>,
}

/// How the Jobs are replaced when the set is started again.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum RestartStrategy {
    #[default]
    Recreate,
    BlockingRecreate,
    InPlaceRestart,
}

/// A rule for particular failures.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicyRule {
    /// The name of the rule; `failurePolicyRule` and its index if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(
        length(max = 128),
        regex(pattern = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$")
    )]
    pub name: String,

    /// What is done.
    pub action: FailurePolicyAction,

    /// Reasons of the Job's failure that the rule is for; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_reasons: Vec<String>,

    /// Regular expressions of the Job's failure message that the rule is for; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_message_patterns: Vec<String>,

    /// The templates that the rule is for; all of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// What is done about a failure.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum FailurePolicyAction {
    FailJobSet,
    #[default]
    RestartJobSet,
    RestartJobSetAndIgnoreMaxRestarts,
    RestartJob,
    RestartJobAndIgnoreMaxRestarts,
}

/// In which order the Jobs start.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartupPolicy {
    /// Whether a template waits until the one before it is ready.
    pub startup_policy_order: StartupPolicyOrder,
}

/// Whether a template waits until the one before it is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum StartupPolicyOrder {
    #[default]
    AnyOrder,
    InOrder,
}

/// The pod that coordinates the others.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coordinator {
    /// The template that it is made of.
    pub replicated_job: String,

    /// The index of its Job.
    pub job_index: Option<i32>,

    /// The index of the pod in its Job.
    pub pod_index: Option<i32>,
}

/// A template that must come first.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DependsOn {
    /// The name of the template.
    pub name: String,
    /// How far its Jobs must be.
    pub status: DependsOnStatus,
}

/// How far the Jobs of a template must be.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum DependsOnStatus {
    Ready,
    #[default]
    Complete,
}

/// Volumes that are claimed for the set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.templates) || self.templates.all(t, !has(t.metadata) || !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
    "message": "namespace cannot be set for VolumeClaimPolicies templates"
}]))]
pub struct VolumeClaimPolicy {
    /// The claims; each is called {template}-{set} and is mounted where a container names the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub templates: Vec<PersistentVolumeClaim>,

    /// What becomes of the claims with the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<RetentionPolicy>,
}

/// What becomes of the claims with the set.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionPolicy {
    /// What becomes of the claims when the set is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Delete"))]
    pub when_deleted: Option<VolumeRetention>,
}

/// What becomes of the claims when the set is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[allow(missing_docs)]
pub enum VolumeRetention {
    #[default]
    Delete,
    Retain,
}
