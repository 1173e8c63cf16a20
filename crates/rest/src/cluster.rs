//! What the cluster behind us is: whose Trainer it has, which dialect that speaks, what else there is.
//!
//! The definition of TrainJobs says best which fields they have. Where we may not read it, the
//! version that Kubeflow Trainer publishes since v2.2 decides.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{Api, Client};

use crate::form::manifest::Dialect;
use crate::model::ClusterInfo;

const TRAIN_JOBS: &str = "trainjobs.trainer.kubeflow.org";
/// Where Kubeflow Trainer says which version it is.
const PUBLIC_NAMESPACES: [&str; 2] = ["kubeflow-system", "kubeflow"];
const PUBLIC_MAP: &str = "kubeflow-trainer-public";
const PUBLIC_KEY: &str = "kubeflow_trainer_version";

/// What was found out about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub dialect: Dialect,
    /// Whether TrainJobs have our fields. If not, somebody else's controller runs them, and what it
    /// lacks is done from here.
    pub extended: bool,
    /// The version that Kubeflow Trainer publishes, or that it behaves like.
    pub trainer_version: Option<String>,
    pub kubernetes_version: Option<String>,
    /// The API groups that are served.
    pub groups: Vec<String>,
}

impl Default for Cluster {
    /// The embedded engine, before anybody asked it.
    fn default() -> Self {
        Self {
            dialect: Dialect::RuntimePatches,
            extended: true,
            trainer_version: None,
            kubernetes_version: None,
            groups: Vec::new(),
        }
    }
}

impl Cluster {
    /// Asks the API server.
    ///
    /// # Errors
    /// When it does not answer, or has no TrainJobs.
    pub async fn detect(client: &Client) -> Result<Self, DetectError> {
        let groups = client.list_api_groups().await.map_err(DetectError::Ask)?;
        let groups: Vec<String> = groups.groups.into_iter().map(|group| group.name).collect();
        if !groups.iter().any(|group| group == "trainer.kubeflow.org") {
            return Err(DetectError::NoTrainer);
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = match definitions.get(TRAIN_JOBS).await {
            Ok(definition) => Some(definition),
            // Read with rights that do not cover it: the version has to do.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => None,
            Err(error) => return Err(DetectError::Ask(error)),
        };
        let trainer_version = published_version(client).await;
        let kubernetes = client.apiserver_version().await.ok();
        Ok(Self {
            dialect: dialect(definition.as_ref(), trainer_version.as_deref()),
            extended: has_field(definition.as_ref(), "maxRestarts"),
            trainer_version,
            kubernetes_version: kubernetes.map(|version| version.git_version),
            groups,
        })
    }

    /// The version of the definition of TrainJobs; it changes when another Trainer is installed.
    pub(crate) async fn definition_version(client: &Client) -> Option<String> {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = definitions.get_metadata_opt(TRAIN_JOBS).await.ok()??;
        definition.metadata.resource_version
    }

    pub(crate) fn info(&self, connected: bool) -> ClusterInfo {
        let served = |group: &str| self.groups.iter().any(|name| name == group);
        ClusterInfo {
            kubernetes_version: self.kubernetes_version.clone(),
            trainer_version: self.trainer_version.clone(),
            dialect: match self.dialect {
                Dialect::PodTemplateOverrides => "podTemplateOverrides",
                Dialect::RuntimePatches => "runtimePatches",
            }
            .to_owned(),
            astrago_controllers: self.extended,
            training_operator_v1: served("kubeflow.org"),
            kueue: served("kueue.x-k8s.io"),
            volcano: served("scheduling.volcano.sh"),
            metrics: served("metrics.k8s.io"),
            karpenter: served("karpenter.sh"),
            connected,
        }
    }
}

/// Why nothing could be found out.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    #[error("failed to ask the API server what it serves")]
    Ask(#[source] kube::Error),
    #[error("this cluster has no TrainJobs")]
    NoTrainer,
}

async fn published_version(client: &Client) -> Option<String> {
    for namespace in PUBLIC_NAMESPACES {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        if let Ok(Some(map)) = maps.get_opt(PUBLIC_MAP).await {
            return map.data?.remove(PUBLIC_KEY);
        }
    }
    None
}

fn dialect(definition: Option<&CustomResourceDefinition>, version: Option<&str>) -> Dialect {
    if definition.is_some() {
        return if has_field(definition, "runtimePatches") {
            Dialect::RuntimePatches
        } else {
            Dialect::PodTemplateOverrides
        };
    }
    // Only versions that take patches publish themselves.
    match version {
        Some(_) => Dialect::RuntimePatches,
        None => Dialect::PodTemplateOverrides,
    }
}

/// Whether the spec of TrainJobs has a field.
fn has_field(definition: Option<&CustomResourceDefinition>, name: &str) -> bool {
    let versions = definition
        .into_iter()
        .flat_map(|definition| &definition.spec.versions);
    let specs = versions.filter_map(|version| {
        let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        property(schema, "spec")
    });
    specs.into_iter().any(|spec| property(spec, name).is_some())
}

fn property<'a>(schema: &'a JSONSchemaProps, name: &str) -> Option<&'a JSONSchemaProps> {
    schema.properties.as_ref()?.get(name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn definition(field: &str) -> CustomResourceDefinition {
        let object = json!({ "type": "object" });
        serde_json::from_value(json!({
            "metadata": { "name": TRAIN_JOBS },
            "spec": {
                "group": "trainer.kubeflow.org", "scope": "Namespaced",
                "names": { "kind": "TrainJob", "plural": "trainjobs" },
                "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": { "type": "object", "properties": { field: object } } },
                }}}],
            },
        }))
        .unwrap()
    }

    #[rstest]
    #[case::old(Some("podTemplateOverrides"), None, Dialect::PodTemplateOverrides)]
    #[case::new(Some("runtimePatches"), None, Dialect::RuntimePatches)]
    #[case::the_schema_counts(
        Some("podTemplateOverrides"),
        Some("v2.3.0"),
        Dialect::PodTemplateOverrides
    )]
    #[case::by_version(None, Some("v2.2.1"), Dialect::RuntimePatches)]
    #[case::nothing_known(None, None, Dialect::PodTemplateOverrides)]
    fn the_schema_decides_and_then_the_version(
        #[case] field: Option<&str>,
        #[case] version: Option<&str>,
        #[case] want: Dialect,
    ) {
        let definition = field.map(definition);
        assert_eq!(dialect(definition.as_ref(), version), want);
    }

    #[test]
    fn groups_tell_what_there_is() {
        let cluster = Cluster {
            groups: ["kueue.x-k8s.io", "karpenter.sh"].map(str::to_owned).into(),
            ..Cluster::default()
        };
        let info = cluster.info(true);
        assert!(info.kueue && info.karpenter && info.connected);
        assert!(!info.volcano && !info.metrics && !info.training_operator_v1);
    }
}
