//! Creates and deletes pods. Everything here may be done twice without harm: names make a second
//! creation of the same pod fail, and a deletion names the uid that it means.

use astrago_mirror::owner_uid;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};

use super::plan::Plan;
use super::{CONTROLLER, Error, Result};
use crate::context::Context;

/// The most requests of one Job that are under way at once.
const AT_ONCE: usize = 8;

/// What came of the pods that a plan creates.
#[derive(Debug, Default)]
pub(crate) struct Created {
    /// How many pods could not be created.
    pub(crate) missing: usize,
    pub(crate) error: Option<Error>,
}

/// Creates the pods of `plan`. A failure does not keep the rest from being made, so that the status is right
/// afterwards.
pub(crate) async fn create(context: &Context, job: &Job, plan: &Plan) -> Created {
    let pods = Api::<Pod>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let mut result = Created::default();
    // Collected first: a stream that maps borrowed pods to futures is not `Send` for every lifetime.
    let creations: Vec<_> = plan
        .create
        .iter()
        .map(|pod| create_pod(context, &pods, job, pod))
        .collect();
    let mut creations = stream::iter(creations).buffer_unordered(AT_ONCE);
    while let Some(created) = creations.next().await {
        result.missing += usize::from(created.is_err());
        result.error = result.error.or(created.err());
    }
    result
}

/// Deletes the pods of `plan`, or the Job itself.
pub(crate) async fn delete(context: &Context, job: &Job, plan: &Plan) -> Result<()> {
    let namespace = job.namespace().unwrap_or_default();
    if plan.expired {
        return expire(context, &namespace, job).await;
    }
    let pods = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let deletions: Vec<_> = plan
        .delete
        .iter()
        .map(|pod| delete_pod(context, &pods, pod))
        .collect();
    let mut deletions = stream::iter(deletions).buffer_unordered(AT_ONCE);
    let mut result = Ok(());
    while let Some(deleted) = deletions.next().await {
        result = result.and(deleted);
    }
    result
}

async fn create_pod(context: &Context, pods: &Api<Pod>, job: &Job, pod: &Pod) -> Result<()> {
    let name = pod.name_any();
    let failed = |source| Error::CreatePod {
        name: name.clone(),
        source,
    };
    let known = match pods.create(&PostParams::default(), pod).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            // We made it before, and our mirror is behind or was lost.
            pods.get(&name).await.map_err(failed)?
        }
        created => {
            context.metrics.wrote(CONTROLLER);
            created.map_err(failed)?
        }
    };
    if owner_uid(&known) != job.metadata.uid {
        return Err(Error::NameTaken { name });
    }
    context.mirrors.pods.observe(known);
    Ok(())
}

async fn delete_pod(context: &Context, pods: &Api<Pod>, pod: &Pod) -> Result<()> {
    let name = pod.name_any();
    // A pod that ended meanwhile would be gone at once, and how it ended with it. It is looked at again instead.
    let preconditions = Preconditions {
        uid: pod.uid(),
        resource_version: pod.resource_version(),
    };
    let parameters = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match pods.delete(&name, &parameters).await {
        // Deleted already, replaced by another of the same name, or changed, which brings us here again.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(Error::DeletePod { name, source }),
        Ok(answer) => {
            context.metrics.wrote(CONTROLLER);
            if let Some(deleted) = answer.left() {
                context.mirrors.pods.observe(deleted);
            }
            Ok(())
        }
    }
}

async fn expire(context: &Context, namespace: &str, job: &Job) -> Result<()> {
    let jobs = Api::<Job>::namespaced(context.client.clone(), namespace);
    let deleted = context
        .delete(CONTROLLER, &jobs, job, job.resource_version())
        .await;
    deleted
        .map(|_| ())
        .map_err(|source| Error::DeleteExpired { source })
}
