//! The objects that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolumeClaim, Pod, Secret, ServiceAccountTokenProjection,
};
use kube::{Api, Client, ResourceExt};

use super::tokens::{self, Tokens};

/// The data of an object by key.
type Data = BTreeMap<String, Vec<u8>>;

/// The kinds of objects whose data pods can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The objects that a pod refers to, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    data: BTreeMap<(Kind, String), Data>,
    /// The UID of each claim by name.
    claims: BTreeMap<String, String>,
    tokens: BTreeMap<tokens::Kind, String>,
}

impl Objects {
    /// Reads all of them.
    pub(super) async fn fetch(client: &Client, issued: &Tokens, pod: &Pod) -> Result<Self> {
        let namespace = pod.namespace().unwrap_or_default();
        let wanted = Wanted::of(pod);
        let failed = |name: &str| {
            let name = name.to_owned();
            move |source| Error::Fetch { name, source }
        };
        let mut found = Self::default();
        for (kind, name) in wanted.data {
            let data = read(client, &namespace, kind, &name).await;
            if let Some(data) = data.map_err(failed(&name))? {
                found.data.insert((kind, name), data);
            }
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
        for name in wanted.claims {
            let claim = claims.get_opt(&name).await.map_err(failed(&name))?;
            if let Some(uid) = claim.and_then(|claim| claim.uid()) {
                found.claims.insert(name, uid);
            }
        }
        for kind in wanted.tokens {
            let token = issued.get(client, pod, &kind).await;
            let token = token.map_err(failed("a token of the service account"))?;
            found.tokens.insert(kind, token);
        }
        Ok(found)
    }

    /// The data of an object; `None` when it is optional and missing.
    pub(super) fn data(&self, kind: Kind, name: &str, optional: bool) -> Result<Option<&Data>> {
        match self.data.get(&(kind, name.to_owned())) {
            None if !optional => Err(Error::Missing {
                kind,
                name: name.to_owned(),
            }),
            data => Ok(data),
        }
    }

    /// The token that a volume's source asks for.
    pub(super) fn token(&self, source: &ServiceAccountTokenProjection) -> Option<&str> {
        self.tokens.get(&tokens::kind(source)).map(String::as_str)
    }

    /// The UID of a claim.
    pub(super) fn claim(&self, name: &str) -> Result<&str> {
        let uid = self.claims.get(name).map(String::as_str);
        uid.ok_or_else(|| Error::NoClaim {
            name: name.to_owned(),
        })
    }
}

async fn read(
    client: &Client,
    namespace: &str,
    kind: Kind,
    name: &str,
) -> kube::Result<Option<Data>> {
    let client = client.clone();
    Ok(match kind {
        Kind::ConfigMap => {
            let object = Api::<ConfigMap>::namespaced(client, namespace)
                .get_opt(name)
                .await?;
            object.map(|object| {
                let text = object.data.unwrap_or_default().into_iter();
                let text = text.map(|(key, value)| (key, value.into_bytes()));
                let binary = object.binary_data.unwrap_or_default().into_iter();
                text.chain(binary.map(|(key, value)| (key, value.0)))
                    .collect()
            })
        }
        Kind::Secret => {
            let object = Api::<Secret>::namespaced(client, namespace)
                .get_opt(name)
                .await?;
            object.map(|object| {
                let data = object.data.unwrap_or_default().into_iter();
                data.map(|(key, value)| (key, value.0)).collect()
            })
        }
    })
}

/// The names of what a pod refers to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    data: BTreeSet<(Kind, String)>,
    claims: BTreeSet<String>,
    tokens: BTreeSet<tokens::Kind>,
}

impl Wanted {
    fn of(pod: &Pod) -> Self {
        let mut wanted = Self::default();
        let Some(spec) = &pod.spec else { return wanted };
        let init = spec.init_containers.iter().flatten();
        for container in init.chain(&spec.containers) {
            wanted.container(container);
        }
        for reference in spec.image_pull_secrets.iter().flatten() {
            wanted.want(Kind::Secret, Some(&reference.name));
        }
        for volume in spec.volumes.iter().flatten() {
            wanted.want(
                Kind::ConfigMap,
                volume.config_map.as_ref().map(|it| &it.name),
            );
            let secret = volume.secret.as_ref();
            wanted.want(Kind::Secret, secret.and_then(|it| it.secret_name.as_ref()));
            let claim = volume.persistent_volume_claim.as_ref();
            wanted.claims.extend(claim.map(|it| it.claim_name.clone()));
            let projected = volume.projected.iter();
            for source in projected.flat_map(|it| it.sources.iter().flatten()) {
                wanted.want(
                    Kind::ConfigMap,
                    source.config_map.as_ref().map(|it| &it.name),
                );
                wanted.want(Kind::Secret, source.secret.as_ref().map(|it| &it.name));
                let token = source.service_account_token.as_ref();
                wanted.tokens.extend(token.map(tokens::kind));
            }
        }
        wanted
    }

    fn container(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            self.want(
                Kind::ConfigMap,
                source.config_map_ref.as_ref().map(|it| &it.name),
            );
            self.want(Kind::Secret, source.secret_ref.as_ref().map(|it| &it.name));
        }
        let variables = container.env.iter().flatten();
        for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
            let map = source.config_map_key_ref.as_ref();
            self.want(Kind::ConfigMap, map.map(|it| &it.name));
            self.want(
                Kind::Secret,
                source.secret_key_ref.as_ref().map(|it| &it.name),
            );
        }
    }

    fn want(&mut self, kind: Kind, name: Option<&String>) {
        self.data.extend(name.map(|name| (kind, name.clone())));
    }
}

/// Why a pod cannot be started as it is written. Most of it can come right by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    #[error("failed to read {name}")]
    Fetch { name: String, source: kube::Error },
    #[error("{kind} \"{name}\" not found")]
    Missing { kind: Kind, name: String },
    #[error("PersistentVolumeClaim \"{name}\" not found")]
    NoClaim { name: String },
    #[error("couldn't find key {key} in {kind} {name}")]
    Key {
        kind: Kind,
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
    #[error("failed to look at the Python environment")]
    HostImage(#[source] crate::image::HostError),
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
            | Self::HostImage(_)
            | Self::Missing { .. } => "CreateContainerConfigError",
            Self::Launch(_) => "CreateContainerError",
            Self::Fetch { .. }
            | Self::NoClaim { .. }
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
            Self::Volume { .. }
            | Self::WriteVolume { .. }
            | Self::Missing { .. }
            | Self::NoClaim { .. } => "FailedMount",
            Self::Launch(_) => "FailedCreatePodSandBox",
            Self::Gpu(_) => "UnexpectedAdmissionError",
            Self::DiskPressure => "NodeHasDiskPressure",
            Self::Fetch { .. }
            | Self::Key { .. }
            | Self::Field { .. }
            | Self::Container { .. }
            | Self::Identity(_)
            | Self::Image { .. }
            | Self::HostImage(_)
            | Self::Addresses
            | Self::Write { .. } => "Failed",
        }
    }
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;
