//! `spec.podTemplateOverrides`, and the pod fields that overrides and runtime patches may change.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, LocalObjectReference, PodSchedulingGate, PodSecurityContext, SecurityContext,
    Toleration, Volume, VolumeMount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// A change to the pod templates of some jobs of the runtime.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplateOverride {
    /// The jobs of the runtime whose pods change, by name: usually node.
    pub target_jobs: Vec<TargetJob>,

    /// Labels and annotations to add to the pods.
    pub metadata: Option<TemplateMetadata>,

    /// Fields of the pods, merged into the runtime's: lists by name, other values replaced.
    pub spec: Option<PodSpecPatch>,
}

/// A job of the runtime.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetJob {
    /// The name of the job in the runtime's template.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// The part of an object's metadata that a template may carry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels to add; they win by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations to add; they win by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The fields of a pod that a job may change.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpecPatch {
    /// The service account of the pods.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,

    /// Labels that a machine must have to run the pods, such as its instance type or its zone; merged
    /// by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// Affinity of the pods to machines and to other pods.
    pub affinity: Option<Affinity>,

    /// Taints of machines that the pods tolerate; the list replaces the runtime's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub tolerations: Vec<Toleration>,

    /// Volumes of the pods, merged by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub volumes: Vec<Volume>,

    /// Changes to init containers of the runtime, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub init_containers: Vec<ContainerPatch>,

    /// Changes to containers of the runtime, by name; the training container is called node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub containers: Vec<ContainerPatch>,

    /// Conditions that must go away before the pods are scheduled, merged by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub scheduling_gates: Vec<PodSchedulingGate>,

    /// Secrets with the credentials of image registries, merged by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// Security attributes of the pods.
    pub security_context: Option<PodSecurityContext>,

    /// How many seconds the pods have to end after they are told to.
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
}

/// The fields of a container that a job may change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPatch {
    /// The name of the container in the runtime's template.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Environment variables, merged by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,

    /// Where volumes are mounted in the container, merged by mount path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub volume_mounts: Vec<VolumeMount>,

    /// Security attributes of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
}
