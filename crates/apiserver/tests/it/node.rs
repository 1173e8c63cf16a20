//! Requests that are passed on to a node.

use std::fmt::Write as _;
use std::sync::Arc;

use astrago_apiserver::Identity;
use base64::Engine as _;
use futures::StreamExt as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::plane::Plane;

/// Answers one request over TLS, with a certificate of the plane's authority, and returns the head that
/// it was sent; with the certificate's SHA-256.
async fn kubelet(plane: &Plane) -> (u16, String, tokio::task::JoinHandle<String>) {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nhello\n";
    listen(plane, answer, false).await
}

/// The same with another answer, which may go on until whoever asked is gone.
async fn listen(
    plane: &Plane,
    answer: &'static str,
    goes_on: bool,
) -> (u16, String, tokio::task::JoinHandle<String>) {
    let (certificate, key) = plane
        .server
        .serving_certificate(&["127.0.0.1".to_owned()])
        .expect("a certificate");
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let mut fingerprint = String::new();
    for byte in Sha256::digest(&certificate) {
        write!(fingerprint, "{byte:02x}").expect("memory");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut stream = acceptor.accept(stream).await.expect("a handshake");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a whole head"));
        }
        stream
            .write_all(answer.as_bytes())
            .await
            .expect("an answer");
        if goes_on {
            // However it ends.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return String::from_utf8(head).expect("text");
        }
        stream.shutdown().await.expect("an end");
        String::from_utf8(head).expect("text")
    });
    (port, fingerprint, serving)
}

/// Makes the Node whose kubelet listens at a port, and a pod on it.
async fn bind(plane: &Plane, port: u16) {
    let node = json!({ "metadata": { "name": "n1" } });
    plane.post("/api/v1/nodes", node).await;
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    }});
    let path = "/api/v1/nodes/n1/status";
    let (code, answer) = plane
        .request("PATCH", path, "application/merge-patch+json", &status)
        .await;
    assert_eq!(code, 200, "{answer}");
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "main", "image": "i" }] },
    });
    let (code, made) = plane.post(PODS, pod).await;
    assert_eq!(code, 201, "{made}");
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn whoever_listens_on_this_machine_gets_no_token_unless_the_node_names_its_certificate() {
    let (plane, stranger) = (Plane::start().await, Plane::start().await);
    let (port, _, serving) = kubelet(&stranger).await;
    bind(&plane, port).await;
    let (code, answer) = plane.text(&format!("{PODS}/p/log")).await;
    assert!(code >= 500, "{code} {answer}");
    assert!(serving.await.is_err(), "a stranger heard the request");

    let (port, fingerprint, serving) = kubelet(&stranger).await;
    let merge = "application/merge-patch+json";
    let status =
        json!({ "status": { "daemonEndpoints": { "kubeletEndpoint": { "Port": port } } } });
    plane
        .request("PATCH", "/api/v1/nodes/n1/status", merge, &status)
        .await;
    let named = json!({ "metadata": { "annotations": {
        "astrago.io/kubelet-certificate-sha256": fingerprint,
    } } });
    plane
        .request("PATCH", "/api/v1/nodes/n1", merge, &named)
        .await;
    let (code, log) = plane.text(&format!("{PODS}/p/log")).await;
    assert_eq!((code, log.as_str()), (200, "hello\n"));
    serving.await.expect("it answered");
}

#[tokio::test]
async fn logs_come_from_the_node_that_runs_the_pod() {
    let plane = Plane::start().await;
    let (port, _, kubelet) = kubelet(&plane).await;
    bind(&plane, port).await;
    let (code, log) = plane
        .text(&format!("{PODS}/p/log?follow=True&tailLines=5"))
        .await;
    assert_eq!((code, log.as_str()), (200, "hello\n"));
    let head = kubelet.await.expect("the kubelet answered");
    assert!(
        head.starts_with("GET /containerLogs/default/p/main?follow=true&tailLines=5 "),
        "{head}"
    );
    assert!(
        head.to_lowercase()
            .contains("authorization: bearer kubelet-token"),
        "{head}"
    );
    let (code, _) = plane.text(&format!("{PODS}/p/log?container=other")).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn a_log_that_is_followed_ends_with_the_right_to_it() {
    let plane = Plane::start().await;
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nhello\n\r\n";
    let (port, _, kubelet) = listen(&plane, answer, true).await;
    bind(&plane, port).await;
    grant(&plane).await;
    let request = http::Request::get(format!("{PODS}/p/log?follow=true"))
        .body(axum::body::Body::empty())
        .expect("a request");
    let ann = plane.server.local(Identity::user("ann", &[]));
    let response = tower::ServiceExt::oneshot(ann, request).await;
    let mut log = response.expect("an answer").into_body().into_data_stream();
    let first = log.next().await.expect("a frame").expect("bytes");
    assert_eq!(first, "hello\n");
    plane.delete(&format!("{BINDINGS}/ann"), json!({})).await;
    assert!(log.next().await.is_none(), "the log has ended");
    drop(log);
    kubelet.await.expect("the node's connection has ended too");
}

#[tokio::test]
async fn a_program_in_a_pod_is_left_with_the_right_to_it() {
    let plane = Plane::start().await;
    let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\nhello\n";
    let (port, _, kubelet) = listen(&plane, answer, true).await;
    bind(&plane, port).await;
    grant(&plane).await;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let token = json!({
        "metadata": { "name": "ann" }, "type": "astrago.io/token",
        "data": { "user": encode("ann"), "token": encode("s3cret") },
    });
    let tokens = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(plane.post(tokens, token).await.0, 201);
    let mut stream = connect(&plane).await;
    let request = format!(
        "POST {PODS}/p/exec?command=sh&stdout=true HTTP/1.1\r\nhost: here\r\nauthorization: Bearer s3cret\r\n\
         connection: Upgrade\r\nupgrade: SPDY/3.1\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut heard = Vec::new();
    while !heard.ends_with(b"hello\n") {
        heard.push(
            stream
                .read_u8()
                .await
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&heard))),
        );
    }
    plane.delete(&format!("{BINDINGS}/ann"), json!({})).await;
    let mut rest = Vec::new();
    // However it ends.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    kubelet.await.expect("the node's connection has ended too");
}

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

async fn grant(plane: &Plane) {
    let binding = json!({
        "metadata": { "name": "ann" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    assert_eq!(plane.post(BINDINGS, binding).await.0, 201);
}

/// A connection to the server from outside.
async fn connect(plane: &Plane) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = plane.server.clone();
    let never = tokio_util::sync::CancellationToken::new();
    tokio::spawn(async move { server.serve(listener, never).await });
    let authority = plane.server.ca_pem();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");
    let name = rustls_pki_types::ServerName::IpAddress(address.ip().into());
    tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .expect("a handshake")
}
