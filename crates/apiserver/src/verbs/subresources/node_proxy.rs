//! Logs, exec, attach and port forwarding: passed on to the node that runs the pod.
//!
//! The node is asked over TLS with the kubelet's bearer token. Its certificate must be of our
//! authority, or be the one whose SHA-256 the Node object names in the annotation
//! `astrago.io/kubelet-certificate-sha256`; on an address of this machine any certificate will do, as
//! nobody else can listen there.

mod verify;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, Request, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::auth::lease::Lease;
use crate::http::parameters::{pairs, truth};
use crate::http::respond;
use crate::status::{ApiError, Result, Subject, is_upgrade};
use crate::store::Name;
use crate::verbs::call::Call;

/// So much is read of what a node says about a refusal.
const WORDS_MAX: usize = 64 << 10;

/// Headers that belong to one connection, and those that only we may set.
const NOT_PASSED_ON: [header::HeaderName; 4] = [
    header::AUTHORIZATION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

pub(super) async fn pod(call: &Call, body: Body, upgrade: Option<OnUpgrade>) -> Result<Response> {
    let pod = call.current()?.value();
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return if call.path.subresource == "log" {
            Ok(respond::text(""))
        } else {
            Err(ApiError::bad_request(format!(
                "pod {} does not have a host assigned",
                call.path.name
            )))
        };
    }
    let (namespace, name) = (&call.path.namespace, &call.path.name);
    let query = call.query.as_str();
    let path = match call.path.subresource.as_str() {
        "log" => {
            let container = container(&pod, query)?;
            let mut passed = String::new();
            for (key, value) in pairs(query) {
                match key.as_str() {
                    "follow" | "previous" | "timestamps" if truth(&value) => {
                        append(&mut passed, &key, "true");
                    }
                    "tailLines" | "sinceSeconds" | "limitBytes" => {
                        let number: u64 = value.parse().map_err(|_| {
                            ApiError::bad_request(format!("{key}: {value:?} is not a valid number"))
                        })?;
                        append(&mut passed, &key, &number.to_string());
                    }
                    "sinceTime" => append(&mut passed, &key, &value),
                    _ => {}
                }
            }
            format!("/containerLogs/{namespace}/{name}/{container}?{passed}")
        }
        "exec" | "attach" => {
            let container = container(&pod, query)?;
            let mut passed = String::new();
            for (key, value) in pairs(query) {
                match key.as_str() {
                    "command" => append(&mut passed, "command", &value),
                    "stdin" if truth(&value) => append(&mut passed, "input", "1"),
                    "stdout" if truth(&value) => append(&mut passed, "output", "1"),
                    "stderr" if truth(&value) => append(&mut passed, "error", "1"),
                    "tty" if truth(&value) => append(&mut passed, "tty", "1"),
                    _ => {}
                }
            }
            format!(
                "/{}/{namespace}/{name}/{container}?{passed}",
                call.path.subresource
            )
        }
        _ => format!("/portForward/{namespace}/{name}?{query}"),
    };
    let answer = pass_on(call, node, &path, body, upgrade).await?;
    explained(call, answer).await
}

/// A refusal of the node, which it gives as a sentence, as clients of the API expect it.
async fn explained(call: &Call, answer: Response) -> Result<Response> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(answer);
    }
    let words = axum::body::to_bytes(answer.into_body(), WORDS_MAX).await;
    let words = String::from_utf8_lossy(&words.unwrap_or_default()).into_owned();
    let subject = call.kind.subject(&call.path.name);
    Err(ApiError::from_node(status, words, subject))
}

/// Anything of a node's own server, for those who may.
pub(super) async fn node(call: &Call, body: Body, upgrade: Option<OnUpgrade>) -> Result<Response> {
    call.current()?;
    let separator = if call.query.is_empty() { "" } else { "?" };
    let path = format!("/{}{separator}{}", call.path.rest, call.query);
    pass_on(call, &call.path.name, &path, body, upgrade).await
}

/// The container that is meant, which must be one of the pod's.
fn container(pod: &Value, query: &str) -> Result<String> {
    let names = |field: &str| -> Vec<&str> {
        let list = pod["spec"][field].as_array().into_iter().flatten();
        list.filter_map(|one| one["name"].as_str()).collect()
    };
    let own = names("containers");
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let asked = pairs(query)
        .find(|(key, _)| key == "container")
        .map(|(_, value)| value);
    if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
        let all = [own, names("initContainers"), names("ephemeralContainers")].concat();
        return if all.contains(&asked.as_str()) {
            Ok(asked)
        } else {
            Err(ApiError::bad_request(format!(
                "container {asked} is not valid for pod {name}"
            )))
        };
    }
    let annotated =
        pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    match (annotated.filter(|one| own.contains(one)), own.as_slice()) {
        (Some(default), _) => Ok(default.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        (None, many) => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            many.join(" ")
        ))),
    }
}

