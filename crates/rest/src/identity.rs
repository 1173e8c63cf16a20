//! Who is calling, and acting in their name.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use crate::app::{Error, Result};
use crate::form::name;
use crate::model::Refusal;

/// The group whose members may do everything, in any Kubernetes.
pub(crate) const MASTERS: &str = "system:masters";

/// The name of the administrator of this machine.
pub(crate) const ADMIN: &str = "admin";

/// Whether a name is one of the system's own, so that whoever bore it would be taken for somebody else.
pub(crate) fn is_reserved(user: &str) -> bool {
    user.starts_with("system:") || name::user_label(user).is_ok_and(|label| label == ADMIN)
}

/// How long an answer about a token is believed; a revoked token lives on for at most this long.
const TOKEN_LIFETIME: Duration = Duration::from_secs(10);

/// How long an answer about a right is believed.
const ACCESS_LIFETIME: Duration = Duration::from_secs(5);

/// While the API server does not answer at all, what it said before is believed for this long: users go on seeing their
/// jobs, and nothing can be changed anyway.
const OUTAGE: Duration = Duration::from_mins(15);

/// A person or program that has proved who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    /// The Secret that the token is kept in, where it is one of ours.
    pub(crate) token: Option<String>,
    /// When the token ends, in seconds since 1970.
    pub(crate) expires_at: Option<i64>,
    /// Whether the cluster's rules let them do everything.
    pub(crate) admin: bool,
    /// What they proved it with.
    pub(crate) credential: Option<Credential>,
}

impl Caller {
    /// The administrator of this machine.
    pub(crate) fn admin() -> Self {
        Self {
            user: ADMIN.to_owned(),
            groups: vec![MASTERS.to_owned()],
            token: None,
            expires_at: None,
            admin: true,
            credential: None,
        }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.admin || self.groups.iter().any(|group| group == MASTERS)
    }

    /// The caller's name as the form's `user_id` and labels have it. The names of service accounts and
    /// of people from an identity provider have colons in them, which neither can have.
    pub(crate) fn label(&self) -> Result<String, Refusal> {
        let name = self.user.strip_prefix("system:serviceaccount:");
        name::user_label(&name.unwrap_or(&self.user).replace(':', "-"))
    }
}

/// A bearer token; never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential(Arc<str>);

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

/// What a caller wants to do, as RBAC sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: &'static str,
    /// Empty for all namespaces.
    pub(crate) namespace: String,
}

impl Access {
    pub(crate) fn jobs(verb: &'static str, namespace: &str) -> Self {
        Self {
            verb,
            group: "trainer.kubeflow.org",
            resource: "trainjobs",
            subresource: "",
            namespace: namespace.to_owned(),
        }
    }

    /// Everything everywhere.
    fn everything() -> Self {
        Self {
            verb: "*",
            group: "*",
            resource: "*",
            subresource: "",
            namespace: String::new(),
        }
    }

    pub(crate) fn core(verb: &'static str, resource: &'static str, namespace: &str) -> Self {
        Self {
            verb,
            group: "",
            resource,
            subresource: "",
            namespace: namespace.to_owned(),
        }
    }
}

/// Asks the API server who callers are and what they may do, and remembers the answers briefly.
pub(crate) struct Gate {
    client: Client,
    bearer: Option<Client>,
    tokens: Memory<[u8; 32], Option<Caller>>,
    rights: Memory<(String, Vec<String>, Access), bool>,
}

impl Gate {
    /// With a `bearer` client, callers act with their own token; else `client` impersonates them.
    pub(crate) fn new(client: Client, bearer: Option<Client>) -> Self {
        Self {
            client,
            bearer,
            tokens: Memory::new(TOKEN_LIFETIME),
            rights: Memory::new(ACCESS_LIFETIME),
        }
    }

