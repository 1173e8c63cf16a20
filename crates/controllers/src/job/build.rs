//! The pod for one place in a Job.

use astrago_api::names;
use astrago_plan::pod_of;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::validate::ValidatedJob;
use crate::fingerprint::suffix;
use crate::pod;

/// A place in a Job that a pod is to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The rank, if pods have one.
    pub(crate) index: Option<i32>,
    /// How many pods were there before.
    pub(crate) attempt: i32,
    /// How many of those failed and count.
    pub(crate) failures: i32,
}

/// The pod of `job` for `slot`. The same place always gives the same name, and another one a different name, so
/// that a place cannot be taken twice.
pub(crate) fn build(job: &ValidatedJob, slot: &Slot) -> Pod {
    let rank = slot
        .index
        .map_or_else(String::new, |index| index.to_string());
    let suffix = suffix(
        &[&job.uid, &rank, &slot.attempt.to_string()],
        names::POD_SUFFIX,
    );
    let mut pod = pod_of(&job.object, slot.index.unwrap_or(0), &suffix);
    if slot.index.is_none() {
        pod.metadata.name = Some(format!("{}-{suffix}", job.object.name_any()));
    }
    let annotations = pod.annotations_mut();
    annotations.insert(pod::ATTEMPT.to_string(), slot.attempt.to_string());
    annotations.insert(pod::FAILURES.to_string(), slot.failures.to_string());
    pod
}
