//! `<framework>ReplicaSpecs`: the pods of a v1 job, by their type.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Replicas by type, such as Master and Worker. The types are matched without regard to case.
pub type ReplicaSpecs = BTreeMap<String, ReplicaSpec>;

/// The pods of one type.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// How many pods of this type there are. By default 1.
    pub replicas: Option<i32>,

    /// What each of them runs. Its own restart policy is overridden by the one beside it.
    #[serde(default)]
    pub template: PodTemplateSpec,

    /// What happens when one of them ends.
    pub restart_policy: Option<RestartPolicy>,
}

impl ReplicaSpec {
    /// The number of pods, with its default.
    pub fn count(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

/// What happens when a pod of a replica ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RestartPolicy {
    /// It is started again in its place, whatever its exit code.
    Always,
    /// It is started again in its place if it failed.
    OnFailure,
    /// A failure fails the job.
    Never,
    /// An exit code of 128 or more (a signal) makes a new pod; 1 to 127 fails the job.
    ExitCode,
}
