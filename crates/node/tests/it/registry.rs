//! A small OCI registry on loopback, with the faults that real ones have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use futures::StreamExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// Cheap to clone; served until the test's runtime ends.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    address: String,
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    login: Option<(String, String)>,
    /// Blobs whose connection breaks in the middle, once each.
    breaking: Vec<String>,
    /// Blobs that wait half-way until they may go on.
    held: BTreeMap<String, Arc<Notify>>,
    /// Digests of blobs in the order of requests.
    requests: Vec<String>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let registry = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        registry.0.lock().unwrap().address = listener.local_addr().unwrap().to_string();
        let router = Router::new()
            .route("/v2/", get(root))
            .route("/token", get(token))
            .route("/v2/{name}/manifests/{reference}", get(manifest))
            .route("/v2/{name}/blobs/{digest}", get(blob))
            .with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        registry
    }

    pub(crate) fn address(&self) -> String {
        self.0.lock().unwrap().address.clone()
    }

    pub(crate) fn require_login(&self, user: &str, password: &str) {
        self.0.lock().unwrap().login = Some((user.into(), password.into()));
    }

    pub(crate) fn break_once(&self, digest: &str) {
        self.0.lock().unwrap().breaking.push(digest.into());
    }

    /// Sends half of a blob, and the rest after the notice.
    pub(crate) fn hold(&self, digest: &str) -> Arc<Notify> {
        let go = Arc::new(Notify::new());
        let held = &mut self.0.lock().unwrap().held;
        held.insert(digest.into(), Arc::clone(&go));
        go
    }

    pub(crate) fn blob_requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(crate) fn blob(&self, content: &[u8]) -> String {
        let digest = digest(content);
        self.0
            .lock()
            .unwrap()
            .blobs
            .insert(digest.clone(), content.to_vec());
        digest
    }

    /// Replaces what is sent for a digest.
    pub(crate) fn tamper(&self, digest: &str, content: &[u8]) {
        self.0
            .lock()
            .unwrap()
            .blobs
            .insert(digest.into(), content.to_vec());
    }

    /// Stores an image of these layers (bottom first, gzipped here) and returns the digest of its
    /// manifest and those of its layers' blobs.
    pub(crate) fn push(
        &self,
        tag: &str,
        layers: &[Vec<u8>],
        config: &Value,
    ) -> (String, Vec<String>) {
        self.push_for(tag, layers, config, "amd64")
    }

    pub(crate) fn push_for(
        &self,
        tag: &str,
        layers: &[Vec<u8>],
        config: &Value,
        architecture: &str,
    ) -> (String, Vec<String>) {
        let blobs: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
        let digests: Vec<String> = blobs.iter().map(|blob| self.blob(blob)).collect();
        let diff_ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let file = json!({
            "architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let file = serde_json::to_vec(&file).unwrap();
        let config_digest = self.blob(&file);
        let layers: Vec<Value> = blobs
            .iter()
            .zip(&digests)
            .map(|(blob, digest)| {
                json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                    "digest": digest, "size": blob.len()})
            })
            .collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": config_digest, "size": file.len()},
            "layers": layers,
        });
        let manifest_digest =
            self.manifest(tag, "application/vnd.oci.image.manifest.v1+json", &manifest);
        (manifest_digest, digests)
    }

    /// Stores an index of platforms.
    pub(crate) fn index(&self, tag: &str, entries: &[(&str, &str)]) -> String {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(architecture, digest)| {
                json!({"mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "digest": digest, "size": 1,
                    "platform": {"os": "linux", "architecture": architecture}})
            })
            .collect();
        let index = json!({"schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries});
        self.manifest(tag, "application/vnd.oci.image.index.v1+json", &index)
    }

    fn manifest(&self, tag: &str, media_type: &str, manifest: &Value) -> String {
        let bytes = serde_json::to_vec(manifest).unwrap();
        let digest = digest(&bytes);
        let mut content = self.0.lock().unwrap();
        for key in [tag, &digest] {
            content
                .manifests
                .insert(key.into(), (media_type.into(), bytes.clone()));
        }
        digest
    }

    fn refuse(&self, headers: &HeaderMap) -> Option<Response> {
        let content = self.0.lock().unwrap();
        let authorization = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if content.login.is_none() || authorization == Some("Bearer granted") {
            return None;
        }
        let challenge = format!(
            "Bearer realm=\"http://{}/token\",service=\"test\"",
            content.address
        );
        let body = json!({"errors": [{"code": "UNAUTHORIZED", "message": "log in"}]}).to_string();
        let headers = [(header::WWW_AUTHENTICATE, challenge)];
        Some((StatusCode::UNAUTHORIZED, headers, body).into_response())
    }
}

