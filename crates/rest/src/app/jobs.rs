//! Reading and changing jobs.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use super::{Error, Result};
use crate::context::Context;
use crate::form::manifest;
use crate::identity::{Access, Caller};
use crate::model::{Deleted, JobStatus};
use crate::view::Job;
use crate::world::Key;
use astrago_api::TrainJob;

/// A job that the caller may see.
pub(crate) async fn find(context: &Context, caller: &Caller, key: &Key) -> Result<Job> {
    context
        .gate
        .demand(caller, &Access::jobs("get", &key.namespace))
        .await?;
    Job::find(&context.world.read(), key).ok_or_else(|| Error::no_job(&key.namespace, &key.name))
}

pub(crate) async fn status(context: &Context, caller: &Caller, key: &Key) -> Result<JobStatus> {
    Ok(find(context, caller, key).await?.status())
}

/// Deletes a job; its pods and its code go with it, the framework's ConfigMap stays.
pub(crate) async fn delete(context: &Context, caller: &Caller, key: &Key) -> Result<Deleted> {
    let client = context.gate.client(caller);
    let jobs: Api<TrainJob> = Api::namespaced(client.clone(), &key.namespace);
    let parameters = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    match jobs.delete(&key.name, &parameters).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(Error::no_job(&key.namespace, &key.name));
        }
        Err(error) => return Err(Error::cluster("delete the TrainJob", error)),
    }
    // Usually the garbage collector is faster; a ConfigMap that lost its owner in a crash is not
    // in its books.
    let maps: Api<ConfigMap> = Api::namespaced(client, &key.namespace);
    let map = manifest::code_config_map_name(&key.name);
    match maps.delete(&map, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(Error::cluster("delete the training code", error)),
    }
    Ok(Deleted {
        status: "success".to_owned(),
        trainjob_name: key.name.clone(),
        namespace: key.namespace.clone(),
    })
}

/// Holds a job or lets it go on.
pub(crate) async fn suspend(
    context: &Context,
    caller: &Caller,
    key: &Key,
    hold: bool,
) -> Result<JobStatus> {
    let job = find(context, caller, key).await?;
    if job.state().is_finished() {
        let done = job.state().as_str();
        return Err(Error::Conflict(format!(
            "job {:?} is over ({done}) and cannot be changed",
            key.name
        )));
    }
    let jobs: Api<TrainJob> = Api::namespaced(context.gate.client(caller), &key.namespace);
    let patch = Patch::Merge(json!({ "spec": { "suspend": hold } }));
    let changed = jobs
        .patch(&key.name, &PatchParams::default(), &patch)
        .await
        .map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => {
                Error::no_job(&key.namespace, &key.name)
            }
            other => Error::cluster("change the TrainJob", other),
        })?;
    Ok(Job {
        job: changed.into(),
        ..job
    }
    .status())
}
