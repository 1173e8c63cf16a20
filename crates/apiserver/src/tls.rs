//! The server's own certificate authority, and serving over TLS.
//!
//! The authority is made on the first start and kept in the data directory (`ca.crt`, `ca.key`); the
//! serving certificate is made anew on each start, so its names follow the options. Client
//! certificates of the same authority are accepted: common name is the user, organizations the groups.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::certificate;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to write {}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
    #[error("failed to set up the verification of client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("the certificate in {} cannot be read", path.display())]
    Pem {
        path: PathBuf,
        source: rustls_pki_types::pem::Error,
    },
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The certificate authority of one data directory.
pub(crate) struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads the authority from the directory, or makes it.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        if !key_path.exists() || !certificate_path.exists() {
            let key = KeyPair::generate()?;
            let certificate = authority_params().self_signed(&key)?;
            write_private(&key_path, &key.serialize_pem())?;
            write_private(&certificate_path, &certificate.pem())?;
        }
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })
        };
        let (pem, key) = (read(&certificate_path)?, read(&key_path)?);
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| Error::Pem {
            path: certificate_path,
            source,
        })?;
        Ok(Self {
            pem,
            der,
            issuer: Issuer::new(authority_params(), KeyPair::from_pem(&key)?),
        })
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate and key, in PEM, for a user.
    pub(crate) fn client_certificate(
        &self,
        user: &str,
        groups: &[&str],
    ) -> Result<(String, String)> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok((
            params.signed_by(&key, &self.issuer)?.pem(),
            key.serialize_pem(),
        ))
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// A secret that only this authority's key makes, for signing tokens.
    pub(crate) fn token_key(&self) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(b"astrago service account tokens\0");
        hash.update(self.issuer.key().serialized_der());
        hash.finalize().into()
    }

    /// A serving certificate and its key, in PEM.
    pub(crate) fn serving_certificate(&self, names: &[String]) -> Result<(String, String)> {
        let (certificate, key) = self.serving(names)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    fn serving(&self, names: &[String]) -> Result<(rcgen::Certificate, KeyPair)> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "astrago");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate, key))
    }

    /// What a listener needs for TLS.
    fn acceptor(&self, names: &[String]) -> Result<TlsAcceptor> {
        let mut all: Vec<String> = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            "::1",
        ]
        .map(str::to_owned)
        .to_vec();
        all.extend(
            names
                .iter()
                .filter(|name| !all.contains(name))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let (certificate, key) = self.serving(&all)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone())?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone(), self.der.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Serves `router` on `listener` until `shutdown`, then lets requests that are under way end.
pub(crate) async fn serve(
    authority: &Authority,
    names: &[String],
    router: Router,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<()> {
    let acceptor = authority.acceptor(names)?;
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let serving =
                    connection(acceptor.clone(), router.clone(), stream, shutdown.clone());
                connections.spawn(serving);
            }
            Err(error) => {
                // Out of file descriptors, mostly: wait for some to be closed.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    let patience = std::time::Duration::from_secs(2);
    let _ = tokio::time::timeout(patience, connections.wait()).await;
    Ok(())
}

async fn connection(
    acceptor: TlsAcceptor,
    router: Router,
    stream: TcpStream,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let handshake =
        tokio::time::timeout(std::time::Duration::from_secs(10), acceptor.accept(stream));
    let Ok(Ok(stream)) = handshake.await else {
        return;
    };
    let identity = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| certificate::identity(chain.first()?));
    let router = match identity {
        Some(identity) => router.layer(axum::Extension(identity)),
        None => router,
    };
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A client that goes away in the middle is no event of ours.
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Deterministic, so that the key alone makes the same issuer again.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "astrago-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// Writes a file that only its owner may read, whole or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let explain = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let draft = path.with_extension("new");
    let _ = std::fs::remove_file(&draft);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(explain)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(explain)?;
    std::fs::rename(&draft, path).map_err(explain)
}

/// The kubeconfig of a user with a bearer token.
pub(crate) fn kubeconfig(
    authority: &Authority,
    server: &str,
    user: &str,
    token: &str,
    namespace: &str,
) -> String {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority.pem());
    // JSON is YAML, and needs no quoting rules of our own.
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "astrago",
        "clusters": [{
            "name": "astrago",
            "cluster": { "server": server, "certificate-authority-data": authority },
        }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{
            "name": "astrago",
            "context": { "cluster": "astrago", "user": user, "namespace": namespace },
        }],
    });
    let mut text = serde_json::to_string_pretty(&config).expect("a tree of text serialises");
    text.push('\n');
    text
}
