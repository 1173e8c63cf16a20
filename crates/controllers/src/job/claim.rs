//! Whose a pod is: a Job takes on pods that its selector names and nobody owns, and lets go those that it names no more.

use astrago_api::ObjectKey;
use astrago_mirror::{job_entry, owner_entry, owner_uid};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::{CONTROLLER, Error, Result};
use crate::context::Context;

/// Brings the owners of pods in line with the selector of `job`.
pub(crate) async fn claim(context: &Context, job: &Job) -> Result<()> {
    let uid = job.uid().unwrap_or_default();
    let mirror = &context.mirrors.pods;
    let released = mirror.find(&owner_entry(&uid)).into_iter();
    for pod in released.filter(|pod| selects(job, pod) == Some(false)) {
        let mut owners = pod.owner_references().to_vec();
        owners.retain(|owner| owner.uid != uid);
        change(context, &pod, &owners).await?;
    }
    let orphans = mirror.find(&job_entry(&ObjectKey::of(job))).into_iter();
    let orphans: Vec<_> = orphans
        .filter(|pod| owner_uid(&**pod).is_none() && pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| selects(job, pod) == Some(true))
        .collect();
    if orphans.is_empty() || !is_alive(context, job).await? {
        return Ok(());
    }
    for pod in orphans {
        let mut owners = pod.owner_references().to_vec();
        owners.extend(job.controller_owner_ref(&()));
        change(context, &pod, &owners).await?;
    }
    Ok(())
}

/// Whether the labels of a pod are those that the Job wants; `None` for selectors of other forms, of which nothing
/// follows.
fn selects(job: &Job, pod: &Pod) -> Option<bool> {
    let selector = job.spec.as_ref()?.selector.as_ref()?;
    let is_plain = selector.match_expressions.iter().flatten().next().is_none();
    let wanted = selector.match_labels.as_ref()?;
    let mut same = wanted
        .iter()
        .map(|(key, value)| pod.labels().get(key) == Some(value));
    (is_plain && !wanted.is_empty()).then(|| same.all(|same| same))
}

/// Asks the server, as the mirror may be behind: a Job that is deleted leaves its pods behind on purpose, and if it took
/// them on again they would go with it.
async fn is_alive(context: &Context, job: &Job) -> Result<bool> {
    let name = job.name_any();
    let namespace = job.namespace().unwrap_or_default();
    let jobs = Api::<Job>::namespaced(context.client.clone(), &namespace);
    let found = jobs.get_opt(&name).await;
    let found = found.map_err(|source| Error::ClaimPod { name, source })?;
    Ok(found
        .is_some_and(|found| found.uid() == job.uid() && found.meta().deletion_timestamp.is_none()))
}

async fn change(context: &Context, pod: &Pod, owners: &[OwnerReference]) -> Result<()> {
    let name = pod.name_any();
    let namespace = pod.namespace().unwrap_or_default();
    let pods = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "metadata": {
        "uid": pod.uid(), "resourceVersion": pod.resource_version(), "ownerReferences": owners,
    } }));
    match pods.patch(&name, &PatchParams::default(), &patch).await {
        // Gone, or changed, which brings us here again.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(Error::ClaimPod { name, source }),
        Ok(changed) => {
            context.metrics.wrote(CONTROLLER);
            context.mirrors.pods.observe(changed);
            Ok(())
        }
    }
}
