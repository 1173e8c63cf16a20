//! Where an object is found.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use crate::labels::{JOB_NAME, JOBSET_NAME, LEGACY_JOB_NAME, TRAINING_JOB_NAME};

/// Namespace and name of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// Unique within the namespace and the kind.
    pub name: String,
}

impl ObjectKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object as it stands.
    pub fn of<K: kube::Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The batch Job that a pod says it belongs to.
    pub fn of_batch_job(pod: &Pod) -> Option<Self> {
        Self::by_label(pod, [JOB_NAME, LEGACY_JOB_NAME])
    }

    /// The TrainJob or v1 job that a pod says it belongs to: a JobSet has its TrainJob's name.
    pub fn of_training_job(pod: &Pod) -> Option<Self> {
        Self::by_label(pod, [JOBSET_NAME, TRAINING_JOB_NAME])
    }

    fn by_label(pod: &Pod, names: [&str; 2]) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let job = names.iter().find_map(|name| labels.get(*name))?;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        Some(Self::new(namespace, job.as_str()))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
