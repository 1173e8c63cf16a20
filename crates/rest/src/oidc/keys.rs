//! The provider's keys, which it may change at any time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use super::{Error, Result, decode, fetch};

/// Keys older than this are asked for again.
const FRESH: Duration = Duration::from_hours(1);

/// A token with an unknown key has them asked for, but not more often than this: anybody can send one.
const PAUSE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Keys {
    known: Mutex<Option<(Instant, Arc<KeySet>)>>,
    /// One request at a time.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

/// A key of a JSON web key set, as far as signatures need it.
#[derive(Deserialize)]
struct Key {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

impl Keys {
    pub(super) async fn verify(
        &self,
        client: &reqwest::Client,
        url: &str,
        token: &str,
    ) -> Result<()> {
        let (signed, signature) = token
            .rsplit_once('.')
            .ok_or(Error::Token("it cannot be read"))?;
        let head = signed
            .split_once('.')
            .and_then(|(head, _)| decode(head))
            .ok_or(Error::Token("it cannot be read"))?;
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| Error::Token("it cannot be read"))?;
        let algorithm = head["alg"].as_str().unwrap_or_default();
        let id = head["kid"].as_str();
        let known = self.current(client, url, Duration::ZERO).await?;
        let verified = |keys: &KeySet| {
            // Without an identifier any key of the right kind may be meant.
            let mut fitting = keys.keys.iter().filter(|key| key.fits(id, algorithm));
            fitting.any(|key| key.verify(algorithm, signed.as_bytes(), &signature))
        };
        if verified(&known) {
            return Ok(());
        }
        let is_known = known.keys.iter().any(|key| key.fits(id, algorithm));
        if id.is_some() && is_known {
            return Err(Error::Token("its signature is wrong"));
        }
        // The provider may have a new key.
        let renewed = self.current(client, url, PAUSE).await?;
        if verified(&renewed) {
            Ok(())
        } else {
            Err(Error::Token("its signature is wrong"))
        }
    }

    /// The keys; asked for anew when they are old, or with `renew` when they are older than that.
    async fn current(
        &self,
        client: &reqwest::Client,
        url: &str,
        renew: Duration,
    ) -> Result<Arc<KeySet>> {
        let limit = if renew.is_zero() { FRESH } else { renew };
        let known = || {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known
                .as_ref()
                .filter(|(at, _)| at.elapsed() < limit)
                .map(|(_, keys)| Arc::clone(keys))
        };
        if let Some(keys) = known() {
            return Ok(keys);
        }
        let _asking = self.asking.lock().await;
        if let Some(keys) = known() {
            return Ok(keys);
        }
        let keys: Arc<KeySet> = Arc::new(fetch(client, url).await?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }
}

impl Key {
    /// Whether a token with this head may have been signed with it.
    fn fits(&self, id: Option<&str>, algorithm: &str) -> bool {
        let kind = match algorithm {
            "RS256" | "RS384" | "RS512" => "RSA",
            "ES256" | "ES384" => "EC",
            _ => return false,
        };
        self.kty == kind
            && self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.alg.as_deref().is_none_or(|own| own == algorithm)
            && id.is_none_or(|id| self.kid.as_deref() == Some(id))
    }

    fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let rsa = |parameters: &'static RsaParameters| {
            let (Some(n), Some(e)) = (part(&self.n), part(&self.e)) else {
                return false;
            };
            RsaPublicKeyComponents { n, e }
                .verify(parameters, message, signature)
                .is_ok()
        };
        let curve = |name: &str, algorithm: &'static dyn VerificationAlgorithm| {
            let (Some(x), Some(y)) = (part(&self.x), part(&self.y)) else {
                return false;
            };
            let point = [vec![4], x, y].concat();
            self.crv == name
                && UnparsedPublicKey::new(algorithm, point)
                    .verify(message, signature)
                    .is_ok()
        };
        match algorithm {
            "RS256" => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "ES256" => curve("P-256", &signature::ECDSA_P256_SHA256_FIXED),
            "ES384" => curve("P-384", &signature::ECDSA_P384_SHA384_FIXED),
            _ => false,
        }
    }
}
