//! Signing in with an OpenID Connect provider.
//!
//! A browser is sent to the provider and comes back with a code (authorization code with PKCE), for which we get an id
//! token. [`Oidc::verify`] checks it: the signature by a key of the provider, the issuer, the audience, the times, and the
//! nonce that binds it to its request. Who it names, and what they may do, is the API server's to say: it is set up for
//! the same provider, and what people ask for is done with their own token. A program sends its id token as it is.

mod keys;
mod login;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::keys::Keys;
pub(crate) use self::login::Logins;

/// A provider, as the administrator describes it.
#[derive(Clone)]
pub struct OidcOptions {
    /// As it stands in its tokens, such as `https://login.example.com`.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// Where browsers reach this server, such as `https://train.example.com`.
    pub public_url: String,
    pub scopes: Vec<String>,
}

impl OidcOptions {
    pub fn new(issuer: &str, client_id: &str, public_url: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: None,
            public_url: public_url.trim_end_matches('/').to_owned(),
            scopes: ["openid", "email", "profile", "groups"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

/// Why somebody could not sign in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the provider's address {0:?} must begin with https://, or be on this machine")]
    Address(String),
    #[error("failed to ask the provider at {url}")]
    Provider { url: String, source: reqwest::Error },
    #[error("the provider calls itself {0:?}")]
    OtherIssuer(String),
    #[error("the provider refused the code")]
    CodeRefused,
    #[error("the token is refused: {0}")]
    Token(&'static str),
    #[error("this sign-in was not begun here, or too long ago")]
    UnknownLogin,
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// How far clocks may be apart.
const SKEW_SECONDS: i64 = 60;

/// How long the provider has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A provider that people sign in with.
pub(crate) struct Oidc {
    options: OidcOptions,
    client: reqwest::Client,
    keys: Keys,
    discovered: tokio::sync::OnceCell<Arc<Discovery>>,
    pub(crate) logins: Logins,
}

/// What a provider says of itself.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

/// The claims of a token that was verified.
pub(crate) type Claims = Map<String, Value>;

impl Oidc {
    pub(crate) fn new(options: OidcOptions) -> Result<Self> {
        check_address(&options.issuer)?;
        check_address(&options.public_url)?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(|source| Error::Provider {
                url: options.issuer.clone(),
                source,
            })?;
        Ok(Self {
            options,
            client,
            keys: Keys::default(),
            discovered: tokio::sync::OnceCell::new(),
            logins: Logins::default(),
        })
    }

    /// Checks everything about a token and returns what it says.
    pub(crate) async fn verify(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims> {
        let discovery = self.discovery().await?;
        self.keys
            .verify(&self.client, &discovery.jwks_uri, token)
            .await?;
        let claims = token.split('.').nth(1).and_then(decode);
        let Some(Value::Object(claims)) = claims else {
            return Err(Error::Token("it cannot be read"));
        };
        check_claims(&claims, &self.options, nonce, now.as_second())?;
        Ok(claims)
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.options.public_url.starts_with("https://")
    }

    async fn discovery(&self) -> Result<Arc<Discovery>> {
        let found = self.discovered.get_or_try_init(|| async {
            let issuer = self.options.issuer.trim_end_matches('/');
            let url = format!("{issuer}/.well-known/openid-configuration");
            let discovery: Discovery = self.fetch(&url).await?;
            if discovery.issuer.trim_end_matches('/') != issuer {
                return Err(Error::OtherIssuer(discovery.issuer));
            }
            for address in [
                &discovery.authorization_endpoint,
                &discovery.token_endpoint,
                &discovery.jwks_uri,
            ] {
                check_address(address)?;
            }
            Ok(Arc::new(discovery))
        });
        found.await.cloned()
    }

    async fn fetch<T: serde::de::DeserializeOwned>(&self, url: &str) -> Result<T> {
        fetch(&self.client, url).await
    }
}

async fn fetch<T: serde::de::DeserializeOwned>(client: &reqwest::Client, url: &str) -> Result<T> {
    let failed = |source| Error::Provider {
        url: url.to_owned(),
        source,
    };
    let response = client.get(url).send().await.map_err(failed)?;
    let response = response.error_for_status().map_err(failed)?;
    response.json().await.map_err(failed)
}

fn check_claims(claims: &Claims, options: &OidcOptions, nonce: &str, now: i64) -> Result<()> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let number = |name: &str| claims.get(name).and_then(Value::as_i64);
    // Some providers end their name with a slash, and administrators do or do not.
    let issuer = options.issuer.trim_end_matches('/');
    if text("iss").map(|name| name.trim_end_matches('/')) != Some(issuer) {
        return Err(Error::Token("it is of another issuer"));
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let client = options.client_id.as_str();
    if !audiences.contains(&client) {
        return Err(Error::Token("it is for another audience"));
    }
    if audiences.len() > 1 && text("azp").is_some_and(|party| party != client) {
        return Err(Error::Token("it was given to another party"));
    }
    if number("exp").is_none_or(|end| end + SKEW_SECONDS <= now) {
        return Err(Error::Token("it has expired"));
    }
    let future = |name: &str| number(name).is_some_and(|begin| begin > now + SKEW_SECONDS);
    if future("nbf") || future("iat") {
        return Err(Error::Token("it is not valid yet"));
    }
    if text("nonce") != Some(nonce) {
        return Err(Error::Token("it answers another request"));
    }
    Ok(())
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// What is sent to a provider must not travel in the clear, except within this machine.
fn check_address(address: &str) -> Result<()> {
    let refused = || Error::Address(address.to_owned());
    let url = Url::parse(address).map_err(|_| refused())?;
    let host = url.host_str().ok_or_else(refused)?;
    let local = host == "localhost"
        || host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(()),
        "http" if local => Ok(()),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn options() -> OidcOptions {
        OidcOptions::new(
            "https://login.example.com",
            "astrago",
            "https://train.example.com",
        )
    }

    fn claims(change: (&str, Value)) -> Claims {
        let mut claims = json!({
            "iss": "https://login.example.com", "aud": "astrago", "exp": 2000, "iat": 1000, "nonce": "n",
        });
        claims[change.0] = change.1;
        claims.as_object().unwrap().clone()
    }

    #[rstest]
    #[case::good(("extra", json!(1)), true)]
    #[case::several_audiences(("aud", json!(["other", "astrago"])), true)]
    #[case::other_audience(("aud", json!("other")), false)]
    #[case::no_audience(("aud", Value::Null), false)]
    #[case::other_issuer(("iss", json!("https://evil.example.com")), false)]
    #[case::expired(("exp", json!(1400)), false)]
    #[case::no_end(("exp", Value::Null), false)]
    #[case::future(("nbf", json!(1700)), false)]
    #[case::other_nonce(("nonce", json!("m")), false)]
    #[case::no_nonce(("nonce", Value::Null), false)]
    #[case::with_a_slash(("iss", json!("https://login.example.com/")), true)]
    fn claims_are_checked(#[case] change: (&str, Value), #[case] want: bool) {
        let got = check_claims(&claims(change), &options(), "n", 1500);
        assert_eq!(got.is_ok(), want, "{got:?}");
    }

    #[rstest]
    #[case("https://login.example.com", true)]
    #[case("http://127.0.0.1:9000", true)]
    #[case("http://login.example.com", false)]
    #[case("login", false)]
    fn providers_are_asked_over_tls(#[case] address: &str, #[case] want: bool) {
        assert_eq!(check_address(address).is_ok(), want);
    }
}
