//! Serving a router on a listener.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::connections::{Connection, Connections};

/// A client that has not shaken hands by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection of HTTP/1 may be without a whole request. Longer than clients keep idle ones (90 s
/// for most), so that it is the client that closes it.
const IDLE: Duration = Duration::from_mins(2);
/// Requests that still run after this time are cut off when the server stops.
const GRACE: Duration = Duration::from_secs(2);
/// A connection costs about 60 kB.
const CONNECTIONS: usize = 4096;
/// How much of an answer the kernel takes before the client has room for it. Without a limit that is up to 4 MB of
/// memory that all programs of the machine share, for each client that asks and does not read. What is on its way
/// does not count, so distant clients are no slower.
const UNSENT: u32 = 128 * 1024;
/// Enough for all listeners, logs and pods; containers, which inherit it, have seen larger ones.
const DESCRIPTORS: u64 = 65_536;

/// Serves over TLS if there is a configuration, until stopped; then lets requests under way end for a moment.
///
/// `router` is asked once for each connection, with the certificates that the client has shown. One listener has
/// at most 4096 connections, or a quarter of the file descriptors of this process: above that, the one that has
/// been without a request for longest is closed for a new one.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: impl Fn(&[CertificateDer<'static>]) -> Router + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = CONNECTIONS.min(usize::try_from(descriptors / 4).unwrap_or(CONNECTIONS));
    serve_at_most(most, listener, tls, router, stop).await;
}

async fn serve_at_most(
    most: usize,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: impl Fn(&[CertificateDer<'static>]) -> Router + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let connections = Connections::new(most);
    let (acceptor, router) = (tls.map(TlsAcceptor::from), Arc::new(router));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                // Out of descriptors, most likely: connections that end give some back.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(connection) = connections.enter() else {
            tracing::warn!(most, "refused a connection, as all others are busy");
            continue;
        };
        let (acceptor, router, stop) = (acceptor.clone(), Arc::clone(&router), stop.clone());
        tasks.spawn(async move {
            let closed = connection.closed();
            let served = take(stream, acceptor, &*router, connection, stop);
            tokio::select! {
                () = served => {}
                () = closed.cancelled() => {}
            }
        });
    }
    tasks.close();
    let _ = tokio::time::timeout(GRACE, tasks.wait()).await;
}

/// Shakes hands if that is asked for, and answers.
async fn take(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: impl Fn(&[CertificateDer<'static>]) -> Router,
    connection: Connection,
    stop: CancellationToken,
) {
    // Keystrokes and log lines are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    let Some(acceptor) = acceptor else {
        return answer(stream, router(&[]), connection, stop).await;
    };
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else {
        return;
    };
    let (_, session) = stream.get_ref();
    let router = router(session.peer_certificates().unwrap_or_default());
    answer(stream, router, connection, stop).await;
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    connection: Connection,
    stop: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let under_way = connection.begin();
        let answered = router.clone().oneshot(request.map(Body::new));
        async move {
            let response = answered.await?;
            Ok::<_, Infallible>(response.map(|body| under_way.until_sent(body)))
        }
    });
    let mut serving =
        std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        // A client that goes away in the middle is no event of ours.
        _ = serving.as_mut() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(GRACE, serving).await;
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Lets this process have as many file descriptors as it may, within reason: shells and service managers give
/// 1024 to whoever does not ask.
pub fn take_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let most = limits.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limits.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: limits.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "failed to raise the limit of open files");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn ask(stream: &mut TcpStream) -> String {
        let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn whoever_says_nothing_makes_room_for_whoever_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().fallback(|| async { "here" });
        let serving = serve_at_most(4, listener, None, move |_| router.clone(), stop.clone());
        let serving = tokio::spawn(serving);
        let mut silent = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost").await.unwrap();
            silent.push(stream);
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut asking).await.ends_with("here"));
        let mut oldest = silent.remove(0);
        assert!(matches!(oldest.read(&mut [0; 1]).await, Ok(0) | Err(_)));
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_does_not_read_holds_little_of_the_kernels_memory() {
        const PIECE: usize = 16 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (taken, mut pieces) = tokio::sync::watch::channel(0);
        let router = Router::new().fallback(async move || {
            let endless = futures::stream::repeat_with(move || {
                taken.send_modify(|taken| *taken += 1);
                Ok::<_, Infallible>(vec![0; PIECE])
            });
            Body::from_stream(endless)
        });
        let serving = serve(listener, None, move |_| router.clone(), stop.clone());
        let serving = tokio::spawn(serving);
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        pieces.changed().await.unwrap();
        let second = Duration::from_secs(1);
        while tokio::time::timeout(second, pieces.changed()).await.is_ok() {}
        let taken = *pieces.borrow() * PIECE;
        assert!(taken < 1024 * 1024, "{taken} bytes");
        stop.cancel();
        serving.await.unwrap();
    }
}
