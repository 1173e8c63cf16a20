//! The runtime as it was when the job began.
//!
//! A ConfigMap `<job>-runtime-snapshot` keeps it, as Kubeflow Trainer does since v2.3, so that a later change of
//! the runtime, or its deletion, does not reach jobs that exist.

use astrago_api::{ClusterTrainingRuntime, TRAINER_GROUP, TrainJob, TrainingRuntime};
use astrago_mirror::owner_uid;
use astrago_plan::{Runtime, owned_by};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;

use super::{CONTROLLER, Error, Result};
use crate::context::Context;

const KEY: &str = "runtime";

#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// One for all namespaces.
    Cluster(Box<ClusterTrainingRuntime>),
    /// One of the job's namespace.
    Namespace(Box<TrainingRuntime>),
}

impl Source {
    /// What planning needs of it.
    pub(crate) fn view(&self) -> Runtime<'_> {
        match self {
            Self::Cluster(runtime) => Runtime::from(&**runtime),
            Self::Namespace(runtime) => Runtime::from(&**runtime),
        }
    }
}

/// The runtime of `job`: its snapshot, or the runtime itself, of which a snapshot is then made.
pub(crate) async fn load(context: &Context, job: &TrainJob) -> Result<Source> {
    let namespace = job.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced(context.client.clone(), &namespace);
    let name = format!("{}-runtime-snapshot", job.name_any());
    let failed = |source| Error::ReadRuntime {
        name: name.clone(),
        source,
    };
    if let Some(map) = maps.get_opt(&name).await.map_err(failed)? {
        return restore(job, &map);
    }
    let (source, text) = live(context, job, &namespace).await?;
    if job.is_finished() {
        return Ok(source);
    }
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace),
            owner_references: owned_by(job),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_string(), text)].into()),
        ..ConfigMap::default()
    };
    match maps.create(&PostParams::default(), &map).await {
        Ok(_) => {
            context.metrics.wrote(CONTROLLER);
            Ok(source)
        }
        // Somebody else was faster; theirs holds.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            restore(job, &maps.get(&name).await.map_err(failed)?)
        }
        Err(source) => Err(Error::Apply {
            name: format!("ConfigMap {name}"),
            source,
        }),
    }
}

/// The runtime that `job` names, and its text.
async fn live(context: &Context, job: &TrainJob, namespace: &str) -> Result<(Source, String)> {
    let reference = &job.spec.runtime_ref;
    let name = reference.name.clone();
    let unsupported = || Error::UnsupportedRuntime {
        kind: reference.kind().to_string(),
        group: reference.api_group().to_string(),
    };
    if reference.api_group() != TRAINER_GROUP {
        return Err(unsupported());
    }
    let client = context.client.clone();
    let found = match reference.kind() {
        "ClusterTrainingRuntime" => {
            let found = Api::<ClusterTrainingRuntime>::all(client)
                .get_opt(&name)
                .await;
            found.map(|found| {
                found.map(|found| write(&found, |found| Source::Cluster(Box::new(found))))
            })
        }
        "TrainingRuntime" => {
            let found = Api::<TrainingRuntime>::namespaced(client, namespace)
                .get_opt(&name)
                .await;
            found.map(|found| {
                found.map(|found| write(&found, |found| Source::Namespace(Box::new(found))))
            })
        }
        _ => return Err(unsupported()),
    };
    match found {
        Ok(Some(found)) => found,
        Ok(None) => Err(Error::NoRuntime {
            kind: reference.kind().to_string(),
            name,
        }),
        Err(source) => Err(Error::ReadRuntime { name, source }),
    }
}

fn write<K>(runtime: &K, wrap: impl FnOnce(K) -> Source) -> Result<(Source, String)>
where
    K: Resource + Clone + serde::Serialize,
{
    let mut runtime = runtime.clone();
    runtime.meta_mut().managed_fields = None;
    let text = serde_saphyr::to_string(&runtime).map_err(|error| Error::BadSnapshot {
        problem: error.to_string(),
    })?;
    Ok((wrap(runtime), text))
}

/// The runtime in a snapshot, if that is one of this job and of the runtime that it names.
fn restore(job: &TrainJob, map: &ConfigMap) -> Result<Source> {
    let bad = |problem: String| Error::BadSnapshot { problem };
    if owner_uid(map) != job.metadata.uid {
        return Err(bad(format!(
            "ConfigMap {} does not belong to this TrainJob",
            map.name_any()
        )));
    }
    let text = map.data.as_ref().and_then(|data| data.get(KEY));
    let text = text.ok_or_else(|| bad(format!("ConfigMap {} has no key {KEY}", map.name_any())))?;
    let value: Value = serde_saphyr::from_str(text).map_err(|error| bad(error.to_string()))?;
    let reference = &job.spec.runtime_ref;
    let named = value["metadata"]["name"].as_str().unwrap_or_default();
    let kind = value["kind"].as_str().unwrap_or_default();
    if named != reference.name || kind != reference.kind() {
        return Err(bad(format!(
            "it holds {kind} {named}, not {} {}",
            reference.kind(),
            reference.name
        )));
    }
    let source = if kind == "ClusterTrainingRuntime" {
        serde_json::from_value(value).map(|runtime| Source::Cluster(Box::new(runtime)))
    } else {
        serde_json::from_value(value).map(|runtime| Source::Namespace(Box::new(runtime)))
    };
    source.map_err(|error| bad(error.to_string()))
}
