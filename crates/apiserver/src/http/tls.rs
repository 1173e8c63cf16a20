//! The server's own certificate authority, and serving over TLS.
//!
//! The authority is made on the first start and kept in the data directory (`ca.crt`, `ca.key`); the
//! serving certificate is made on each start, so its names follow the options. Client
//! certificates of the same authority are accepted: common name is the user, organizations the groups.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The certificate authority of one data directory.
pub(crate) struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads the authority from the directory, or makes it. A damaged certificate is made again from its key; a damaged key
    /// is kept aside, and with a new one there is a new authority.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        let read = |path: &Path| match std::fs::read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read {
                path: path.to_owned(),
                source,
            }),
        };
        let (key_text, certificate_text) = (read(&key_path)?, read(&certificate_path)?);
        let known = key_text.as_deref().map(KeyPair::from_pem);
        let key = match known {
            Some(Ok(key)) => key,
            damaged => {
                if let Some(Err(error)) = damaged {
                    let kept = set_aside(&key_path)?;
                    tracing::error!(
                        path = %key_path.display(), kept = %kept.display(), %error,
                        "the authority's key cannot be read; there is a new authority, and kubeconfigs and \
                         service accounts' tokens from before no longer hold"
                    );
                }
                let key = KeyPair::generate()?;
                write(&key_path, &key.serialize_pem())?;
                key
            }
        };
        let issuer = Issuer::new(authority_params(), key);
        let whole = certificate_text.and_then(|pem| {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
            is_of(&der, issuer.key()).then_some((pem, der))
        });
        let (pem, der) = if let Some(whole) = whole {
            whole
        } else {
            let certificate = authority_params().self_signed(issuer.key())?;
            write(&certificate_path, &certificate.pem())?;
            (certificate.pem(), certificate.der().clone())
        };
        Ok(Self { pem, der, issuer })
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
    fn serving_config(&self, names: &[String]) -> Result<rustls::ServerConfig> {
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
        Ok(config)
    }
}

/// Serves `router` on `listener` until `shutdown`; a client that shows a certificate is who it names.
pub(crate) async fn serve(
    authority: &Authority,
    names: &[String],
    router: Router,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<()> {
    let tls = authority.serving_config(names)?;
    let known = move |chain: &[CertificateDer<'static>]| {
        let identity = chain.first().and_then(certificate::identity);
        match identity {
            Some(identity) => router.clone().layer(axum::Extension(identity)),
            None => router.clone(),
        }
    };
    astrago_net::serve(listener, Some(Arc::new(tls)), known, shutdown).await;
    Ok(())
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

/// Whether a certificate can be used, and is for this key.
fn is_of(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    let mut roots = RootCertStore::empty();
    let public = key.public_key_raw();
    roots.add(certificate.clone().into_owned()).is_ok()
        && memchr::memmem::find(certificate, public).is_some()
}

/// Keeps a damaged file under another name.
fn set_aside(path: &Path) -> Result<PathBuf> {
    let now = jiff::Timestamp::now().as_second();
    let kept = path.with_extension(format!("damaged-{now}"));
    std::fs::rename(path, &kept).map_err(|source| Error::Write {
        path: kept.clone(),
        source,
    })?;
    Ok(kept)
}

fn write(path: &Path, text: &str) -> Result<()> {
    crate::files::write_private(path, text.as_bytes()).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_authority_is_made_anew_as_far_as_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let first = Authority::open(folder.path()).unwrap();
        for damaged in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(file("ca.crt"), damaged).unwrap();
            let again = Authority::open(folder.path()).unwrap();
            assert_eq!(again.token_key(), first.token_key(), "the key stays");
            assert!(again.serving_config(&[]).is_ok());
        }
        std::fs::write(file("ca.key"), "").unwrap();
        let other = Authority::open(folder.path()).unwrap();
        assert_ne!(other.token_key(), first.token_key());
        assert_ne!(other.pem(), first.pem(), "the certificate is the new key's");
        let again = Authority::open(folder.path()).unwrap();
        assert_eq!(again.pem(), other.pem());
        let kept = std::fs::read_dir(folder.path()).unwrap();
        let kept = kept.filter(|file| {
            let name = file.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("ca.damaged-")
        });
        assert_eq!(kept.count(), 1);
    }
}
