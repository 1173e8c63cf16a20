//! Talking to a registry: from a reference to the manifest and configuration for this machine.

use std::net::IpAddr;
use std::time::Duration;

use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, ImageIndexEntry,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageIndex,
    OciImageManifest,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::config::Config;
use super::digest::Digest;
use super::guard::{self, Guard};
use super::{Error, Result, blob};

const ACCEPTED: &[&str] = &[
    OCI_IMAGE_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
];
const CONFIG_BYTES_MAX: u64 = 8 << 20;
const LAYERS_MAX: usize = 500;

/// A session with one registry for one image and one set of credentials. Never shared: the client
/// keeps credentials per host, and those of one tenant are not another's.
pub(super) struct Registry {
    pub(super) client: Client,
    pub(super) reference: Reference,
    auth: RegistryAuth,
    /// Between the client and the network; `None` where everything may be reached.
    _guard: Option<Guard>,
}

/// What the registry has.
pub(super) struct Remote {
    pub(super) config: Config,
    /// Bottom first: the blob, and the digest of what it decompresses to.
    pub(super) layers: Vec<(OciDescriptor, Digest)>,
}

impl Registry {
    pub(super) async fn open(
        reference: Reference,
        auth: RegistryAuth,
        private: bool,
    ) -> Result<Self> {
        let host = reference.resolve_registry();
        if !private && guard::is_private(host).await {
            let image = reference.whole();
            return Err(Error::Private { image });
        }
        let guard = if private || guard::has_proxy() {
            None
        } else {
            Some(Guard::start().await.map_err(Error::Store)?)
        };
        let proxy = guard.as_ref().map(Guard::url);
        let protocol = if is_loopback(host) {
            ClientProtocol::HttpsExcept(vec![host.to_owned()])
        } else {
            ClientProtocol::Https
        };
        let client =
            Client::try_from(config(protocol, proxy)).map_err(|source| Error::Registry {
                image: reference.whole(),
                source: Box::new(source),
            })?;
        Ok(Self {
            client,
            reference,
            auth,
            _guard: guard,
        })
    }

    /// The manifest for this machine, chosen from an index if there is one.
    pub(super) async fn manifest(&self) -> Result<(Digest, OciImageManifest)> {
        let authorised = self
            .client
            .auth(&self.reference, &self.auth, RegistryOperation::Pull)
            .await;
        authorised.map_err(|error| self.error(error))?;
        let (bytes, digest) = self.raw_manifest(&self.reference).await?;
        let Ok(index) = serde_json::from_slice::<OciImageIndex>(&bytes) else {
            return self.parse(&bytes, &digest);
        };
        let entry = choose(&index.manifests, platform()).ok_or_else(|| Error::Platform {
            image: self.reference.whole(),
            wanted: format!("linux/{}", platform().0),
            offered: offered(&index.manifests),
        })?;
        let of_platform = self.reference.clone_with_digest(entry.digest.clone());
        let (bytes, digest) = self.raw_manifest(&of_platform).await?;
        self.parse(&bytes, &digest)
    }

