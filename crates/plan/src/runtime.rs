//! A training runtime of either kind, as a plan looks at it.

use std::collections::BTreeMap;

use astrago_api::{ClusterTrainingRuntime, MlPolicy, TrainingRuntime, TrainingRuntimeSpec, labels};

/// A borrowed view of a TrainingRuntime or a ClusterTrainingRuntime.
#[derive(Clone, Copy, Debug)]
pub struct Runtime<'a> {
    pub kind: &'static str,
    pub name: &'a str,
    pub labels: Option<&'a BTreeMap<String, String>>,
    pub spec: &'a TrainingRuntimeSpec,
}

impl<'a> Runtime<'a> {
    /// The framework that the runtime says it is for.
    pub fn framework(&self) -> Option<&'a str> {
        self.label(labels::FRAMEWORK)
    }

    /// Whether the runtime says that it will go away.
    pub fn is_deprecated(&self) -> bool {
        self.label(labels::SUPPORT) == Some("deprecated")
    }

    pub(crate) fn policy(&self) -> Option<&'a MlPolicy> {
        self.spec.ml_policy.as_ref()
    }

    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels?.get(key).map(String::as_str)
    }
}

impl<'a> From<&'a TrainingRuntime> for Runtime<'a> {
    fn from(runtime: &'a TrainingRuntime) -> Self {
        Self {
            kind: "TrainingRuntime",
            name: runtime.metadata.name.as_deref().unwrap_or_default(),
            labels: runtime.metadata.labels.as_ref(),
            spec: &runtime.spec,
        }
    }
}

impl<'a> From<&'a ClusterTrainingRuntime> for Runtime<'a> {
    fn from(runtime: &'a ClusterTrainingRuntime) -> Self {
        Self {
            kind: "ClusterTrainingRuntime",
            name: runtime.metadata.name.as_deref().unwrap_or_default(),
            labels: runtime.metadata.labels.as_ref(),
            spec: &runtime.spec.0,
        }
    }
}
