//! The client of both servers: HTTP/1.1 over TLS, kept-alive connections, one request at a time on each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

use crate::Error;

pub(crate) const TOKEN: &str = "bench-token";
pub(crate) const CLIENTS: usize = 16;

/// A server, and what is needed to trust it.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Target {
    /// The server at an address whose authority is in a file.
    pub(crate) fn new(address: &str, authority: &Path) -> Result<Self, Error> {
        let mut roots = rustls::RootCertStore::empty();
        // Of a chain the last certificate is the authority's.
        let chain = CertificateDer::pem_file_iter(authority)?;
        let last = chain.last().ok_or("no certificate")??;
        roots.add(last)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address: address.to_owned(),
            tls: Arc::new(tls),
        })
    }

    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let name = ServerName::from(std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST));
        let stream = connector.connect(name, stream).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client(sender))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.connect().await?.send("GET", path, Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Bytes) -> Result<Bytes, Error> {
        self.connect().await?.send("POST", path, body).await
    }
}

/// One kept-alive connection.
pub(crate) struct Client(SendRequest<Full<Bytes>>);

impl Client {
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let response = self.begin(method, path, body).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if code.is_success() {
            Ok(body)
        } else {
            let text = String::from_utf8_lossy(&body).into_owned();
            Err(format!("{method} {path}: {code}: {text}").into())
        }
    }

    /// Sends a request and leaves the body of the answer to be read.
    pub(crate) async fn begin(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, Error> {
        let media = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", media)
            .body(Full::new(body))?;
        self.0.ready().await?;
        Ok(self.0.send_request(request).await?)
    }
}

/// One of many equal requests: method, path, body.
pub(crate) type Request = (&'static str, String, Bytes);

/// Makes `count` requests with all clients at once; requests per second.
pub(crate) async fn rate<F>(target: &Target, count: usize, request: F) -> Result<f64, Error>
where
    F: Fn(usize) -> Request + Clone + Send + 'static,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(target.connect().await?);
    }
    let began = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let (next, request) = (Arc::clone(&next), request.clone());
            tokio::spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return Ok::<_, Error>(());
                    }
                    let (method, path, body) = request(index);
                    client.send(method, &path, body).await?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let rate = count as f64 / began.elapsed().as_secs_f64();
    Ok(rate)
}

/// The mean time of a request in milliseconds, made 20 times by one client.
pub(crate) async fn latency(target: &Target, path: &str) -> Result<f64, Error> {
    let mut client = target.connect().await?;
    client.send("GET", path, Bytes::new()).await?;
    let began = Instant::now();
    for _ in 0..20 {
        client.send("GET", path, Bytes::new()).await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / 20.0)
}
