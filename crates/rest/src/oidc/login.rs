//! Browsers that are on their way to the provider and back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Error, Oidc, Result};

/// How long somebody has to sign in at the provider.
const PATIENCE_SECONDS: i64 = 600;

/// Beyond this many at once the oldest are forgotten.
const MOST: usize = 10_000;

/// The sign-ins that were begun, by their state.
#[derive(Default)]
pub(crate) struct Logins {
    begun: Mutex<HashMap<String, Begun>>,
}

struct Begun {
    at: i64,
    nonce: String,
    verifier: String,
    return_to: String,
}

/// Somebody who has signed in.
pub(crate) struct Finished {
    pub(crate) id_token: String,
    /// When the token ends, in seconds since 1970.
    pub(crate) expires_at: i64,
    /// The page that they wanted to see.
    pub(crate) return_to: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl Oidc {
    /// Begins a sign-in: where to send the browser, and the state that it must bring back.
    pub(crate) async fn begin(&self, return_to: &str, now: Timestamp) -> Result<(Url, String)> {
        let discovery = self.discovery().await?;
        let state = crate::random_text(40);
        let begun = Begun {
            at: now.as_second(),
            nonce: crate::random_text(40),
            verifier: crate::random_text(64),
            return_to: local_path(return_to),
        };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes()));
        let mut url = Url::parse(&discovery.authorization_endpoint)
            .map_err(|_| Error::Address(discovery.authorization_endpoint.clone()))?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.options.client_id)
            .append_pair("redirect_uri", &self.redirect_uri())
            .append_pair("scope", &self.options.scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &begun.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        self.logins.put(state.clone(), begun);
        Ok((url, state))
    }

    /// Ends a sign-in with the code that the browser brought back. A state works once.
    pub(crate) async fn finish(&self, state: &str, code: &str, now: Timestamp) -> Result<Finished> {
        let begun = self
            .logins
            .take(state, now.as_second())
            .ok_or(Error::UnknownLogin)?;
        let discovery = self.discovery().await?;
        let redirect_uri = self.redirect_uri();
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("client_id", &self.options.client_id),
            ("code_verifier", &begun.verifier),
        ];
        if let Some(secret) = &self.options.client_secret {
            form.push(("client_secret", secret));
        }
        let mut encoded = Url::parse("form:").map_err(|_| Error::CodeRefused)?;
        encoded.query_pairs_mut().extend_pairs(form);
        let response = self
            .client
            .post(&discovery.token_endpoint)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded.query().unwrap_or_default().to_owned())
            .send()
            .await
            .map_err(|source| Error::Provider {
                url: discovery.token_endpoint.clone(),
                source,
            })?;
        if !response.status().is_success() {
            return Err(Error::CodeRefused);
        }
        let answer: TokenAnswer = response.json().await.map_err(|_| Error::CodeRefused)?;
        let claims = self.verify(&answer.id_token, &begun.nonce, now).await?;
        Ok(Finished {
            id_token: answer.id_token,
            expires_at: claims["exp"].as_i64().unwrap_or_default(),
            return_to: begun.return_to,
        })
    }

    fn redirect_uri(&self) -> String {
        format!("{}/api/oidc/callback", self.options.public_url)
    }
}

impl Logins {
    fn put(&self, state: String, begun: Begun) {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            let oldest = begun.at - PATIENCE_SECONDS;
            all.retain(|_, other| other.at > oldest);
        }
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(state, begun);
    }

    fn take(&self, state: &str, now: i64) -> Option<Begun> {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = all.remove(state)?;
        (begun.at + PATIENCE_SECONDS > now).then_some(begun)
    }
}

/// A path of this server; anything else could send people to somebody else's page.
fn local_path(asked: &str) -> String {
    let strange = |c: char| c.is_control() || c == '\\';
    if asked.starts_with('/') && !asked.starts_with("//") && !asked.contains(strange) {
        asked.to_owned()
    } else {
        "/".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/jobs/demo?tab=logs", "/jobs/demo?tab=logs")]
    #[case("//evil.example", "/")]
    #[case("/\\evil.example", "/")]
    #[case("https://evil.example", "/")]
    #[case("", "/")]
    fn one_returns_to_a_page_of_this_server(#[case] asked: &str, #[case] want: &str) {
        assert_eq!(local_path(asked), want);
    }

    #[test]
    fn a_state_works_once_and_not_for_ever() {
        let logins = Logins::default();
        let begun = |at| Begun {
            at,
            nonce: String::new(),
            verifier: String::new(),
            return_to: String::new(),
        };
        logins.put("a".to_owned(), begun(0));
        logins.put("b".to_owned(), begun(0));
        assert!(logins.take("a", 10).is_some());
        assert!(logins.take("a", 10).is_none());
        assert!(logins.take("b", PATIENCE_SECONDS).is_none());
    }
}
