//! Bearer tokens: the administrator's, those in Secrets, and those of service accounts.
//!
//! A user's token is a Secret of type `astrago.io/token` in the system namespace, with `user`, `groups`
//! (separated by commas or lines) and either `token` or, better, `token-sha256` in hexadecimal; `expires-at`
//! (seconds since 1970) ends it. They are
//! found by their digest, so the time that a look-up takes says nothing about any token.
//!
//! A service account's token is signed rather than stored: `v1.CLAIMS.SIGNATURE` in the form of a JSON
//! web token, with a key that only this server has. It ends with its time, its account or its pod.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::identity::{ADMIN, Identity, MASTERS};
use crate::store::{Change, Event, Name, Object, Query, Store};

/// The namespace that tokens of users lie in.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const SECRET_TYPE: &str = "astrago.io/token";

/// Who issues service accounts' tokens, and the audience of those that are for this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// Extras of an identity: the Secret that its token is in, and when it ends.
const TOKEN_EXTRA: &str = "authentication.astrago.io/token";
const EXPIRY_EXTRA: &str = "authentication.astrago.io/expires-at";

type Hash = [u8; 32];

/// The tokens that are valid now.
pub(crate) struct Tokens {
    admin: Vec<Hash>,
    users: RwLock<HashMap<Hash, User>>,
    key: hmac::Key,
}

/// Who a token in a Secret belongs to, and until when.
struct User {
    secret: Name,
    identity: Identity,
    expires: i64,
}

impl Tokens {
    pub(crate) fn new(admin: &[String], key: [u8; 32], store: &Store) -> Self {
        let tokens = Self {
            admin: admin
                .iter()
                .filter(|one| !one.is_empty())
                .map(|one| digest(one))
                .collect(),
            users: RwLock::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        };
        let query = Query {
            namespace: NAMESPACE,
            ..Query::default()
        };
        for object in store
            .list("secrets", &query)
            .map(|page| page.objects)
            .unwrap_or_default()
        {
            tokens.learn(&object);
        }
        tokens
    }

    /// Follows a committed event, and tells whether a token may have become valid or invalid by it.
    pub(crate) fn observe(&self, resource: &str, event: &Event) -> bool {
        if resource == "serviceaccounts" {
            return event.change == Change::Deleted;
        }
        if resource != "secrets" || &*event.object.name.namespace != NAMESPACE {
            return false;
        }
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, user| user.secret != event.object.name);
        drop(users);
        if event.change != Change::Deleted {
            self.learn(&event.object);
        }
        true
    }

    fn learn(&self, object: &Object) {
        if object.field("type") != Some(SECRET_TYPE) {
            return;
        }
        if let Some((hash, mut identity, expires)) = parse_secret(&object.value()) {
            // Whoever is called as the administrator is must be one, or would be taken for them.
            if &*identity.user == ADMIN && !identity.is_in(MASTERS) {
                let secret = &object.name.name;
                tracing::warn!(%secret, "a token is ignored: the user name \"admin\" is the administrator's; add the user under another name");
                return;
            }
            let mut extra = vec![(TOKEN_EXTRA.to_owned(), vec![object.name.name.to_string()])];
            if expires < i64::MAX {
                extra.push((EXPIRY_EXTRA.to_owned(), vec![expires.to_string()]));
            }
            identity.extra = extra.into();
            let user = User {
                secret: object.name.clone(),
                identity,
                expires,
            };
            let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
            users.insert(hash, user);
        }
    }

    /// Whose token this is, if it is for this server.
    pub(crate) fn identify(&self, store: &Store, token: &str, now: i64) -> Option<Identity> {
        let (identity, _) = self.identify_for(store, token, now, &[ISSUER])?;
        Some(identity)
    }

    /// Whose token this is, if it is for one of `audiences`; and for which of them it is. Tokens that
    /// are not bound to audiences are for this server.
    pub(crate) fn identify_for(
        &self,
        store: &Store,
        token: &str,
        now: i64,
        audiences: &[&str],
    ) -> Option<(Identity, Vec<String>)> {
        let meant = |of: &[String]| -> Vec<String> {
            let named = of.iter().filter(|one| audiences.contains(&one.as_str()));
            named.cloned().collect()
        };
        let (identity, of) = match self.identify_user(token, now) {
            Some(identity) => (identity, vec![ISSUER.to_owned()]),
            None => self.identify_service_account(store, token, now)?,
        };
        let meant = meant(&of);
        (!meant.is_empty()).then_some((identity, meant))
    }

    fn identify_user(&self, token: &str, now: i64) -> Option<Identity> {
        let hash = digest(token);
        if self.admin.contains(&hash) {
            return Some(Identity::admin());
        }
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let user = users.get(&hash).filter(|user| user.expires > now)?;
        Some(user.identity.clone())
    }

    /// A token of a service account for `audiences`, or for this server if there are none; valid until
    /// `expires` (seconds since 1970).
    pub(crate) fn issue(
        &self,
        account: &Object,
        pod: Option<&Object>,
        audiences: &[&str],
        now: i64,
        expires: i64,
    ) -> String {
        let audiences = if audiences.is_empty() {
            &[ISSUER]
        } else {
            audiences
        };
        let (namespace, name) = (&*account.name.namespace, &*account.name.name);
        let reference =
            |object: &Object| json!({ "name": *object.name.name, "uid": *object.meta.uid });
        let claims = json!({
            "iss": ISSUER,
            "aud": audiences,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": now,
            "exp": expires,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": reference(account),
                "pod": pod.map(reference),
            },
        });
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The account and the audiences of a token that is valid.
    fn identify_service_account(
        &self,
        store: &Store,
        token: &str,
        now: i64,
    ) -> Option<(Identity, Vec<String>)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        if claims["exp"].as_i64()? <= now {
            return None;
        }
        let bound = &claims["kubernetes.io"];
        let namespace = bound["namespace"].as_str()?;
        let alive = |resource: &str, reference: &Value| {
            let name = Name::new(namespace, reference["name"].as_str()?);
            let object = store.get(resource, &name)?;
            (Some(&*object.meta.uid) == reference["uid"].as_str()).then_some(())
        };
        alive("serviceaccounts", &bound["serviceaccount"])?;
        if !bound["pod"].is_null() {
            alive("pods", &bound["pod"])?;
        }
        let mut identity =
            Identity::service_account(namespace, bound["serviceaccount"]["name"].as_str()?);
        identity.uid = bound["serviceaccount"]["uid"].as_str()?.into();
        // As Kubernetes tells it, so that a token can be held against the pod that it was given to.
        let pod = ["name", "uid"].iter().filter_map(|field| {
            let value = bound["pod"][field].as_str()?.to_owned();
            let name = format!("authentication.kubernetes.io/pod-{field}");
            Some((name, vec![value]))
        });
        identity.extra = pod.collect();
        let audiences = match &claims["aud"] {
            // Issued before tokens had audiences.
            Value::Null => vec![ISSUER.to_owned()],
            audiences => serde_json::from_value(audiences.clone()).ok()?,
        };
        Some((identity, audiences))
    }
}

