//! Requests that are passed on to a node.

use std::fmt::Write as _;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::plane::Plane;

/// Answers one request over TLS, with a certificate of the plane's authority, and returns the head that
/// it was sent; with the certificate's SHA-256.
async fn kubelet(plane: &Plane) -> (u16, String, tokio::task::JoinHandle<String>) {
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
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nhello\n";
        stream
            .write_all(answer.as_bytes())
            .await
            .expect("an answer");
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
