//! What is put right now and then: code without an owner, and history that is too old.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::create::owner_reference;
use crate::context::Context;
use crate::names;
use crate::world::Key;

/// How often it is looked.
const INTERVAL: Duration = Duration::from_mins(5);

/// A ConfigMap younger than this may belong to a create that is under way.
const GRACE_SECONDS: i64 = 60;

/// How long the history of a job that is gone is kept.
const KEPT_SECONDS: i64 = 30 * 24 * 3600;

/// Runs until the context stops.
pub(crate) async fn run(context: Arc<Context>) {
    let mut turn = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            _ = turn.tick() => {}
        }
        if let Err(error) = adopt(&context).await {
            tracing::warn!(error = %crate::error::chain(&error), "failed to look after ConfigMaps");
        }
        expire(&context);
    }
}

/// Gives the ConfigMaps that a crash left without an owner to their jobs, or removes them.
async fn adopt(context: &Context) -> Result<(), kube::Error> {
    let all: Api<ConfigMap> = Api::all(context.client.clone());
    let ours = ListParams::default().labels(names::JOB);
    for map in all.list(&ours).await? {
        let Some(job) = map.labels().get(names::JOB).cloned() else {
            continue;
        };
        let namespace = map.namespace().unwrap_or_default();
        let age = map
            .creation_timestamp()
            .map_or(0, |time| context.now().as_second() - time.0.as_second());
        if !map.owner_references().is_empty() || age < GRACE_SECONDS {
            continue;
        }
        let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
        let owner = context
            .world
            .read()
            .jobs
            .get(&Key::new(&namespace, &job))
            .and_then(|job| job.uid());
        if let Some(owner) = owner_reference(&job, owner) {
            let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": [owner] } }));
            maps.patch(&map.name_any(), &PatchParams::default(), &patch)
                .await?;
        } else {
            tracing::info!(
                map = map.name_any(),
                namespace,
                "removing the code of a job that was never made"
            );
            maps.delete(&map.name_any(), &DeleteParams::default())
                .await?;
        }
    }
    Ok(())
}

fn expire(context: &Context) {
    let before = jiff::Timestamp::from_second(context.now().as_second() - KEPT_SECONDS);
    let expired = before.ok().map(|before| context.history.expire(before));
    match expired {
        Some(Ok(jobs)) => jobs.iter().for_each(|uid| context.logbook.remove(uid)),
        Some(Err(error)) => {
            tracing::warn!(error = %crate::error::chain(&error), "failed to forget old jobs");
        }
        None => {}
    }
}
