//! The objects that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolumeClaim, Pod, Secret, ServiceAccountTokenProjection,
};
use kube::{Api, Client, ResourceExt};

use super::tokens::{self, Tokens};

/// The data of an object by key.
type Data = BTreeMap<String, Vec<u8>>;

/// The objects that a pod refers to, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    config_maps: BTreeMap<String, Data>,
    secrets: BTreeMap<String, Data>,
    /// The UID of each claim by name.
    claims: BTreeMap<String, String>,
    tokens: BTreeMap<tokens::Kind, String>,
}

impl Objects {
    /// Reads all of them.
    pub(super) async fn fetch(client: &Client, issued: &Tokens, pod: &Pod) -> Result<Self> {
        let namespace = pod.namespace().unwrap_or_default();
        let wanted = Wanted::of(pod);
        let mut found = Self::default();
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        for name in wanted.config_maps {
            if let Some(object) =
                config_maps
                    .get_opt(&name)
                    .await
                    .map_err(|source| Error::Fetch {
                        name: name.clone(),
                        source,
                    })?
            {
                let text = object
                    .data
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(key, value)| (key, value.into_bytes()));
                let binary = object
                    .binary_data
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(key, value)| (key, value.0));
                found.config_maps.insert(name, text.chain(binary).collect());
            }
        }
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        for name in wanted.secrets {
            if let Some(object) = secrets
                .get_opt(&name)
                .await
                .map_err(|source| Error::Fetch {
                    name: name.clone(),
                    source,
                })?
            {
                let data = object
                    .data
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(key, value)| (key, value.0));
                found.secrets.insert(name, data.collect());
            }
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
        for name in wanted.claims {
            let claim = claims.get_opt(&name).await.map_err(|source| Error::Fetch {
                name: name.clone(),
                source,
            })?;
            if let Some(uid) = claim.and_then(|claim| claim.uid()) {
                found.claims.insert(name, uid);
            }
        }
        for kind in wanted.tokens {
            let token = issued
                .get(client, pod, &kind)
                .await
                .map_err(|source| Error::Fetch {
                    name: "a token of the service account".to_owned(),
                    source,
                })?;
            found.tokens.insert(kind, token);
        }
        Ok(found)
    }

    /// The data of a ConfigMap; `None` when it is optional and missing.
    pub(super) fn config_map(&self, name: &str, optional: bool) -> Result<Option<&Data>> {
        pick("ConfigMap", &self.config_maps, name, optional)
    }

    /// The data of a Secret; `None` when it is optional and missing.
    pub(super) fn secret(&self, name: &str, optional: bool) -> Result<Option<&Data>> {
        pick("Secret", &self.secrets, name, optional)
    }

    /// The token that a volume's source asks for.
    pub(super) fn token(&self, source: &ServiceAccountTokenProjection) -> Option<&str> {
        self.tokens.get(&tokens::kind(source)).map(String::as_str)
    }

    /// The UID of a claim.
    pub(super) fn claim(&self, name: &str) -> Result<&str> {
        self.claims
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| Error::Missing {
                kind: "PersistentVolumeClaim",
                name: name.to_owned(),
            })
    }
}

fn pick<'a>(
    kind: &'static str,
    all: &'a BTreeMap<String, Data>,
    name: &str,
    optional: bool,
) -> Result<Option<&'a Data>> {
    match all.get(name) {
        Some(data) => Ok(Some(data)),
        None if optional => Ok(None),
        None => Err(Error::Missing {
            kind,
            name: name.to_owned(),
        }),
    }
}

/// The names of what a pod refers to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
    claims: BTreeSet<String>,
    tokens: BTreeSet<tokens::Kind>,
}

