//! TLS for the REST API and the page, where they are to be reached from other machines.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::args::Tls;
use crate::exit::Failure;

/// A client that has not shaken hands by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that are ready before somebody takes them.
const READY: usize = 64;

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

/// Serves over TLS if there is a certificate, until stopped.
pub(crate) async fn serve(
    listener: TcpListener,
    config: Option<Arc<ServerConfig>>,
    router: Router,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    match config {
        Some(config) => {
            axum::serve(TlsListener::new(listener, config)?, router)
                .with_graceful_shutdown(stopped)
                .await
        }
        None => {
            axum::serve(listener, router)
                .with_graceful_shutdown(stopped)
                .await
        }
    }
}

/// Hands out connections that have shaken hands, so that one slow client holds up nobody.
struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    fn new(mut listener: TcpListener, config: Arc<ServerConfig>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(config);
        let (sender, ready) = mpsc::channel(READY);
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = Listener::accept(&mut listener) => accepted,
                    () = sender.closed() => return,
                };
                let ((stream, peer), acceptor, sender) =
                    (accepted, acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
                    if let Ok(Ok(stream)) = shaken.await {
                        // Nobody takes it when the server stops.
                        let _ = sender.send((stream, peer)).await;
                    }
                });
            }
        });
        Ok(Self { address, ready })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The accepting task ends only with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
