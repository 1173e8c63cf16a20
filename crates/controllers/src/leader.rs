//! Leader election: of several copies of the controllers, only the holder of a Lease works.
//!
//! A holder is taken for dead when its Lease has not changed for the lease's duration *on the observer's own
//! monotonic clock*, so that clocks need not agree. A process that comes back under the same identity (embedded:
//! the data folder is locked, so there is only one) takes its lease over at once instead of waiting for itself.

use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;

/// Which lease, and who asks for it.
#[derive(Debug, Clone)]
pub struct Election {
    /// Namespace of the Lease; it must exist.
    pub namespace: String,
    pub name: String,
    /// Who we are. Two live processes never share an identity.
    pub identity: String,
    /// So long after its last sign of life a holder is taken for dead.
    pub duration: Duration,
}

/// Runs `work` whenever we hold the lease, until cancelled. `work` gets a token that is cancelled when the lease
/// is lost, and must be done soon after.
pub async fn lead<F, Fut>(
    client: Client,
    clock: SharedClock,
    election: Election,
    stop: CancellationToken,
    mut work: F,
) where
    F: FnMut(CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut candidate = Candidate {
        leases: Api::namespaced(client, &election.namespace),
        clock,
        election,
        observed: None,
    };
    while !stop.is_cancelled() {
        if !candidate.try_hold().await {
            stop.run_until_cancelled(tokio::time::sleep(candidate.pause()))
                .await;
            continue;
        }
        tracing::info!(
            lease = candidate.election.name,
            identity = candidate.election.identity,
            "leading"
        );
        let term = stop.child_token();
        tokio::join!(work(term.clone()), candidate.keep(&term));
    }
    candidate.release().await;
}

struct Candidate {
    leases: Api<Lease>,
    clock: SharedClock,
    election: Election,
    /// The version of the foreign lease that we saw last, and when we first saw it.
    observed: Option<(String, Instant)>,
}

impl Candidate {
    /// Between two looks at the lease.
    fn pause(&self) -> Duration {
        self.election.duration / 5
    }

    /// Renews until `term` ends, and ends it when the lease could not be renewed for most of its duration.
    async fn keep(&mut self, term: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            let pause = tokio::time::sleep(self.pause());
            if term.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let limit = self.election.duration * 2 / 3;
            let tried = tokio::time::timeout(limit, self.try_hold()).await;
            if tried == Ok(true) {
                renewed = Instant::now();
            } else if renewed.elapsed() > limit {
                tracing::warn!(lease = self.election.name, "lease lost");
                term.cancel();
                return;
            }
        }
    }

    async fn try_hold(&mut self) -> bool {
        match self.claim().await {
            Ok(held) => held,
            // Another candidate was faster.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                false
            }
            Err(error) => {
                tracing::warn!(lease = self.election.name, error = %error, "lease not reachable");
                false
            }
        }
    }

    async fn claim(&mut self) -> kube::Result<bool> {
        let now = MicroTime(self.clock.now());
        let Some(mut lease) = self.leases.get_opt(&self.election.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.election.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(now.clone(), Some(now), 0)),
            };
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(true);
        };
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let ours = holder == self.election.identity;
        if !ours && !holder.is_empty() && !self.expired(&lease.metadata) {
            return Ok(false);
        }
        let transitions = spec.lease_transitions.unwrap_or(0);
        lease.spec = Some(if ours {
            self.spec(now, spec.acquire_time, transitions)
        } else {
            self.spec(now.clone(), Some(now), transitions.saturating_add(1))
        });
        self.leases
            .replace(&self.election.name, &PostParams::default(), &lease)
            .await?;
        self.observed = None;
        Ok(true)
    }

    fn expired(&mut self, meta: &ObjectMeta) -> bool {
        let version = meta.resource_version.clone().unwrap_or_default();
        match &self.observed {
            Some((seen, since)) if *seen == version => since.elapsed() > self.election.duration,
            _ => {
                self.observed = Some((version, Instant::now()));
                false
            }
        }
    }

    fn spec(&self, renewed: MicroTime, acquired: Option<MicroTime>, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.election.identity.clone()),
            lease_duration_seconds: i32::try_from(self.election.duration.as_secs().max(1)).ok(),
            acquire_time: acquired,
            renew_time: Some(renewed),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Lets go, so that the next one need not wait.
    async fn release(&self) {
        let Ok(Some(mut lease)) = self.leases.get_opt(&self.election.name).await else {
            return;
        };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_deref() != Some(self.election.identity.as_str()) {
            return;
        }
        spec.holder_identity = None;
        // If it fails, the lease simply expires.
        let _ = self
            .leases
            .replace(&self.election.name, &PostParams::default(), &lease)
            .await;
    }
}
