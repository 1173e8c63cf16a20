//! `spec.runtimePatches`: the way to the same pod fields since Kubeflow Trainer v2.2.
//!
//! The tree mirrors the runtime's own, down to the fields that may be changed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::overrides::{PodSpecPatch, TemplateMetadata};

/// The changes that one manager makes to the runtime.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePatch {
    /// Who makes the changes, as a path with a domain, such as acme.io/scheduler. It cannot be
    /// changed.
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}])
    )]
    pub manager: String,

    /// When the entry last changed; set by the system.
    pub time: Option<Time>,

    /// The changes, in the form of a runtime's specification.
    pub training_runtime_spec: Option<TrainingRuntimeSpecPatch>,
}

/// Changes to a runtime's specification.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainingRuntimeSpecPatch {
    /// Changes to the JobSet template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<JobSetTemplatePatch>,
}

/// Changes to a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplatePatch<Spec> {
    /// Labels and annotations to add.
    pub metadata: Option<TemplateMetadata>,

    /// Changes to the specification; in that of a pod, lists are merged by name and other values replaced.
    pub spec: Option<Spec>,
}

/// Changes to the JobSet template.
pub type JobSetTemplatePatch = TemplatePatch<JobSetSpecPatch>;
/// Changes to a job's template.
pub type JobTemplatePatch = TemplatePatch<JobSpecPatch>;
/// Changes to a pod template.
pub type PodTemplatePatch = TemplatePatch<PodSpecPatch>;

/// Changes to the JobSet's specification.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetSpecPatch {
    /// Changes to jobs of the runtime, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub replicated_jobs: Vec<ReplicatedJobPatch>,
}

/// Changes to one job of the runtime.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJobPatch {
    /// The name of the job in the runtime's template.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Changes to the job's template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<JobTemplatePatch>,
}

/// Changes to a Job's specification.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpecPatch {
    /// Changes to the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplatePatch>,
}

impl RuntimePatch {
    /// The changes to the JobSet template, if there are any.
    pub fn template(&self) -> Option<&JobSetTemplatePatch> {
        self.training_runtime_spec.as_ref()?.template.as_ref()
    }

    /// The changes to the runtime's jobs; none if the entry has none.
    pub fn replicated_jobs(&self) -> &[ReplicatedJobPatch] {
        self.template()
            .and_then(|template| template.spec.as_ref())
            .map_or(&[], |spec| &spec.replicated_jobs)
    }
}

impl ReplicatedJobPatch {
    /// The changes to the job's pod template, if there are any.
    pub fn pod_template(&self) -> Option<&PodTemplatePatch> {
        self.template.as_ref()?.spec.as_ref()?.template.as_ref()
    }

    /// The changes to the job's pods, if there are any.
    pub fn pod_spec(&self) -> Option<&PodSpecPatch> {
        self.pod_template()?.spec.as_ref()
    }
}
