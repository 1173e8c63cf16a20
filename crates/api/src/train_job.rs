//! TrainJob: what a user writes.

mod initializer;
mod lifetime;
mod overrides;
mod patches;
mod status;
mod trainer;

pub use initializer::{Initializer, InitializerSource};
pub use lifetime::InvalidAnnotation;
pub use overrides::{
    ContainerPatch, PodSpecPatch, PodTemplateOverride, TargetJob, TemplateMetadata,
};
pub use patches::{
    JobSetSpecPatch, JobSetTemplatePatch, JobSpecPatch, JobTemplatePatch, PodTemplatePatch,
    ReplicatedJobPatch, RuntimePatch, TemplatePatch, TrainingRuntimeSpecPatch,
};
pub use status::{JobStatus, Metric, TrainJobStatus, TrainerStatus, UpdateTrainJobStatusRequest};
pub use trainer::Trainer;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::conditions;

/// The API group of TrainJob and of the runtimes.
pub const TRAINER_GROUP: &str = "trainer.kubeflow.org";
/// The kind of runtime that a TrainJob means when it does not say.
pub const DEFAULT_RUNTIME_KIND: &str = "ClusterTrainingRuntime";
/// The controller that runs a TrainJob unless `spec.managedBy` names another one.
pub const TRAIN_JOB_CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";

/// Specification of a training job: which runtime it uses and what it changes in it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "trainer.kubeflow.org",
    version = "v1alpha1",
    kind = "TrainJob",
    plural = "trainjobs",
    namespaced,
    status = "TrainJobStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.status==\"True\")].type"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
// A rule on an optional field is only asked when the field is there before and after; these two close
// the hole.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.trainer) == has(oldSelf.trainer)",
        "message": "trainer is immutable: it cannot be added or removed"
    },
    {
        "rule": "has(self.initializer) == has(oldSelf.initializer)",
        "message": "initializer is immutable: it cannot be added or removed"
    }
]))]
pub struct TrainJobSpec {
    /// The training runtime that this job starts from. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}]))]
    pub runtime_ref: RuntimeRef,

    /// The jobs that fetch the data set and the model before the training starts.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}]))]
    pub initializer: Option<Initializer>,

    /// What the training nodes run, and on how many nodes.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}]))]
    pub trainer: Option<Trainer>,

    /// Labels for the JobSet of this job. (Kubeflow Trainer up to v2.1; later versions use
    /// runtimePatches.)
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the JobSet of this job. (Kubeflow Trainer up to v2.1; later versions use
    /// runtimePatches.)
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Changes to the pod templates of the runtime, applied in order: a later entry wins over an
    /// earlier one. (Kubeflow Trainer v2.1; later versions use runtimePatches.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub pod_template_overrides: Vec<PodTemplateOverride>,

    /// Changes to the runtime, one entry per manager, applied in order: a later entry wins over an
    /// earlier one. (Kubeflow Trainer v2.2 and later.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub runtime_patches: Vec<RuntimePatch>,

    /// Whether the job is held: its pods are removed and come back when this is false again.
    #[schemars(extend("default" = false))]
    pub suspend: Option<bool>,

    /// How many seconds the job may take, counted from its creation or its last resumption, before
    /// it is failed with the reason DeadlineExceeded. It cannot be changed.
    #[schemars(
        range(min = 1),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}])
    )]
    pub active_deadline_seconds: Option<i64>,

    /// How many seconds after it finished the job is deleted, with its pods and everything else that
    /// belongs to it. The annotation astrago.io/ttl-seconds-after-finished says the same where the
    /// field is not known. Without either, the runtime's own time counts.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,

    /// How often the whole job is started again when one of its nodes fails. The annotation
    /// astrago.io/max-restarts says the same where the field is not known. Without either, the
    /// runtime decides.
    #[schemars(
        range(min = 0),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "field is immutable"}])
    )]
    pub max_restarts: Option<i32>,

    /// The controller that is in charge of this job. It cannot be changed.
    #[schemars(
        length(max = 253),
        extend(
            "default" = "trainer.kubeflow.org/trainjob-controller",
            "x-kubernetes-validations" = [
                {
                    "rule": "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']",
                    "message": "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set"
                },
                {"rule": "self == oldSelf", "message": "field is immutable"}
            ]
        )
    )]
    pub managed_by: Option<String>,
}

/// The training runtime that a job starts from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRef {
    /// The name of the runtime.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// The API group of the runtime.
    #[schemars(length(max = 253), extend("default" = "trainer.kubeflow.org"))]
    pub api_group: Option<String>,

    /// The kind of the runtime: ClusterTrainingRuntime, or TrainingRuntime for one in the namespace
    /// of the job.
    #[schemars(length(max = 253), extend("default" = "ClusterTrainingRuntime"))]
    pub kind: Option<String>,
}

impl RuntimeRef {
    /// A reference to the ClusterTrainingRuntime of this name.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            api_group: None,
            kind: None,
        }
    }

    /// The API group, with its default.
    pub fn api_group(&self) -> &str {
        self.api_group.as_deref().unwrap_or(TRAINER_GROUP)
    }

    /// The kind, with its default.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or(DEFAULT_RUNTIME_KIND)
    }
}

impl TrainJob {
    /// The conditions of the status; none while it has none.
    pub fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }

    /// Whether the user holds the job.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend.unwrap_or(false)
    }

    /// Whether the user holds the job and pods of it are still on their way out.
    pub fn is_suspending(&self) -> bool {
        let mut jobs = self.status.iter().flat_map(|status| &status.jobs_status);
        self.is_suspended() && !self.is_finished() && jobs.any(|job| job.active > 0)
    }

    /// Whether the job reached its end, well or badly. A finished job never runs again.
    pub fn is_finished(&self) -> bool {
        self.is_complete() || self.is_failed()
    }

    /// Whether the job ended well.
    pub fn is_complete(&self) -> bool {
        conditions::is_true(self.conditions(), conditions::train_job::COMPLETE)
    }

    /// Whether the job ended badly.
    pub fn is_failed(&self) -> bool {
        conditions::is_true(self.conditions(), conditions::train_job::FAILED)
    }

    /// Whether our controller is in charge of the job.
    pub fn is_managed_by_us(&self) -> bool {
        self.spec
            .managed_by
            .as_deref()
            .is_none_or(|manager| manager == TRAIN_JOB_CONTROLLER)
    }

    /// How many nodes the job asks for; nothing means that the runtime decides.
    pub fn num_nodes(&self) -> Option<i32> {
        self.spec
            .trainer
            .as_ref()
            .and_then(|trainer| trainer.num_nodes)
    }
}
