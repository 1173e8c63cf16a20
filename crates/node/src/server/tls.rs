//! TLS with a certificate that the node makes for itself on every start.
//!
//! The embedded API server knows it by its digest, which the Node object carries. A real API server
//! does not verify it, as it does not verify a kubelet's by default; it sends no token but a certificate
//! of its own, which is verified if the administrator has named its authority.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::{Extension, Router};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::auth::Certified;

#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    pem: String,
    fingerprint: String,
}

impl Certificate {
    /// Makes one for these names and addresses. Clients that show a certificate of `client_ca` need no
    /// token.
    pub fn generate(
        node_name: &str,
        addresses: &[IpAddr],
        client_ca: Option<&Path>,
    ) -> Result<Self> {
        let mut names = vec![node_name.to_owned(), "localhost".to_owned()];
        names.extend(addresses.iter().map(ToString::to_string));
        let key = KeyPair::generate().map_err(Error::Generate)?;
        let certificate = CertificateParams::new(names)
            .and_then(|parameters| parameters.self_signed(&key))
            .map_err(Error::Generate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match client_ca {
            Some(path) => verifier(path, Arc::clone(&provider))?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::Configure)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .map_err(Error::Configure)?;
        // Not HTTP/2: an exec session takes over its connection.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            pem: certificate.pem(),
            fingerprint: crate::image::hex(&Sha256::digest(certificate.der())),
        })
    }

    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }
}

/// Verifies the certificates of clients that have one.
fn verifier(path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>> {
    let read = |source| Error::Authority {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(read)? {
        roots
            .add(certificate.map_err(read)?)
            .map_err(Error::Configure)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(Error::Verifier)
}

pub async fn serve(
    listener: TcpListener,
    certificate: Certificate,
    router: Router,
    cancelled: CancellationToken,
) {
    let known = move |chain: &[CertificateDer<'static>]| match chain {
        [] => router.clone(),
        [..] => router.clone().layer(Extension(Certified)),
    };
    astrago_net::serve(listener, Some(certificate.config), known, cancelled).await;
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to make the node's certificate")]
    Generate(#[source] rcgen::Error),
    #[error("failed to set up TLS")]
    Configure(#[source] rustls::Error),
    #[error("failed to read the authority in {}", path.display())]
    Authority {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("failed to set up the verification of client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}
