//! The fourth step: server-side apply of the JobSet and what it needs, or the end of it.

use astrago_api::{JobSet, ObjectKey, TrainJob};
use astrago_mirror::Kind;
use astrago_plan::ssh_auth_secret;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::plan::Plan;
use super::{CONTROLLER, Error, Result, ssh_key};
use crate::context::Context;

/// Kubeflow Trainer's own field manager: on a cluster that changes hands between its controller and ours, each
/// goes on with what the other applied.
const FIELD_MANAGER: &str = "trainer";

pub(crate) async fn apply(context: &Context, job: &TrainJob, plan: &Plan) -> Result<()> {
    let namespace = job.namespace().unwrap_or_default();
    if plan.expired {
        let jobs = Api::<TrainJob>::namespaced(context.client.clone(), &namespace);
        delete(context, &jobs, job, job.resource_version()).await?;
        return Ok(());
    }
    if plan.stop {
        let sets = Api::<JobSet>::namespaced(context.client.clone(), &namespace);
        if let Some(set) = context.mirrors.job_sets.get(&ObjectKey::of(job)) {
            delete(context, &sets, &*set, None).await?;
        }
    }
    let Some(objects) = &plan.objects else {
        return Ok(());
    };
    if let Some(wanted) = &objects.ssh_auth {
        ensure_ssh_key(context, job, &namespace, &wanted.secret_name).await?;
    }
    for map in &objects.config_maps {
        let maps = Api::<ConfigMap>::namespaced(context.client.clone(), &namespace);
        put(context, &maps, map).await?;
    }
    let sets = Api::<JobSet>::namespaced(context.client.clone(), &namespace);
    let set = put(context, &sets, &objects.job_set).await?;
    context.mirrors.job_sets.observe(set);
    Ok(())
}

async fn put<K: Kind + Serialize>(context: &Context, api: &Api<K>, object: &K) -> Result<K> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let name = object.name_any();
    context.metrics.wrote(CONTROLLER);
    api.patch(&name, &parameters, &Patch::Apply(object))
        .await
        .map_err(|source| Error::Apply {
            name: format!("{} {name}", K::kind(&())),
            source,
        })
}

/// Makes the key pair once; a second one would lock the nodes out that have the first.
async fn ensure_ssh_key(
    context: &Context,
    job: &TrainJob,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let secrets = Api::<Secret>::namespaced(context.client.clone(), namespace);
    let failed = |source| Error::Apply {
        name: format!("Secret {name}"),
        source,
    };
    if secrets
        .get_metadata_opt(name)
        .await
        .map_err(failed)?
        .is_some()
    {
        return Ok(());
    }
    let key = ssh_key::generate().map_err(|source| Error::MakeKey { source })?;
    let secret = ssh_auth_secret(job, &key.private, &key.public);
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(_) => {
            context.metrics.wrote(CONTROLLER);
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(source) => Err(failed(source)),
    }
}

async fn delete<K: Kind>(
    context: &Context,
    api: &Api<K>,
    object: &K,
    version: Option<String>,
) -> Result<Option<K>> {
    let deleted = context.delete(CONTROLLER, api, object, version).await;
    deleted.map_err(|source| Error::Delete {
        name: object.name_any(),
        source,
    })
}
