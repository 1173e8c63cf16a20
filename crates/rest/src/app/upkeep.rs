//! What is put right now and then: code and claims without an owner, and history that is too old.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use astrago_api::TrainingRuntime;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::belongings::owner_reference;
use super::snapshots;
use crate::context::Context;
use crate::names;
use crate::world::Key;

const INTERVAL: Duration = Duration::from_mins(5);

/// An object younger than this may belong to a create that is under way.
pub(super) const GRACE_SECONDS: i64 = 60;

pub(crate) async fn run(context: Arc<Context>) {
    let mut turn = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            _ = turn.tick() => {}
        }
        let maps = adopt::<ConfigMap>(&context).await;
        let claims = adopt::<PersistentVolumeClaim>(&context).await;
        let runtimes = adopt::<TrainingRuntime>(&context).await;
        for error in [maps, claims, runtimes].into_iter().filter_map(Result::err) {
            tracing::warn!(error = %crate::error::chain(&error), "failed to look after what jobs own");
        }
        if let Err(error) = snapshots::adopt(&context).await {
            tracing::warn!(error = %crate::error::chain(&error), "failed to look after the code that jobs share");
        }
        expire(&context);
        snapshots::expire(&context);
    }
}

/// Gives the objects that a crash left without an owner to their jobs, or removes them.
async fn adopt<K>(context: &Context) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let all: Api<K> = Api::all(context.client.clone());
    let ours = ListParams::default().labels(names::JOB);
    for object in all.list(&ours).await? {
        let Some(job) = object.labels().get(names::JOB).cloned() else {
            continue;
        };
        let namespace = object.namespace().unwrap_or_default();
        let age = object
            .creation_timestamp()
            .map_or(0, |time| context.now().as_second() - time.0.as_second());
        if !object.owner_references().is_empty() || age < GRACE_SECONDS {
            continue;
        }
        let (name, kind) = (object.name_any(), K::kind(&()));
        let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
        let jobs = &context.world.mirrors.train_jobs;
        let owner = jobs.get(&Key::new(&namespace, &job));
        let owner = owner.and_then(|job| job.uid());
        if let Some(owner) = owner_reference(&job, owner) {
            let patch = json!({ "metadata": { "uid": object.uid(), "ownerReferences": [owner] } });
            let patch = Patch::Merge(patch);
            unless_gone(api.patch(&name, &PatchParams::default(), &patch).await)?;
        } else {
            tracing::info!(name, namespace, %kind, "removing what was made for a job that never came");
            delete_this(&api, &object).await?;
        }
    }
    Ok(())
}

/// Removes what was made for a job that is deleted now and was never given to it.
pub(super) async fn remove_left<K>(context: &Context, key: &Key) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), &key.namespace);
    let ours = ListParams::default().labels(&format!("{}={}", names::JOB, key.name));
    for object in api.list(&ours).await? {
        if !object.owner_references().is_empty() {
            continue;
        }
        delete_this(&api, &object).await?;
    }
    Ok(())
}

/// Deletes an object, and never another that has its name by now.
pub(super) async fn delete_this<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let this = Preconditions {
        uid: object.uid(),
        ..Preconditions::default()
    };
    let parameters = DeleteParams::default().preconditions(this);
    unless_gone(api.delete(&object.name_any(), &parameters).await)
}

/// What is gone, or is another by now, needs nothing from us.
fn unless_gone<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Forgets what is too old, and then the oldest while there is too much.
pub(crate) fn expire(context: &Context) {
    if let Err(error) = try_expire(context) {
        tracing::warn!(error = %crate::error::chain(&error), "failed to forget old jobs");
    }
}

fn try_expire(context: &Context) -> crate::history::Result<()> {
    let age = i64::try_from(context.retention.age.as_secs()).unwrap_or(i64::MAX);
    let second = context.now().as_second().saturating_sub(age);
    if let Ok(before) = jiff::Timestamp::from_second(second) {
        for uid in context.history.expire(before)? {
            context.logbook.remove(&uid);
        }
    }
    context.history.expire_sessions(context.now())?;
    let mut size = context.logbook.size();
    while size > context.retention.bytes {
        let Some(uid) = context.history.expire_oldest()? else {
            // What is left belongs to jobs that exist.
            return Ok(());
        };
        size = size.saturating_sub(context.logbook.size_of(&uid));
        context.logbook.remove(&uid);
    }
    Ok(())
}