    /// Who a bearer token belongs to.
    pub(crate) async fn caller(&self, token: &str) -> Result<Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.tokens.get(&digest) {
            return known.ok_or(Error::Unauthenticated);
        }
        let caller = match self.review(token).await {
            Ok(caller) => caller,
            Err(error) => {
                let before = self.tokens.within(&digest, OUTAGE).flatten();
                return before.filter(|_| error.is_outage()).ok_or(error);
            }
        };
        self.tokens.put(digest, caller.clone());
        caller.ok_or(Error::Unauthenticated)
    }

    /// Asks the API server about a token.
    async fn review(&self, token: &str) -> Result<Option<Caller>> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| Error::cluster("check the token", error))?;
        let caller = review
            .status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| {
                let user = status.user?;
                let extra = |name: &str| user.extra.as_ref()?.get(name)?.first().cloned();
                Some(Caller {
                    token: extra("authentication.astrago.io/token"),
                    expires_at: extra("authentication.astrago.io/expires-at")
                        .and_then(|text| text.parse().ok()),
                    user: user.username?,
                    groups: user.groups.unwrap_or_default(),
                    admin: false,
                    credential: Some(Credential(token.into())),
                })
            });
        Ok(match caller {
            Some(mut caller) if self.bearer.is_some() => {
                // On a cluster administrators are those whom its rules make so.
                caller.admin = self.may(&caller, &Access::everything()).await?;
                Some(caller)
            }
            other => other,
        })
    }

    /// Asks again about every token; one of them was taken back.
    pub(crate) fn forget_tokens(&self) {
        self.tokens.clear();
    }

    /// Whether the caller may do this; RBAC decides.
    pub(crate) async fn may(&self, caller: &Caller, access: &Access) -> Result<bool> {
        if caller.is_admin() {
            return Ok(true);
        }
        let key = (caller.user.clone(), caller.groups.clone(), access.clone());
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: some(access.verb),
                    group: some(access.group),
                    resource: some(access.resource),
                    subresource: some(access.subresource),
                    namespace: some(&access.namespace),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client(caller));
        let review = api
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| Error::cluster("check the caller's rights", error));
        let review = match review {
            Ok(review) => review,
            Err(error) => {
                let before = self.rights.within(&key, OUTAGE);
                return before.filter(|_| error.is_outage()).ok_or(error);
            }
        };
        let allowed = review.status.is_some_and(|status| status.allowed);
        self.rights.put(key, allowed);
        Ok(allowed)
    }

    /// The same, as an error for those who may not.
    pub(crate) async fn demand(&self, caller: &Caller, access: &Access) -> Result<()> {
        if self.may(caller, access).await? {
            return Ok(());
        }
        let (verb, resource, namespace) = (access.verb, access.resource, &access.namespace);
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!(" in namespace {namespace:?}")
        };
        Err(Error::Forbidden(format!(
            "{} may not {verb} {resource}{place}",
            caller.user
        )))
    }

    /// A client that acts as the caller.
    pub(crate) fn client(&self, caller: &Caller) -> Client {
        match (&self.bearer, &caller.credential) {
            (Some(bearer), Some(credential)) => bear(bearer, credential),
            _ => impersonate(&self.client, caller),
        }
    }
}

/// A client that sends `inner`'s requests with the caller's own token.
fn bear(inner: &Client, credential: &Credential) -> Client {
    let inner = inner.clone();
    let namespace = inner.default_namespace().to_owned();
    let credential = credential.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        // A token that is no header value was not accepted in the first place.
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", credential.0)) {
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        async move { inner.send(request).await }
    });
    Client::new(service.map_err(tower::BoxError::from), namespace)
}

/// A client that sends `inner`'s requests with Kubernetes' impersonation headers.
fn impersonate(inner: &Client, caller: &Caller) -> Client {
    let inner = inner.clone();
    let namespace = inner.default_namespace().to_owned();
    let caller = caller.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        let headers = request.headers_mut();
        // A name that is no header value cannot come from an authenticator; if it did, the empty
        // name is one that is refused.
        let value = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes()).unwrap_or(HeaderValue::from_static(""))
        };
        headers.insert("impersonate-user", value(&caller.user));
        for group in &caller.groups {
            headers.append("impersonate-group", value(group));
        }
        async move { inner.send(request).await }
    });
    Client::new(service.map_err(tower::BoxError::from), namespace)
}

/// A small map whose entries expire.
struct Memory<K, V> {
    lifetime: Duration,
    entries: Mutex<HashMap<K, (Instant, V)>>,
}

/// Beyond this many entries the expired ones are thrown out, and if that is not enough, all.
const MEMORY_LIMIT: usize = 10_000;

impl<K: std::hash::Hash + Eq, V: Clone> Memory<K, V> {
    fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            entries: Mutex::new(HashMap::new()),
        }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.within(key, self.lifetime)
    }

    /// An answer that may be older than answers are believed for.
    fn within(&self, key: &K, age: Duration) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, value) = entries.get(key)?;
        (at.elapsed() < age).then(|| value.clone())
    }

    fn clear(&self) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.clear();
    }

    fn put(&self, key: K, value: V) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MEMORY_LIMIT {
            entries.retain(|_, (at, _)| at.elapsed() < self.lifetime);
        }
        if entries.len() >= MEMORY_LIMIT {
            entries.clear();
        }
        entries.insert(key, (Instant::now(), value));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("admin", true)]
    #[case("Admin", true)]
    #[case("system:node:a", true)]
    #[case("administrator", false)]
    #[case("김", false)]
    fn names_of_the_system_are_reserved(#[case] user: &str, #[case] want: bool) {
        assert_eq!(is_reserved(user), want);
    }

    #[rstest]
    #[case("kim", "kim")]
    #[case("kim@example.com", "kim-example-com")]
    #[case("system:serviceaccount:team:kim", "team-kim")]
    #[case("oidc:kim", "oidc-kim")]
    fn the_names_of_clusters_become_labels(#[case] user: &str, #[case] want: &str) {
        let caller = Caller {
            user: user.to_owned(),
            ..Caller::admin()
        };
        assert_eq!(caller.label().as_deref(), Ok(want));
    }
}
