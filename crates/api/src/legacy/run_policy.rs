//! `runPolicy`: how a v1 job is run and cleaned up.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// How a job is run and cleaned up.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPolicy {
    /// Which pods are removed when the job has finished. By default none.
    pub clean_pod_policy: Option<CleanPodPolicy>,

    /// How many seconds after its end the job is deleted. By default never.
    pub ttl_seconds_after_finished: Option<i32>,

    /// How many seconds the job may run, counted from its start, before it is failed.
    pub active_deadline_seconds: Option<i64>,

    /// How many restarts of its replicas the job may take before it is failed.
    pub backoff_limit: Option<i32>,

    /// Whether the job is held: its pods are removed and come back when this is false again.
    #[schemars(extend("default" = false))]
    pub suspend: Option<bool>,

    /// The controller that is in charge of this job. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "self in ['kubeflow.org/training-operator', 'kueue.x-k8s.io/multikueue']",
            "message": "spec.runPolicy.managedBy must be either kubeflow.org/training-operator or kueue.x-k8s.io/multikueue"
        },
        {"rule": "self == oldSelf", "message": "spec.runPolicy.managedBy is immutable"}
    ]))]
    pub managed_by: Option<String>,

    /// How the job's pods are scheduled together.
    pub scheduling_policy: Option<SchedulingPolicy>,
}

/// Which pods are removed when a job has finished.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CleanPodPolicy {
    /// All of them stay.
    #[default]
    None,
    /// Those that still run.
    Running,
    /// All of them.
    All,
}

/// How a job's pods are scheduled together.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// How many pods must start together; by default all.
    pub min_available: Option<i32>,
    /// The queue that the job waits in.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "spec.runPolicy.schedulingPolicy.queue is immutable"}
    ]))]
    pub queue: Option<String>,
    /// What must be free before the job starts; by default what its pods ask for.
    pub min_resources: Option<BTreeMap<String, Quantity>>,
    /// The priority class of the job.
    pub priority_class: Option<String>,
    /// How long the job may wait for its place.
    pub schedule_timeout_seconds: Option<i32>,
}