    /// The image's configuration, by which its layers are known before they are fetched.
    pub(super) async fn config(&self, manifest: OciImageManifest) -> Result<Remote> {
        let invalid = |what: &'static str| Error::Invalid {
            image: self.reference.whole(),
            what,
        };
        let config_digest =
            Digest::parse(&manifest.config.digest).ok_or(invalid("the configuration's digest"))?;
        let (sender, receiver) = mpsc::channel(4);
        let blob = without_urls(&manifest.config);
        let reading = tokio::task::spawn_blocking({
            let digest = config_digest.clone();
            move || blob::read(receiver, &digest, CONFIG_BYTES_MAX)
        });
        let failed = |source| Error::Blob {
            image: self.reference.whole(),
            digest: config_digest.as_str().to_owned(),
            source,
        };
        blob::download(&self.client, &self.reference, &blob, sender, |_| ())
            .await
            .map_err(failed)?;
        let content = reading
            .await
            .map_err(|_| Error::Interrupted)?
            .map_err(failed)?;
        let file: ConfigFile =
            serde_json::from_slice(&content).map_err(|_| invalid("the configuration"))?;
        // An artifact that is no image, or an image for another machine without an index.
        if file.os != "linux" || file.architecture != platform().0 {
            return Err(Error::Platform {
                image: self.reference.whole(),
                wanted: format!("linux/{}", platform().0),
                offered: format!("{}/{}", file.os, file.architecture),
            });
        }
        if file.rootfs.diff_ids.len() != manifest.layers.len() || manifest.layers.len() > LAYERS_MAX
        {
            return Err(invalid("the number of layers"));
        }
        let mut layers = Vec::new();
        for (layer, diff_id) in manifest.layers.iter().zip(&file.rootfs.diff_ids) {
            let diff_id = Digest::parse(diff_id).ok_or(invalid("a layer's diff ID"))?;
            Digest::parse(&layer.digest).ok_or(invalid("a layer's digest"))?;
            layers.push((without_urls(layer), diff_id));
        }
        Ok(Remote {
            config: file.config.unwrap_or_default().into(),
            layers,
        })
    }

    async fn raw_manifest(&self, reference: &Reference) -> Result<(Vec<u8>, Digest)> {
        let (bytes, _) = self
            .client
            .pull_manifest_raw(reference, &self.auth, ACCEPTED)
            .await
            .map_err(|error| self.error(error))?;
        // The digest is computed, not believed.
        let want = reference.digest().and_then(Digest::parse);
        let mut hasher = match &want {
            Some(digest) => digest.hasher(),
            None => super::digest::Hasher::sha256(),
        };
        hasher.update(&bytes);
        let got = hasher.finish();
        if let Some(want) = &want {
            blob::check(want, &got).map_err(|source| Error::Blob {
                image: self.reference.whole(),
                digest: want.as_str().to_owned(),
                source,
            })?;
        }
        Ok((bytes.to_vec(), got))
    }

    fn parse(&self, bytes: &[u8], digest: &Digest) -> Result<(Digest, OciImageManifest)> {
        let manifest = serde_json::from_slice(bytes).map_err(|_| Error::Invalid {
            image: self.reference.whole(),
            what: "the manifest",
        })?;
        Ok((digest.clone(), manifest))
    }

    /// Says what the registry's refusal means.
    fn error(&self, error: OciDistributionError) -> Error {
        let image = self.reference.whole();
        let has = |codes: &[OciErrorCode]| {
            matches!(&error, OciDistributionError::RegistryError { envelope, .. }
                if envelope.errors.iter().any(|error| codes.contains(&error.code)))
        };
        match &error {
            OciDistributionError::AuthenticationFailure(_)
            | OciDistributionError::UnauthorizedError { .. } => Error::Unauthorized { image },
            OciDistributionError::ImageManifestNotFoundError(_) => Error::NotFound { image },
            OciDistributionError::DigestError(_) => Error::Manifest {
                image,
                source: Box::new(error),
            },
            _ if has(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) => {
                Error::Unauthorized { image }
            }
            _ if has(&[
                OciErrorCode::ManifestUnknown,
                OciErrorCode::NameUnknown,
                OciErrorCode::NotFound,
            ]) =>
            {
                Error::NotFound { image }
            }
            _ => Error::Registry {
                image,
                source: Box::new(error),
            },
        }
    }
}

fn config(protocol: ClientProtocol, proxy: Option<String>) -> ClientConfig {
    ClientConfig {
        protocol,
        connect_timeout: Some(Duration::from_secs(20)),
        read_timeout: Some(Duration::from_mins(1)),
        user_agent: concat!("astrago/", env!("CARGO_PKG_VERSION")),
        https_proxy: proxy.clone(),
        http_proxy: proxy,
        ..ClientConfig::default()
    }
}

/// A descriptor may name other places to fetch from; a manifest must not make us call those.
fn without_urls(descriptor: &OciDescriptor) -> OciDescriptor {
    OciDescriptor {
        urls: None,
        ..descriptor.clone()
    }
}

/// Registries on this very machine speak plain HTTP, as Docker has it.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// This machine's architecture and variant, in Go's words.
fn platform() -> (&'static str, Option<&'static str>) {
    match std::env::consts::ARCH {
        "x86_64" => ("amd64", None),
        "aarch64" => ("arm64", Some("v8")),
        "x86" => ("386", None),
        "arm" => ("arm", Some("v7")),
        "powerpc64" => ("ppc64le", None),
        "loongarch64" => ("loong64", None),
        other => (other, None),
    }
}

/// The index entry for this machine: the exact variant, else one without, else any.
fn choose<'a>(
    entries: &'a [ImageIndexEntry],
    (architecture, variant): (&str, Option<&str>),
) -> Option<&'a ImageIndexEntry> {
    let fitting = entries.iter().filter_map(|entry| {
        let platform = entry.platform.as_ref()?;
        let fits =
            platform.os.to_string() == "linux" && platform.architecture.to_string() == architecture;
        let rank = match platform.variant.as_deref() {
            found if found == variant => 0,
            None | Some("") => 1,
            // A later variant may use instructions that this machine lacks: the lowest first.
            Some(_) => 2,
        };
        fits.then(|| (rank, platform.variant.clone(), entry))
    });
    fitting
        .min_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)))
        .map(|found| found.2)
}