fn parse_secret(secret: &Value) -> Option<(Hash, Identity, i64)> {
    let field = |name: &str| -> Option<String> {
        let encoded = secret["data"][name].as_str()?;
        let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let hash = match field("token-sha256") {
        Some(hex) => parse_hex(&hex)?,
        None => digest(&field("token")?),
    };
    let groups = field("groups").unwrap_or_default();
    let groups: Vec<&str> = groups
        .split([',', '\n'])
        .map(str::trim)
        .filter(|group| !group.is_empty())
        .collect();
    // A time that cannot be read is one that has passed: a slip must not make a token eternal.
    let expires = match field("expires-at") {
        Some(text) => text.parse().unwrap_or(i64::MIN),
        None => i64::MAX,
    };
    Some((hash, Identity::user(&field("user")?, &groups), expires))
}

fn parse_hex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text, &mut hash).ok()?;
    Some(hash)
}

fn digest(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_name_their_user_by_token_or_digest() {
        let encode = |text: &str| Value::from(STANDARD.encode(text));
        let plain = json!({ "data": { "user": encode("ann"), "token": encode("t\n"), "groups": encode("a, b") } });
        let (hash, identity, expires) = parse_secret(&plain).unwrap();
        assert_eq!(hash, digest("t"));
        assert_eq!((&*identity.user, expires), ("ann", i64::MAX));
        assert!(
            identity.is_in("a") && identity.is_in("b") && identity.is_in("system:authenticated")
        );
        let hex = hex::encode(digest("t"));
        let hashed = json!({ "data": { "user": encode("ann"), "token-sha256": encode(&hex) } });
        assert_eq!(parse_secret(&hashed).unwrap().0, hash);
        assert!(parse_secret(&json!({ "data": { "user": encode("ann") } })).is_none());
        let ends = |text: &str| {
            let data =
                json!({ "user": encode("ann"), "token": encode("t"), "expires-at": encode(text) });
            parse_secret(&json!({ "data": data })).unwrap().2
        };
        assert_eq!(
            (ends("1800000000"), ends("tomorrow")),
            (1_800_000_000, i64::MIN)
        );
        assert!(
            parse_secret(&json!({ "data": { "user": encode("a"), "token-sha256": encode("é") } }))
                .is_none()
        );
    }
}
