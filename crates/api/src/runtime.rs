//! Training runtimes: what an administrator offers. One kind for the whole cluster, one for a
//! namespace, with the same specification.

mod policy;

pub use policy::{
    CoschedulingPolicy, EnvInjection, EnvInjectionTarget, FluxPolicy, JaxPolicy, MlPolicy,
    MpiPolicy, NetworkTopology, PodGroupPolicy, TensorFlowPolicy, TorchPolicy, VolcanoPolicy,
    XgboostPolicy,
};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{JobSetSpec, TemplateMetadata};

/// What a runtime brings: how the framework finds its peers, and the template of the JobSet.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "trainer.kubeflow.org",
    version = "v1alpha1",
    kind = "TrainingRuntime",
    plural = "trainingruntimes",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TrainingRuntimeSpec {
    /// How many nodes train by default, and how the framework on them finds its peers.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux), has(self.tensorflow)].filter(x, x).size() <= 1",
        "message": "Only one of the policy can be configured"
    }]))]
    pub ml_policy: Option<MlPolicy>,

    /// How a cluster's scheduler starts the nodes together.
    pub pod_group_policy: Option<PodGroupPolicy>,

    /// The template of the JobSet.
    #[serde(default)]
    pub template: JobSetTemplate,
}

/// The template of a JobSet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetTemplate {
    /// Labels and annotations of the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// Specification of the JobSet.
    #[serde(default)]
    pub spec: JobSetSpec,
}

/// The specification of a ClusterTrainingRuntime: exactly that of a TrainingRuntime.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "trainer.kubeflow.org",
    version = "v1alpha1",
    kind = "ClusterTrainingRuntime",
    plural = "clustertrainingruntimes",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(transparent)]
#[schemars(transparent)]
pub struct ClusterTrainingRuntimeSpec(pub TrainingRuntimeSpec);