fn offered(entries: &[ImageIndexEntry]) -> String {
    let mut platforms: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.platform.as_ref())
        .map(|platform| format!("{}/{}", platform.os, platform.architecture))
        // Attestations hang on an index under this name.
        .filter(|platform| platform != "unknown/unknown")
        .collect();
    platforms.sort();
    platforms.dedup();
    if platforms.is_empty() {
        "none".into()
    } else {
        platforms.join(", ")
    }
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    config: Option<Defaults>,
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// What images call these things; any may be `null`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Defaults {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
}

impl From<Defaults> for Config {
    fn from(defaults: Defaults) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let pair = |variable: String| match variable.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (variable, String::new()),
        };
        Self {
            entrypoint: defaults.entrypoint.unwrap_or_default(),
            command: defaults.cmd.unwrap_or_default(),
            env: defaults
                .env
                .unwrap_or_default()
                .into_iter()
                .map(pair)
                .collect(),
            user: given(defaults.user),
            working_dir: given(defaults.working_dir),
            stop_signal: given(defaults.stop_signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use oci_client::client::{Certificate, CertificateEncoding};
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn entries(platforms: &[(&str, &str)]) -> Vec<ImageIndexEntry> {
        let entry = |(architecture, variant): &(&str, &str)| {
            serde_json::json!({
                "mediaType": OCI_IMAGE_MEDIA_TYPE, "size": 1,
                "digest": format!("{architecture}{variant}"),
                "platform": {"os": "linux", "architecture": architecture, "variant": variant},
            })
        };
        serde_json::from_value(platforms.iter().map(entry).collect()).unwrap()
    }

    /// A registry over TLS that sends whoever asks to a realm; with its certificate and how often it was asked.
    async fn hostile(realm: String) -> (std::net::SocketAddr, String, Arc<AtomicUsize>) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                count.fetch_add(1, Ordering::Relaxed);
                let answer = format!(
                    "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n\
                     content-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
            }
        });
        (address, made.cert.pem(), asked)
    }

    #[tokio::test]
    async fn a_realm_leads_nowhere_inside() {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = inside.local_addr().unwrap().port();
        let heard = tokio::spawn(async move { inside.accept().await });
        for realm in [
            format!("http://127.0.0.1:{port}/token"),
            format!("https://127.0.0.1:{port}/token"),
            format!("https://localhost:{port}/token"),
            format!("http://[::ffff:127.0.0.1]:{port}/token"),
            "http://169.254.169.254/latest/meta-data".to_owned(),
        ] {
            let (address, certificate, asked) = hostile(realm.clone()).await;
            let guard = Guard::trusting(Some(address)).await.unwrap();
            let mut config = config(ClientProtocol::Https, Some(guard.url()));
            config.extra_root_certificates.push(Certificate {
                encoding: CertificateEncoding::Pem,
                data: certificate.into_bytes(),
            });
            let registry = Registry {
                client: Client::try_from(config).unwrap(),
                reference: format!("{address}/image:v1").parse().unwrap(),
                auth: RegistryAuth::Anonymous,
                _guard: Some(guard),
            };
            registry.manifest().await.unwrap_err();
            assert!(asked.load(Ordering::Relaxed) > 0, "{realm}: nobody asked");
            assert!(!heard.is_finished(), "{realm} was followed");
        }
    }

    #[rstest::rstest]
    #[case::plain(&[("arm64", "v8"), ("amd64", "")], ("amd64", None), Some("amd64"))]
    #[case::exact_variant(&[("arm", "v6"), ("arm", "v7")], ("arm", Some("v7")), Some("armv7"))]
    #[case::no_higher_than_needed(&[("amd64", "v3"), ("amd64", "v2")], ("amd64", None), Some("amd64v2"))]
    #[case::none(&[("s390x", "")], ("amd64", None), None)]
    fn an_index_is_searched_for_this_machine(
        #[case] offered: &[(&str, &str)],
        #[case] wanted: (&str, Option<&str>),
        #[case] want: Option<&str>,
    ) {
        let entries = entries(offered);
        let chosen = choose(&entries, wanted).map(|entry| entry.digest.as_str());
        assert_eq!(chosen, want);
    }

    #[rstest::rstest]
    #[case("localhost:5000", true)]
    #[case("127.0.0.1", true)]
    #[case("127.3.2.1:80", true)]
    #[case("[::1]:5000", true)]
    #[case("localhost.example", false)]
    #[case("10.0.0.1:5000", false)]
    fn only_this_machine_is_spoken_to_without_tls(#[case] registry: &str, #[case] want: bool) {
        assert_eq!(is_loopback(registry), want);
    }
}