/// All but what needs no escape in a query.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

fn append(query: &mut String, key: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    let _ = write!(query, "{key}={}", utf8_percent_encode(value, RESERVED));
}

async fn pass_on(
    call: &Call,
    node: &str,
    path: &str,
    body: Body,
    upgrade: Option<OnUpgrade>,
) -> Result<Response> {
    let missing = || {
        let subject = Subject {
            resource: "nodes".to_owned(),
            name: node.to_owned(),
            ..Subject::default()
        };
        ApiError::NotFound(subject)
    };
    let object = call
        .core
        .store
        .get("nodes", &Name::new("", node))
        .ok_or_else(missing)?;
    let object = object.value();
    let unreachable = |detail: &dyn std::fmt::Display| {
        tracing::warn!(node, %detail, "failed to reach a node");
        ApiError::Unavailable(format!("the node {node:?} cannot be reached"))
    };
    let endpoint = Endpoint::of(&object).ok_or_else(|| unreachable(&"it has no address"))?;
    let connection = TcpStream::connect((endpoint.address, endpoint.port));
    let connection = connection.await.map_err(|error| unreachable(&error))?;
    let _ = connection.set_nodelay(true);
    let config = verify::client_config(&call.core.authority, &endpoint)
        .map_err(|error| unreachable(&error))?;
    let name = ServerName::IpAddress(endpoint.address.into());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, connection);
    let stream = stream.await.map_err(|error| unreachable(&error))?;

    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(&error))?;
    tokio::spawn(async move {
        // It ends with the answer; what goes wrong is seen there.
        let _ = connection.with_upgrades().await;
    });
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(path)
        .header(
            header::HOST,
            format!("{}:{}", endpoint.address, endpoint.port),
        )
        .header(
            header::AUTHORIZATION,
            format!("Bearer {}", call.core.options.kubelet_token),
        )
        .body(body)
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    copy_headers(&call.headers, request.headers_mut());
    let mut answer = sender
        .send_request(request)
        .await
        .map_err(|error| unreachable(&error))?;
    if is_upgrade(&answer) {
        let there = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(upgrade, there, call.lease.clone()));
    }
    let (parts, body) = answer.into_parts();
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// Copies bytes both ways until one side ends, or the caller's right to it does.
async fn join(here: Option<OnUpgrade>, there: OnUpgrade, lease: Option<Lease>) {
    let Some(here) = here else { return };
    if let (Ok(here), Ok(there)) = tokio::join!(here, there) {
        let (mut here, mut there) = (TokioIo::new(here), TokioIo::new(there));
        let ended = async {
            match lease {
                Some(lease) => lease.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
            () = ended => {}
        }
    }
}

fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from {
        let secret = name.as_str().starts_with("impersonate-");
        if !NOT_PASSED_ON.contains(name) && !secret {
            to.append(name.clone(), value.clone());
        }
    }
}

/// Where a node listens.
struct Endpoint {
    address: IpAddr,
    port: u16,
    /// The SHA-256 of its certificate, if the Node object names it.
    fingerprint: Option<String>,
}

impl Endpoint {
    fn of(node: &Value) -> Option<Self> {
        let addresses = node["status"]["addresses"].as_array()?;
        let address = ["InternalIP", "ExternalIP"].iter().find_map(|kind| {
            let found = addresses.iter().find(|one| one["type"] == *kind)?;
            found["address"].as_str()?.parse().ok()
        })?;
        let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64()?;
        let annotations = &node["metadata"]["annotations"];
        let fingerprint = annotations["astrago.io/kubelet-certificate-sha256"].as_str();
        Some(Self {
            address,
            port: port.try_into().ok()?,
            fingerprint: fingerprint.map(str::to_lowercase),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_is_the_only_the_default_or_the_named_one() {
        let pod = |containers: &[&str]| {
            let list: Vec<_> = containers
                .iter()
                .map(|name| json!({ "name": name }))
                .collect();
            json!({ "metadata": { "name": "p" }, "spec": { "containers": list } })
        };
        assert_eq!(container(&pod(&["a"]), "").unwrap(), "a");
        assert_eq!(container(&pod(&["a", "b"]), "container=b").unwrap(), "b");
        assert!(
            container(&pod(&["a", "b"]), "")
                .unwrap_err()
                .to_string()
                .contains("[a b]")
        );
        assert!(container(&pod(&["a"]), "container=../x").is_err());
        let mut annotated = pod(&["a", "b"]);
        annotated["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] =
            "b".into();
        assert_eq!(container(&annotated, "follow=true").unwrap(), "b");
    }

    #[test]
    fn commands_are_encoded_again() {
        let mut query = String::new();
        append(&mut query, "command", "sh -c 'a&b'");
        assert_eq!(query, "command=sh%20-c%20%27a%26b%27");
    }
}
