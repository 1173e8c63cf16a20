//! The first step: what there is of a JobSet.

use std::sync::Arc;

use astrago_api::{JobSet, ObjectKey};
use astrago_mirror::owner_entry;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;

use crate::context::Context;

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) jobs: Vec<Arc<Job>>,
    /// Whether there is a Service of the name that its pods are found under, whoever made it.
    pub(crate) has_service: bool,
}

/// Looks the children of `job_set` up in the mirrors.
pub(crate) fn fetch(context: &Context, job_set: &JobSet) -> Observed {
    let entry = owner_entry(job_set.metadata.uid.as_deref().unwrap_or_default());
    let service = ObjectKey::new(job_set.namespace().unwrap_or_default(), job_set.subdomain());
    Observed {
        jobs: context.mirrors.jobs.find(&entry),
        has_service: context.mirrors.services.get(&service).is_some(),
    }
}
