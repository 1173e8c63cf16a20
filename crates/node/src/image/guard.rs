//! What keeps users from reaching through the node what they cannot reach themselves.
//!
//! The name of an image, the realm that its registry names and the redirections that it answers with all
//! make the node send requests. So the client of registries sends everything through this small proxy,
//! which connects to addresses of the open internet only. The address is looked at when the connection is
//! made, because a name can change what it stands for between a check and its use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Whether an address belongs to the open internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let special = matches!(
        (first, second, third),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        // Unspecified, loopback, and IPv4 in its old and its mapped form; NAT64 and 6to4 lead to the IPv4
        // address inside.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, ..] | [0x100, 0, 0, 0, ..] | [0x2001, 0..=0x1ff | 0xdb8, ..] => false,
        // Only this block is given out to the internet.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("127.0.0.1", false)]
    #[case("::1", false)]
    #[case("::ffff:10.0.0.1", false)]
    #[case("64:ff9b::a00:1", false)]
    #[case("fe80::1", false)]
    #[case("fd00::1", false)]
    #[case("169.254.169.254", false)]
    #[case("100.64.0.1", false)]
    #[case("0.0.0.0", false)]
    #[case("93.184.216.34", true)]
    #[case("2606:2800:220:1::1", true)]
    fn only_the_open_internet_is_public(#[case] address: &str, #[case] want: bool) {
        assert_eq!(is_public(address.parse().unwrap()), want);
    }

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
