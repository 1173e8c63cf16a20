//! The first step: the pods of a Job, and those that a deleted Job of the same name left behind.

use std::sync::Arc;

use astrago_api::ObjectKey;
use astrago_mirror::{job_entry, owner_uid};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::context::Context;

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) own: Vec<Arc<Pod>>,
    /// Pods of an earlier Job of the same name. While one of them runs, its rank is taken.
    pub(crate) strangers: Vec<Arc<Pod>>,
}

/// Looks the pods of `job` up in the mirror.
pub(crate) fn fetch(context: &Context, job: &Job) -> Observed {
    let pods = context.mirrors.pods.find(&job_entry(&ObjectKey::of(job)));
    let (own, strangers) = pods
        .into_iter()
        .partition(|pod| owner_uid(&**pod).as_ref() == job.metadata.uid.as_ref());
    Observed { own, strangers }
}
