//! TLS for the REST API and the page, where they are to be reached from other machines.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::args::Tls;
use crate::exit::Failure;

/// Reads the certificate and its key; `None` if none was named.
pub(crate) fn config(files: &Tls) -> Result<Option<Arc<ServerConfig>>> {
    let (Some(certificate), Some(key)) = (&files.tls_cert, &files.tls_key) else {
        return Ok(None);
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| unreadable("--tls-cert", certificate))?;
    let secret = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable("--tls-key", key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("failed to set up TLS")?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .with_context(|| {
            Failure::theirs(format!(
                "{} and {} do not belong together",
                certificate.display(),
                key.display()
            ))
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

fn unreadable(flag: &str, path: &std::path::Path) -> Failure {
    Failure::theirs(format!("{flag} {} cannot be used", path.display()))
        .hint("it must be a readable PEM file")
}
