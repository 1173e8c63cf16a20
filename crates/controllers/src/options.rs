//! Which controllers run, and how.

use std::sync::Arc;

use astrago_mirror::Mirrors;

use crate::clock::{SharedClock, SystemClock};
use crate::leader::Election;
use crate::report::Metrics;

/// Which controllers run, and how. [`Options::embedded`] runs all of them.
#[derive(Debug, Clone)]
pub struct Options {
    /// TrainJob → JobSet. Off where Kubeflow Trainer runs.
    pub train_jobs: bool,
    /// JobSet → Jobs. Off where the JobSet controller runs.
    pub job_sets: bool,
    /// Job → Pods. Off where kube-controller-manager runs.
    pub jobs: bool,
    /// PyTorchJob, TFJob, … → Pods. Off where the Training Operator v1 runs.
    pub legacy_jobs: bool,
    /// Pods → nodes, quota, volume claims. Off where kube-scheduler runs.
    pub scheduler: bool,
    /// Fails the pods of nodes that are gone, and makes the EndpointSlices of Services. Off where kube-controller-manager runs.
    pub nodes: bool,
    /// Only the holder of this lease works; `None` where nobody else can be there.
    pub election: Option<Election>,
    pub clock: SharedClock,
    pub metrics: Arc<Metrics>,
    /// What the plans of TrainJobs depend on besides the objects.
    pub plan: astrago_plan::Options,
    /// Copies of the objects that others in this process read too; `None` for fresh ones in each term.
    pub mirrors: Option<Mirrors>,
    /// How many objects of a kind are worked on at once.
    pub workers: usize,
}

impl Options {
    /// Everything: for an API server on which no other controllers run.
    pub fn embedded() -> Self {
        Self {
            train_jobs: true,
            job_sets: true,
            jobs: true,
            legacy_jobs: true,
            scheduler: true,
            nodes: true,
            election: None,
            clock: Arc::new(SystemClock),
            metrics: Arc::default(),
            plan: astrago_plan::Options::default(),
            mirrors: None,
            workers: 16,
        }
    }

    /// Nothing that a Kubernetes cluster does by itself: TrainJobs and JobSets only.
    pub fn cluster() -> Self {
        Self {
            jobs: false,
            legacy_jobs: false,
            scheduler: false,
            nodes: false,
            ..Self::embedded()
        }
    }
}