async fn root(State(registry): State<Registry>, headers: HeaderMap) -> Response {
    registry
        .refuse(&headers)
        .unwrap_or_else(|| StatusCode::OK.into_response())
}

async fn token(State(registry): State<Registry>, headers: HeaderMap) -> Response {
    let (user, password) = registry.0.lock().unwrap().login.clone().unwrap();
    let want = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let got = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    if got == Some(&format!("Basic {want}")) {
        json!({"token": "granted"}).to_string().into_response()
    } else {
        (StatusCode::UNAUTHORIZED, "wrong user or password").into_response()
    }
}

async fn manifest(
    State(registry): State<Registry>,
    Path((_name, reference)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = registry.refuse(&headers) {
        return refusal;
    }
    let found = registry
        .0
        .lock()
        .unwrap()
        .manifests
        .get(&reference)
        .cloned();
    let Some((media_type, bytes)) = found else {
        let body = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no"}]});
        return (StatusCode::NOT_FOUND, body.to_string()).into_response();
    };
    let digest = digest(&bytes);
    let headers = [
        (header::CONTENT_TYPE.as_str(), media_type),
        ("docker-content-digest", digest),
    ];
    (headers, bytes).into_response()
}

async fn blob(
    State(registry): State<Registry>,
    Path((_name, digest)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = registry.refuse(&headers) {
        return refusal;
    }
    let (bytes, breaks, held) = {
        let mut content = registry.0.lock().unwrap();
        content.requests.push(digest.clone());
        let breaks = content
            .breaking
            .iter()
            .position(|breaking| *breaking == digest);
        let breaks = breaks.map(|index| content.breaking.remove(index)).is_some();
        let held = content.held.remove(&digest);
        (content.blobs.get(&digest).cloned(), breaks, held)
    };
    let Some(bytes) = bytes else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let offset = headers
        .get(header::RANGE)
        .and_then(|range| {
            range
                .to_str()
                .ok()?
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse()
                .ok()
        })
        .unwrap_or(0_usize);
    let rest = bytes[offset..].to_vec();
    if let Some(go) = held {
        let (first, second) = rest.split_at(rest.len() / 2);
        let (first, second) = (first.to_vec(), second.to_vec());
        let first = futures::stream::iter([Ok::<_, std::io::Error>(first)]);
        let second = futures::stream::once(async move {
            go.notified().await;
            Ok(second)
        });
        return Body::from_stream(first.chain(second)).into_response();
    }
    if breaks {
        let half = rest[..rest.len() / 2].to_vec();
        let pieces = [Ok(half), Err(std::io::Error::other("the connection broke"))];
        return Body::from_stream(futures::stream::iter(pieces)).into_response();
    }
    let status = if offset > 0 {
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    };
    (status, rest).into_response()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A layer with these files; an entry that ends in `/` is a directory.
pub(crate) fn layer(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        let is_directory = path.ends_with('/');
        header.set_entry_type(if is_directory {
            tar::EntryType::Directory
        } else {
            tar::EntryType::Regular
        });
        header.set_mode(0o755);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}
