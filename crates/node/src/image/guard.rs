//! What keeps users from reaching through the node what they cannot reach themselves.
//!
//! The name of an image, the realm that its registry names and the redirections that it answers with all
//! make the node send requests. So the client of registries sends everything through this small proxy,
//! which connects to addresses of the open internet only. The address is looked at when the connection is
//! made, because a name can change what it stands for between a check and its use.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use astrago_net::is_public;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// The head of a request to the proxy.
const HEAD_MAX: usize = 8 << 10;

/// A proxy that lives as long as this.
pub(super) struct Guard {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Guard {
    pub(super) async fn start() -> io::Result<Self> {
        Self::trusting(None).await
    }

    /// Lets connections to one address through wherever it is.
    pub(super) async fn trusting(address: Option<SocketAddr>) -> io::Result<Self> {
        let trusted = address;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let mut tunnels = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                tunnels.spawn(async move { tunnel(client, trusted).await.is_ok() });
                while tunnels.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Where the client of registries finds it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Whether the host of a registry, perhaps with a port, is this machine or in a private network. A name
/// that is not known is neither.
pub(super) async fn is_private(host: &str) -> bool {
    let ports = ["", ":443"];
    for port in ports {
        if let Ok(found) = tokio::net::lookup_host(format!("{host}{port}")).await {
            return found.into_iter().any(|address| !is_public(address.ip()));
        }
    }
    false
}

/// Whether the environment names a proxy: then it is that one which decides what can be reached.
pub(super) fn has_proxy() -> bool {
    let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    names
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// One connection. Only tunnels are made, as for TLS: without it, anybody on the way could change an image.
async fn tunnel(mut client: TcpStream, trusted: Option<SocketAddr>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let target = (words.next() == Some("CONNECT")).then(|| words.next());
    let server = match target.flatten() {
        Some(target) => connect(target, trusted).await,
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    let Ok(mut server) = server else {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn connect(target: &str, trusted: Option<SocketAddr>) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host(target).await?.collect();
    let may = |address: &SocketAddr| is_public(address.ip()) || Some(*address) == trusted;
    if !found.iter().all(may) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    TcpStream::connect(found.as_slice()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_registry_on_this_machine_is_known_by_any_name() {
        for host in [
            "127.0.0.1:5000",
            "localhost",
            "localhost:5000",
            "[::1]:5000",
            "2130706433",
        ] {
            assert!(is_private(host).await, "{host}");
        }
        assert!(!is_private("93.184.216.34:443").await);
    }

    #[tokio::test]
    async fn neither_this_machine_nor_plain_requests_get_through() {
        let inside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = inside.local_addr().unwrap().port();
        let guard = Guard::start().await.unwrap();
        for request in [
            format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"),
            format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"),
            format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"),
        ] {
            let mut client = TcpStream::connect(guard.address).await.unwrap();
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
        }
    }
}