impl Wanted {
    fn of(pod: &Pod) -> Self {
        let mut wanted = Self::default();
        let Some(spec) = &pod.spec else { return wanted };
        for container in spec
            .init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
        {
            wanted.container(container);
        }
        wanted.secrets.extend(
            spec.image_pull_secrets
                .iter()
                .flatten()
                .map(|reference| reference.name.clone()),
        );
        for volume in spec.volumes.iter().flatten() {
            wanted
                .config_maps
                .extend(volume.config_map.as_ref().map(|source| source.name.clone()));
            wanted.secrets.extend(
                volume
                    .secret
                    .as_ref()
                    .and_then(|source| source.secret_name.clone()),
            );
            wanted.claims.extend(
                volume
                    .persistent_volume_claim
                    .as_ref()
                    .map(|source| source.claim_name.clone()),
            );
            for source in volume
                .projected
                .iter()
                .flat_map(|projected| projected.sources.iter().flatten())
            {
                wanted
                    .config_maps
                    .extend(source.config_map.as_ref().map(|source| source.name.clone()));
                wanted
                    .secrets
                    .extend(source.secret.as_ref().map(|source| source.name.clone()));
                wanted
                    .tokens
                    .extend(source.service_account_token.as_ref().map(tokens::kind));
            }
        }
        wanted
    }

    fn container(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            self.config_maps.extend(
                source
                    .config_map_ref
                    .as_ref()
                    .map(|reference| reference.name.clone()),
            );
            self.secrets.extend(
                source
                    .secret_ref
                    .as_ref()
                    .map(|reference| reference.name.clone()),
            );
        }
        for source in container
            .env
            .iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref())
        {
            self.config_maps.extend(
                source
                    .config_map_key_ref
                    .as_ref()
                    .map(|reference| reference.name.clone()),
            );
            self.secrets.extend(
                source
                    .secret_key_ref
                    .as_ref()
                    .map(|reference| reference.name.clone()),
            );
        }
    }
}

/// Why a pod cannot be started as it is written. Most of it can come right by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    #[error("failed to read {name}")]
    Fetch { name: String, source: kube::Error },
    #[error("{kind} \"{name}\" not found")]
    Missing { kind: &'static str, name: String },
    #[error("couldn't find key {key} in {kind} {name}")]
    Key {
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("{path} cannot be referred to")]
    Field { path: String },
    #[error("volume {volume}: {problem}")]
    Volume { volume: String, problem: String },
    #[error("failed to write volume {volume}")]
    WriteVolume {
        volume: String,
        source: std::io::Error,
    },
    #[error("container {container}: {problem}")]
    Container { container: String, problem: String },
    /// A user or group that containers cannot have.
    #[error("{0}")]
    Identity(String),
    #[error("failed to get image {image}")]
    Image {
        image: String,
        source: crate::image::Error,
    },
    #[error("failed to give out GPUs")]
    Gpu(#[from] crate::gpu::Error),
    #[error("the disk of the node's data folder is almost full")]
    DiskPressure,
    #[error("all addresses of the pod network are in use")]
    Addresses,
    #[error("failed to write {what}")]
    Write {
        what: &'static str,
        source: std::io::Error,
    },
    #[error("failed to start the pod")]
    Launch(#[from] crate::launch::Error),
}

impl Error {
    /// What `kubectl get pods` shows.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Image { source, .. } => source.reason(),
            Self::Key { .. }
            | Self::Field { .. }
            | Self::Container { .. }
            | Self::Identity(_)
            | Self::Missing {
                kind: "ConfigMap" | "Secret",
                ..
            } => "CreateContainerConfigError",
            Self::Launch(_) => "CreateContainerError",
            Self::Fetch { .. }
            | Self::Missing { .. }
            | Self::Volume { .. }
            | Self::WriteVolume { .. }
            | Self::Gpu(_)
            | Self::Addresses
            | Self::DiskPressure
            | Self::Write { .. } => "ContainerCreating",
        }
    }

    /// The reason of the event that tells it.
    pub(super) fn event(&self) -> &'static str {
        match self {
            Self::Volume { .. } | Self::WriteVolume { .. } | Self::Missing { .. } => "FailedMount",
            Self::Launch(_) => "FailedCreatePodSandBox",
            Self::Gpu(_) => "UnexpectedAdmissionError",
            Self::DiskPressure => "NodeHasDiskPressure",
            _ => "Failed",
        }
    }
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;
