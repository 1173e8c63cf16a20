//! The runtimes of the cluster, and the frameworks that they are for.

use std::collections::BTreeMap;

use astrago_api::{ClusterTrainingRuntime, labels};
use astrago_mirror::Mirrors;
use astrago_plan::Framework;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Error, Result, jobs};
use crate::context::Context;
use crate::form::name;
use crate::identity::Caller;
use crate::model::Runtime;
use crate::names;
use crate::world::Key;

pub(crate) fn list(context: &Context) -> Vec<Runtime> {
    let runtimes = context.world.mirrors.cluster_runtimes.all();
    runtimes.iter().map(|runtime| view(runtime)).collect()
}

pub(crate) fn find(context: &Context, name: &str) -> Result<Runtime> {
    let mirrors = &context.world.mirrors;
    let found = mirrors.cluster_runtimes.get(&Key::new("", name));
    found
        .map(|runtime| view(&runtime))
        .ok_or_else(|| missing(name))
}

/// A runtime as YAML, ready for kubectl.
pub(crate) fn manifest(context: &Context, name: &str) -> Result<String> {
    let mirrors = &context.world.mirrors;
    let found = mirrors.cluster_runtimes.get(&Key::new("", name));
    let runtime = found.ok_or_else(|| missing(name))?;
    jobs::yaml(serde_json::to_value(&*runtime).unwrap_or_default())
}

/// What the runtimes say of their frameworks.
pub(super) fn frameworks(mirrors: &Mirrors) -> Vec<Framework> {
    let runtimes = mirrors.cluster_runtimes.all();
    runtimes
        .iter()
        .map(|runtime| Framework::of(runtime))
        .collect()
}

/// Sets how often jobs of a runtime are restarted; RBAC keeps it to administrators.
pub(crate) async fn set_max_restarts(
    context: &Context,
    caller: &Caller,
    name: &str,
    count: i64,
) -> Result<Runtime> {
    let api: Api<ClusterTrainingRuntime> = Api::all(context.gate.client(caller));
    let patch = json!({ "spec": { "template": { "spec": { "failurePolicy": { "maxRestarts": count } } } } });
    match api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(runtime) => Ok(view(&runtime)),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(missing(name)),
        Err(error) => Err(Error::cluster("change the runtime", error)),
    }
}

/// Makes another runtime like this one, under its own name; RBAC keeps it to administrators.
pub(crate) async fn copy(
    context: &Context,
    caller: &Caller,
    name: &str,
    copy: &str,
) -> Result<Runtime> {
    name::check_subdomain(copy).map_err(|refusal| Error::invalid("name", refusal))?;
    let found = context
        .world
        .mirrors
        .cluster_runtimes
        .get(&Key::new("", name));
    let original = found.ok_or_else(|| missing(name))?;
    let mut made = ClusterTrainingRuntime::new(copy, original.spec.clone());
    made.metadata.labels.clone_from(&original.metadata.labels);
    made.metadata
        .annotations
        .clone_from(&original.metadata.annotations);
    // A framework has one runtime of its own.
    made.annotations_mut().remove(labels::FRAMEWORK_DEFAULT);
    let api: Api<ClusterTrainingRuntime> = Api::all(context.gate.client(caller));
    match api.create(&PostParams::default(), &made).await {
        Ok(runtime) => {
            let view = view(&runtime);
            context.world.mirrors.cluster_runtimes.observe(runtime);
            Ok(view)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Conflict(format!(
            "there is a runtime {copy:?} already"
        ))),
        Err(error) => Err(Error::cluster("make the runtime", error)),
    }
}

fn missing(name: &str) -> Error {
    Error::NotFound {
        kind: "runtime",
        name: name.to_owned(),
        namespace: String::new(),
    }
}

fn view(runtime: &ClusterTrainingRuntime) -> Runtime {
    let framework = Framework::of(runtime);
    let spec = &runtime.spec.0;
    let set = &spec.template.spec;
    let policy = set.failure_policy.as_ref();
    let nodes = spec.ml_policy.as_ref().and_then(|policy| policy.num_nodes);
    Runtime {
        framework: framework.names.first().cloned(),
        title: framework.title,
        imports: framework.imports,
        default: framework.default,
        launcher: framework.launcher,
        torchrun: framework.torch,
        fetches_git: framework.fetches_git,
        name: framework.runtime,
        image: framework.image,
        num_nodes: i64::from(nodes.unwrap_or(1)),
        max_restarts: policy.and_then(|policy| policy.max_restarts).map(i64::from),
        ttl_seconds: set.ttl_seconds_after_finished.map(i64::from),
        jobs: set
            .replicated_jobs
            .iter()
            .map(|job| job.name.clone())
            .collect(),
        deprecated: framework.deprecated,
        descriptions: descriptions(runtime),
    }
}

/// What a runtime says of itself, by language.
fn descriptions(runtime: &ClusterTrainingRuntime) -> BTreeMap<String, String> {
    let said = runtime.annotations().iter().filter_map(|(name, text)| {
        let language = match name.as_str() {
            names::DESCRIPTION => "en",
            other => other.strip_prefix(names::DESCRIPTION_IN)?,
        };
        Some((language.to_owned(), text.clone()))
    });
    said.collect()
}
