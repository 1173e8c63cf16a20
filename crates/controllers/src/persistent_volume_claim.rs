//! Binds volume claims on the embedded engine.
//!
//! There is nothing to provision: the node makes a directory per claim when a pod first uses it. So a
//! claim is bound as soon as it exists, with the size that it asks for as its capacity (a directory has
//! no limit of its own), whatever its storage class. A claim that later asks for more gets more.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::{self, Notice};
use crate::mirror::Mirror;
use crate::queue::ObjectKey;

/// Binds claims until cancelled.
pub async fn run(context: &Context, stop: CancellationToken) {
    let claims: Mirror<PersistentVolumeClaim> = Mirror::new(|_| Vec::new());
    let (sender, mut changes) = unbounded_channel();
    let retry = sender.clone();
    claims.subscribe(move |change| {
        if let Some(claim) = &change.new {
            // The receiver is gone only when the controller has ended.
            let _ = sender.send(ObjectKey::of(&**claim));
        }
    });
    let bind_all = async {
        while let Some(key) = changes.recv().await {
            let Some(claim) = claims.get(&key) else {
                continue;
            };
            let Some(status) = bound_status(&claim) else {
                continue;
            };
            let api: Api<PersistentVolumeClaim> =
                Api::namespaced(context.client.clone(), &key.namespace);
            let patch = Patch::Merge(json!({ "status": status }));
            match api
                .patch_status(&key.name, &PatchParams::default(), &patch)
                .await
            {
                Ok(_) => context.events.send(Notice::normal(
                    events::reference(&*claim),
                    "ProvisioningSucceeded",
                    "bound to a directory of the node that uses it",
                )),
                // It was deleted meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    tracing::warn!(claim = %key, %error, "failed to bind a volume claim");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    // The receiver is our own.
                    let _ = retry.send(key);
                }
            }
        }
    };
    let follow = claims.run(Api::all(context.client.clone()), stop.clone());
    let tasks = futures::future::join(follow, stop.run_until_cancelled(bind_all));
    Box::pin(tasks).await;
}

/// The status that a claim should have, if it has another.
fn bound_status(claim: &PersistentVolumeClaim) -> Option<Value> {
    if claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let asked: BTreeMap<String, Quantity> = spec
        .resources
        .and_then(|resources| resources.requests)
        .unwrap_or_default();
    let status = claim.status.clone().unwrap_or_default();
    let is_bound = status.phase.as_deref() == Some("Bound")
        && status.capacity.unwrap_or_default() == asked
        && status.access_modes == spec.access_modes;
    (!is_bound)
        .then(|| json!({ "phase": "Bound", "capacity": asked, "accessModes": spec.access_modes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(status: &Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": { "name": "data", "namespace": "team" },
            "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "10Gi" } } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_new_claim_is_bound_with_what_it_asks_for() {
        let want = json!({ "phase": "Bound", "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteMany"] });
        assert_eq!(
            bound_status(&claim(&json!({ "phase": "Pending" }))),
            Some(want.clone())
        );
        assert_eq!(bound_status(&claim(&want)), None, "once is enough");
    }

    #[test]
    fn a_claim_that_asks_for_more_gets_more() {
        let smaller = json!({ "phase": "Bound", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany"] });
        assert!(bound_status(&claim(&smaller)).is_some());
    }

    #[test]
    fn a_claim_that_is_going_away_is_left_alone() {
        let mut claim = claim(&json!({}));
        claim.metadata.deletion_timestamp = Some(crate::clock::stamp(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(bound_status(&claim), None);
    }
}
