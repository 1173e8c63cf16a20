//! Tokens of service accounts for `projected.serviceAccountToken` volumes.
//!
//! Each is bound to its pod, so it ends with it, and to its audience, so that whom it was meant for
//! cannot use it elsewhere. It is replaced when a fifth of its time is left, as kubelets do.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// How long a token lives that does not say.
const USUAL: i64 = 3600;
/// No token is older, however long it lives.
const OLDEST: i64 = 24 * 3600;

/// What tells the tokens of one pod apart: audience and lifetime.
pub(super) type Kind = (String, i64);

/// The tokens that were issued, by the pod's UID. A new agent asks for new ones.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<BTreeMap<String, BTreeMap<Kind, Issued>>>);

#[derive(Clone, Debug)]
struct Issued {
    token: String,
    at: Timestamp,
    until: Timestamp,
}

impl Tokens {
    /// The token that a volume's source asks for.
    pub(super) async fn get(
        &self,
        client: &Client,
        pod: &Pod,
        kind: &Kind,
    ) -> kube::Result<String> {
        let uid = pod.uid().unwrap_or_default();
        let known = self.lock().get(&uid).and_then(|of| of.get(kind).cloned());
        let now = Timestamp::now();
        if let Some(known) = known.as_ref().filter(|known| !known.is_due(now)) {
            return Ok(known.token.clone());
        }
        match issue(client, pod, kind, now).await {
            Ok(issued) => {
                let token = issued.token.clone();
                let mut all = self.lock();
                all.entry(uid).or_default().insert(kind.clone(), issued);
                Ok(token)
            }
            // It is good for a while yet; the next refresh tries again.
            Err(error) => match known.filter(|known| known.until > now) {
                Some(known) => {
                    tracing::warn!(%error, pod = %pod.name_any(), "a token could not be renewed");
                    Ok(known.token)
                }
                None => Err(error),
            },
        }
    }

    /// The pod is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<Kind, Issued>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells this token from others of the pod.
pub(super) fn kind(source: &ServiceAccountTokenProjection) -> Kind {
    (
        source.audience.clone().unwrap_or_default(),
        source.expiration_seconds.unwrap_or(USUAL),
    )
}

async fn issue(
    client: &Client,
    pod: &Pod,
    (audience, seconds): &Kind,
    now: Timestamp,
) -> kube::Result<Issued> {
    let accounts: Api<ServiceAccount> =
        Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.clone())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".to_owned());
    let audiences = Some(vec![audience.clone()]).filter(|_| !audience.is_empty());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences,
            expiration_seconds: Some(*seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(pod.name_any()),
                uid: pod.uid(),
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(&account, &PostParams::default(), &request)
        .await?;
    let status = answer.status.unwrap_or_default();
    Ok(Issued {
        token: status.token.unwrap_or_default(),
        at: now,
        until: status.expiration_timestamp.map_or(now, |time| time.0),
    })
}

impl Issued {
    fn is_due(&self, now: Timestamp) -> bool {
        let age = now.as_second() - self.at.as_second();
        let life = self.until.as_second() - self.at.as_second();
        age > OLDEST || age * 5 >= life * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_when_a_fifth_of_its_time_is_left_or_a_day_is_over() {
        let at = Timestamp::from_second(1_000_000).unwrap();
        let issued = |life: i64| Issued {
            token: String::new(),
            at,
            until: Timestamp::from_second(at.as_second() + life).unwrap(),
        };
        let after = |seconds: i64| Timestamp::from_second(at.as_second() + seconds).unwrap();
        assert!(!issued(3600).is_due(after(2879)));
        assert!(issued(3600).is_due(after(2880)));
        assert!(!issued(30 * OLDEST).is_due(after(OLDEST)));
        assert!(issued(30 * OLDEST).is_due(after(OLDEST + 1)));
    }
}
