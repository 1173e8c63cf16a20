//! Whether a failure is worth another attempt. The JobSet's controller restarts; we have read the log.

use astrago_api::{JobSet, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::jobs;
use crate::context::Context;
use crate::logbook::recorder::started;
use crate::view::Job;
use crate::world::Key;

/// Looks at a job of which `pod` has ended and whose log has been read; what it finds goes to the JobSet.
///
/// A verdict against it may rest on any node. One for it waits for the logs of all that have ended: the first may
/// only have lost its peer.
pub(crate) async fn give(context: &Context, key: &Key, pod: &Pod) {
    let Some(job) = Job::find(&context.world.mirrors, key) else {
        return;
    };
    let asked = job.job.annotations().get(labels::RETRY).map(String::as_str);
    let Some(set) = job.job_set.as_ref().filter(|set| !set.is_finished()) else {
        return;
    };
    let Some(attempt) = pod.labels().get(labels::RESTART_ATTEMPT) else {
        return;
    };
    if asked != Some(labels::retry::TRANSIENT) {
        return;
    }
    let Some(failure) = jobs::failure(context, &job) else {
        return;
    };
    let verdict = if failure.permanent {
        json!({ labels::PERMANENT_FAILURE: failure.summary })
    } else if has_read_all(context, &job) {
        json!({ labels::JUDGED_ATTEMPT: attempt })
    } else {
        return;
    };
    let sets: Api<JobSet> = Api::namespaced(context.client.clone(), &key.namespace);
    let patch = Patch::Merge(json!({ "metadata": { "uid": set.uid(), "annotations": verdict } }));
    let written = sets
        .patch_metadata(&key.name, &PatchParams::default(), &patch)
        .await;
    if let Err(error) = written {
        let error = crate::error::chain(&error);
        tracing::warn!(
            namespace = key.namespace,
            job = key.name,
            error,
            "failed to say whether a failure can heal"
        );
    }
}

/// Whether the logs of all pods that have ended were read.
fn has_read_all(context: &Context, job: &Job) -> bool {
    let uid = job.job.uid().unwrap_or_default();
    started(job).iter().all(|(attempt, pod)| {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        phase == Some("Running") || context.logbook.is_complete(&uid, attempt)
    })
}
