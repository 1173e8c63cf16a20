//! Where a container's root file system comes from.
//!
//! Two ways lead to a [`Root`]:
//!
//! - [`Root::host`]: the host's own system folders with the Python environment that was active
//!   when the node started. Nothing is fetched; the sandbox lays a private overlay over them.
//! - [`Images::resolve`]: an OCI image from a registry, as overlay layers in the node's store.

mod blob;
mod config;
mod credentials;
mod digest;
mod guard;
mod host;
mod pull;
mod registry;
mod store;
mod unpack;
mod user;

use std::io;
use std::path::PathBuf;

use oci_client::errors::OciDistributionError;
use serde::{Deserialize, Serialize};

pub use config::Config;
pub use credentials::{Credentials, Error as CredentialsError};
pub(crate) use digest::hex;
pub use host::{Error as HostError, Python};
pub use pull::{Images, Policy, Progress};

/// A root file system, ready to be laid under a container's own writable layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Root {
    pub source: Source,
    /// Overlay's lower directories, **topmost first**, as `lowerdir=` wants them. Empty for the
    /// host, whose system folders the sandbox knows.
    pub lowers: Vec<PathBuf>,
    pub config: Config,
}

/// What a root is made of; the pod's status tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Source {
    Host {
        python: Option<Python>,
    },
    Image {
        reference: String,
        /// Digest of the manifest: the image's identity in the store.
        digest: String,
    },
}

impl Root {
    /// What the pod's status shows as `imageID`.
    pub fn id(&self) -> String {
        match &self.source {
            Source::Host { python: None } => "host".into(),
            Source::Host {
                python: Some(python),
            } => format!("host:python-{}", python.version),
            Source::Image { reference, digest } => {
                let name = reference.split('@').next().unwrap_or(reference);
                let name = match name.rsplit_once(':') {
                    Some((name, tag)) if !tag.contains('/') => name,
                    _ => name,
                };
                format!("{name}@{digest}")
            }
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{image:?} is not a valid image name")]
    Name { image: String },
    #[error("image {image} is not on this machine, and its pull policy is Never")]
    NotPresent { image: String },
    #[error("image {image} does not exist in its registry")]
    NotFound { image: String },
    #[error("the registry does not let this pod have image {image}; check its imagePullSecrets")]
    Unauthorized { image: String },
    #[error("image {image} is not made for {wanted}, only for: {offered}")]
    Platform {
        image: String,
        wanted: String,
        offered: String,
    },
    #[error("image {image} is broken: {what} cannot be used")]
    Invalid { image: String, what: &'static str },
    #[error("image {image} does not fit into the space for images, which is {quota} bytes")]
    Quota { image: String, quota: u64 },
    #[error("failed to talk to the registry of image {image}")]
    Registry {
        image: String,
        source: Box<OciDistributionError>,
    },
    #[error("failed to get the manifest of image {image}")]
    Manifest {
        image: String,
        source: Box<OciDistributionError>,
    },
    #[error("failed to get {digest} of image {image}")]
    Blob {
        image: String,
        digest: String,
        source: blob::Error,
    },
    #[error(
        "image {image} is in a registry on this machine or in a private network; an administrator can allow that with --allow-private-registries"
    )]
    Private { image: String },
    #[error("failed to use the image store")]
    Store(#[source] io::Error),
    #[error("the node is stopping")]
    Interrupted,
}

impl Error {
    /// The reason for which a container waits, in Kubernetes' words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name { .. } => "InvalidImageName",
            Self::NotPresent { .. } => "ErrImageNeverPull",
            Self::NotFound { .. }
            | Self::Unauthorized { .. }
            | Self::Platform { .. }
            | Self::Invalid { .. }
            | Self::Quota { .. }
            | Self::Registry { .. }
            | Self::Manifest { .. }
            | Self::Blob { .. }
            | Self::Private { .. }
            | Self::Store(_)
            | Self::Interrupted => "ErrImagePull",
        }
    }

    /// Trying again without a change cannot help.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Name { .. } | Self::NotPresent { .. } | Self::Private { .. }
        )
    }
}
