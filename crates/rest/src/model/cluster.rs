//! The cluster behind the API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the cluster is and what it offers.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether one thing is there"
)]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClusterInfo {
    #[schema(example = "v1.37.1")]
    pub kubernetes_version: Option<String>,
    /// The version that Kubeflow Trainer publishes; v2.1 and older publish none.
    pub trainer_version: Option<String>,
    /// How changes to a runtime's pods are written here: `podTemplateOverrides` or `runtimePatches`.
    pub dialect: String,
    /// Whether Astrago's own controllers run the jobs, not Kubeflow Trainer's.
    pub astrago_controllers: bool,
    pub training_operator_v1: bool,
    pub kueue: bool,
    pub volcano: bool,
    pub metrics: bool,
    pub karpenter: bool,
    /// Whether the cluster's state is known as it is now; if not, answers are from before the
    /// connection broke.
    pub connected: bool,
}
