//! What an API server needs before jobs can run: our kinds, and the built-in runtimes.
//!
//! Runtimes are the administrator's to change. Each is applied when this program brings a version
//! of it that was not installed before, and only where nobody else has changed the same fields;
//! one that was changed or deleted is left alone. What was installed is remembered in a ConfigMap
//! of the system namespace.

use std::fmt;

use anyhow::{Context, Result, bail};
use astrago_api::ClusterTrainingRuntime;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionStatus,
};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams, Request};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::definitions::{self, Definition};

/// Who we are to server-side apply.
const MANAGER: &str = "astrago";
const SYSTEM_NAMESPACE: &str = "astrago-system";
const RECORD: &str = "installed-runtimes";

/// Where Kubeflow's clients look for the Trainer, and the version whose behaviour ours is.
const TRAINER_NAMESPACE: &str = "kubeflow-system";
const TRAINER_VERSION: &str = "v2.3.0";

/// Installs everything that is missing. Where TrainJobs are not `ours` to run, their kinds and the Trainer's version are
/// for whoever runs them to say.
pub(crate) async fn install(client: &Client, ours: bool) -> Result<()> {
    // What does not need each other is written together: a first start waits for the disk a few times and not fifty.
    tokio::try_join!(
        install_crds(client, ours),
        ensure_namespace(client, SYSTEM_NAMESPACE),
        ensure_namespace(client, "default"),
    )?;
    let publish = async {
        if ours {
            publish_trainer_version(client).await?;
        }
        Ok(())
    };
    tokio::try_join!(install_runtimes(client), publish)?;
    Ok(())
}

async fn install_crds(client: &Client, ours: bool) -> Result<()> {
    let text = definitions::unpack();
    let all = definitions::each(&text).map(|definition| install_crd(client, definition, ours));
    try_join_all(all).await.map(drop)
}

async fn install_crd(client: &Client, definition: Definition<'_>, ours: bool) -> Result<()> {
    let requests = Request::new(CustomResourceDefinition::url_path(&(), None));
    let Definition { name, json } = definition;
    let ours = ours || definition.is_legacy();
    let request = if ours {
        let parameters = PatchParams::apply(MANAGER).force();
        let mut request = requests.patch(name, &parameters, &Patch::Apply(()))?;
        *request.body_mut() = json.into();
        request
    } else {
        requests.create(&PostParams::default(), json.into())?
    };
    match client.request::<Installed>(request).await {
        Ok(installed) => installed.check(name),
        Err(kube::Error::Api(status)) if !ours && status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to install the kind {name}")),
    }
}

/// What is read of the answer: definitions are large, and only we wrote them.
#[derive(Deserialize)]
struct Installed {
    status: CustomResourceDefinitionStatus,
}

impl Installed {
    /// Our server decides with the write whether it serves a kind.
    fn check(self, name: &str) -> Result<()> {
        let conditions = self.status.conditions.unwrap_or_default();
        let established = conditions.iter().find(|one| one.type_ == "Established");
        match established {
            Some(condition) if condition.status == "True" => Ok(()),
            _ => {
                let accepted = conditions.iter().find(|one| one.type_ == "NamesAccepted");
                let reason = accepted.and_then(|one| one.message.clone());
                bail!(
                    "the kind {name} is not served: {}",
                    reason.unwrap_or_default()
                )
            }
        }
    }
}

pub(super) async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to create the namespace {name}")),
    }
}

async fn install_runtimes(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let record = maps
        .get_opt(RECORD)
        .await
        .context("failed to read what is installed")?;
    let installed = record.and_then(|record| record.data).unwrap_or_default();
    let mut missing = Vec::new();
    for runtime in astrago_plan::built_in_runtimes() {
        let (name, digest) = (runtime.name_any(), digest(runtime)?);
        if installed.get(&name) != Some(&digest) {
            missing.push((runtime, name, digest));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let applied = missing
        .iter()
        .map(|(runtime, name, _)| install_runtime(client, runtime, name));
    try_join_all(applied).await?;
    let mut now_installed = installed;
    now_installed.extend(missing.into_iter().map(|(_, name, digest)| (name, digest)));
    let record = ConfigMap {
        metadata: ObjectMeta {
            name: Some(RECORD.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(now_installed),
        ..ConfigMap::default()
    };
    let parameters = PatchParams::apply(MANAGER).force();
    maps.patch(RECORD, &parameters, &Patch::Apply(&record))
        .await
        .context("failed to record what is installed")?;
    Ok(())
}

async fn install_runtime(
    client: &Client,
    runtime: &ClusterTrainingRuntime,
    name: &str,
) -> Result<()> {
    let api: Api<ClusterTrainingRuntime> = Api::all(client.clone());
    let parameters = PatchParams::apply(MANAGER);
    match api.patch(name, &parameters, &Patch::Apply(runtime)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            tracing::info!(
                runtime = name,
                "runtime was changed by an administrator and is left as it is"
            );
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("failed to install the runtime {name}")),
    }
}

/// Tells Kubeflow's clients which Trainer they talk to, as a cluster's Trainer does; they warn
/// where they cannot read it.
async fn publish_trainer_version(client: &Client) -> Result<()> {
    ensure_namespace(client, TRAINER_NAMESPACE).await?;
    let (name, group) = ("kubeflow-trainer-public", "rbac.authorization.k8s.io");
    let map = json!({
        "metadata": { "name": name },
        "data": { "kubeflow_trainer_version": TRAINER_VERSION },
    });
    let role = json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"] }],
    });
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:authenticated" }],
    });
    let read = async {
        publish::<Role>(client, name, role).await?;
        publish::<RoleBinding>(client, name, binding).await
    };
    tokio::try_join!(publish::<ConfigMap>(client, name, map), read)?;
    Ok(())
}

async fn publish<K>(client: &Client, name: &str, object: Value) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)
        .with_context(|| format!("failed to write down the {} {name}", K::kind(&())))?;
    let api: Api<K> = Api::namespaced(client.clone(), TRAINER_NAMESPACE);
    api.patch(
        name,
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(&object),
    )
    .await
    .with_context(|| format!("failed to publish the {} {name}", K::kind(&())))?;
    Ok(())
}

/// What tells one version of a runtime from another.
fn digest(runtime: &ClusterTrainingRuntime) -> Result<String> {
    let bytes = serde_json::to_vec(runtime).context("failed to write down a runtime")?;
    Ok(hex::encode(&Sha256::digest(bytes)[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_runtime_changes_its_digest() {
        let runtime = astrago_plan::built_in_runtime("pytorch-simple").unwrap();
        let mut changed = runtime.clone();
        changed
            .labels_mut()
            .insert("changed".to_owned(), "yes".to_owned());
        assert_ne!(digest(runtime).unwrap(), digest(&changed).unwrap());
    }
}
