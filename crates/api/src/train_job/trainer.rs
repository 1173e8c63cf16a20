//! `spec.trainer`: what every node of the training runs.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::MOST_PODS;

/// What the training nodes run, and on how many nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trainer {
    /// The container image of the training nodes, in place of the runtime's.
    #[schemars(length(max = 500))]
    pub image: Option<String>,

    /// The entry point of the training container, in place of the runtime's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 1_048_576)))]
    pub command: Vec<String>,

    /// The arguments of the entry point, in place of the runtime's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 1_048_576)))]
    pub args: Vec<String>,

    /// Environment variables of the training container. They win over the runtime's by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,

    /// How many nodes train together. Without it the runtime decides.
    #[schemars(range(min = 1, max = MOST_PODS))]
    pub num_nodes: Option<i32>,

    /// The resources of every training node, laid over the runtime's key by key.
    pub resources_per_node: Option<ResourceRequirements>,

    /// How many processes every node starts: a number, or auto (one per GPU, else one per CPU), cpu
    /// (one per CPU) or gpu (one per GPU) for torch.
    #[schemars(
        range(min = 1),
        extend("pattern" = "^(auto|cpu|gpu|[1-9][0-9]*)$")
    )]
    pub num_proc_per_node: Option<IntOrString>,
}
