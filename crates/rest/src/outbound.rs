//! Requests that the server itself sends to addresses that users name.
//!
//! A user must not reach through us what they cannot reach themselves: this machine, its network,
//! a cloud's metadata service. So the addresses that a name stands for are looked at when the
//! connection is made (a name can change what it stands for between a check and its use), and
//! redirects are not followed.

use crate::model::Refusal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use astrago_net::is_public;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// How long a receiver has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests to where users may send them.
pub(crate) struct Outbound {
    client: reqwest::Client,
    allow_private: bool,
}

/// Why a request was not sent or not answered well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the address cannot be used: {0}")]
    Refused(Refusal),
    #[error("the receiver did not answer in time")]
    Timeout,
    #[error("the receiver could not be reached")]
    Unreachable,
    #[error("the receiver answered {0}")]
    Status(u16),
}

impl Outbound {
    pub(crate) fn new(allow_private: bool) -> reqwest::Result<Self> {
        // Another part of the process may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("astrago/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(Guarded { allow_private }))
            .build()?;
        Ok(Self {
            client,
            allow_private,
        })
    }

    /// Checks an address as far as that is possible without asking for its name.
    pub(crate) fn check(&self, text: &str) -> Result<Url, Refusal> {
        if text.len() > 2048 {
            return Err(Refusal::TooLong {
                limit: 2048,
                has: None,
            });
        }
        let url = Url::parse(text).map_err(|_| "must be an address such as https://host/path")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with https:// or http://".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "must not have a name or password in it; check the signature instead".into(),
            );
        }
        // Parsing has brought every way to write an address into one form.
        let host = url.host_str().ok_or("must name a host")?;
        let host = host.trim_end_matches('.');
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        let local = host == "localhost" || host.ends_with(".localhost");
        let address = match literal {
            Ok(address) => Some(address),
            Err(_) => local.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        };
        if address.is_some_and(|address| !self.allow_private && !is_public(address)) {
            return Err(Refusal::Private);
        }
        Ok(url)
    }

    /// Sends a body; anything but a 2xx is an error.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: String,
    ) -> Result<u16, Error> {
        let url = self.check(url).map_err(Error::Refused)?;
        let mut request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.map_err(|error| classify(&error))?;
        let status = response.status();
        if status.is_success() {
            Ok(status.as_u16())
        } else {
            Err(Error::Status(status.as_u16()))
        }
    }
}

/// What went wrong, without what would tell a user about the network behind this server.
fn classify(error: &reqwest::Error) -> Error {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if cause.is::<PrivateAddress>() {
            return Error::Refused(Refusal::Private);
        }
        source = cause.source();
    }
    if error.is_timeout() {
        Error::Timeout
    } else {
        Error::Unreachable
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the name stands for a private address")]
struct PrivateAddress;

/// Resolves names, and refuses those that stand for an address that users may not reach.
struct Guarded {
    allow_private: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !allow_private && found.iter().any(|address| !is_public(address.ip())) {
                return Err(PrivateAddress.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://127.0.0.1:9000/hook", false)]
    #[case("http://localhost/", false)]
    #[case("http://LOCALHOST./", false)]
    #[case("http://a.localhost/", false)]
    #[case("http://2130706433/", false)]
    #[case("http://0x7f.1/", false)]
    #[case("http://[::1]/", false)]
    #[case("http://[::ffff:10.0.0.1]/", false)]
    #[case("http://[64:ff9b::a00:1]/", false)]
    #[case("http://[2002:a00:1::]/", false)]
    #[case("http://[fe80::1]/", false)]
    #[case("http://[fd00::1]/", false)]
    #[case("http://169.254.169.254/latest/meta-data", false)]
    #[case("http://10.1.2.3/", false)]
    #[case("http://172.31.0.1/", false)]
    #[case("http://192.168.1.1/", false)]
    #[case("http://100.64.0.1/", false)]
    #[case("http://0.0.0.0/", false)]
    #[case("ftp://example.com/", false)]
    #[case("file:///etc/passwd", false)]
    #[case("https://user:secret@example.com/", false)]
    #[case("example.com", false)]
    #[case("", false)]
    #[case("https://93.184.216.34/hook", true)]
    #[case("https://[2606:2800:220:1::1]/", true)]
    #[case("https://hooks.example.com/training?x=1", true)]
    fn only_the_open_internet_is_told(#[case] url: &str, #[case] want: bool) {
        let outbound = Outbound::new(false).unwrap();
        assert_eq!(
            outbound.check(url).is_ok(),
            want,
            "{:?}",
            outbound.check(url)
        );
    }

    #[test]
    fn an_administrator_can_allow_private_addresses() {
        let outbound = Outbound::new(true).unwrap();
        assert!(outbound.check("http://127.0.0.1:9000/hook").is_ok());
        assert!(outbound.check("file:///etc/passwd").is_err());
    }

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_refused_when_it_is_used() {
        let guarded = Guarded {
            allow_private: false,
        };
        let name = "localhost".parse().unwrap();
        let refused = guarded.resolve(name).await.err().unwrap();
        assert!(refused.is::<PrivateAddress>());
    }
}
