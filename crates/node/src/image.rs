//! Where a container's root file system comes from.
//!
//! Two ways lead to a [`Root`]:
//!
//! - [`Root::host`]: the host's own system folders with the Python environment that was active
//!   when the node started. Nothing is fetched; the sandbox lays a private overlay over them.
//! - [`Images::resolve`]: an OCI image from a registry, as overlay layers in the node's store.

mod config;
mod host;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use config::Config;
pub use host::{Error as HostError, Python};

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
