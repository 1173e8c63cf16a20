//! Binds volume claims on the embedded engine, and keeps them while pods use them.
//!
//! There is nothing to provision: the node makes a directory per claim when a pod first uses it. So a
//! claim is bound as soon as it exists, with the size that it asks for as its capacity (a directory has
//! no limit of its own), whatever its storage class. A claim that later asks for more gets more.
//!
//! As in Kubernetes, a finalizer keeps a deleted claim until no pod that may run has it any more.

use std::collections::{BTreeMap, BTreeSet};

use astrago_api::ObjectKey;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::{self, Notice};
use crate::pod;

/// Keeps a claim that pods use.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Looks after claims until cancelled.
pub async fn run(context: &Context, stop: CancellationToken) {
    let claims = &context.mirrors.claims;
    let (sender, mut changes) = unbounded_channel();
    let retry = sender.clone();
    let of_pods = sender.clone();
    claims.subscribe(move |change| {
        if let Some(claim) = &change.new {
            // The receiver is gone only when the controller has ended.
            let _ = sender.send(ObjectKey::of(&**claim));
        }
    });
    // What a pod had may be free when it has ended.
    context.mirrors.pods.subscribe(move |change| {
        if let Some(pod) = change.latest()
            && change.new.as_deref().is_none_or(|pod| !holds(pod))
        {
            let namespace = pod.namespace().unwrap_or_default();
            for name in used(pod) {
                let _ = of_pods.send(ObjectKey::new(&namespace, name));
            }
        }
    });
    let attend_all = async {
        while let Some(key) = changes.recv().await {
            let Some(claim) = claims.get(&key) else {
                continue;
            };
            match attend(context, &claim).await {
                Ok(()) => {}
                // It was deleted or changed meanwhile; in the latter case there is news to come.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    tracing::warn!(claim = %key, %error, "failed to look after a volume claim");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    // The receiver is our own.
                    let _ = retry.send(key);
                }
            }
        }
    };
    stop.run_until_cancelled(attend_all).await;
}

async fn attend(context: &Context, claim: &PersistentVolumeClaim) -> kube::Result<()> {
    let namespace = claim.namespace().unwrap_or_default();
    let name = claim.name_any();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    let mut finalizers = claim.finalizers().to_vec();
    let deleted = claim.metadata.deletion_timestamp.is_some();
    match finalizers.iter().position(|known| known == PROTECTION) {
        None if !deleted => finalizers.push(PROTECTION.to_owned()),
        Some(index) if deleted => {
            // Asked for and not remembered: a pod that was bound a moment ago counts.
            let pods: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
            let pods = pods.list(&ListParams::default()).await?;
            let is_used = |pod: &Pod| holds(pod) && used(pod).contains(name.as_str());
            if !pods.iter().any(is_used) {
                finalizers.remove(index);
            }
        }
        _ => {}
    }
    if finalizers != claim.finalizers() {
        let metadata =
            json!({ "finalizers": finalizers, "resourceVersion": claim.resource_version() });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        api.patch(&name, &PatchParams::default(), &patch).await?;
    }
    if let Some(volume) = volume(claim) {
        let patch = Patch::Merge(json!({ "spec": { "volumeName": volume } }));
        api.patch(&name, &PatchParams::default(), &patch).await?;
    }
    if let Some(status) = bound_status(claim) {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        context.events.send(Notice::normal(
            events::reference(claim),
            "ProvisioningSucceeded",
            "bound to a directory of the node that uses it",
        ));
    }
    Ok(())
}

/// The name of the volume that a claim is to be given. There is no object of this name: the claim is its only user.
fn volume(claim: &PersistentVolumeClaim) -> Option<String> {
    let named = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let needed = named.is_none_or(str::is_empty) && claim.metadata.deletion_timestamp.is_none();
    needed.then(|| format!("pvc-{}", claim.uid().unwrap_or_default()))
}

/// Whether a pod keeps what it uses: it is on a node and has not ended.
fn holds(pod: &Pod) -> bool {
    let placed = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    placed && !pod::is_terminal(pod)
}

fn used(pod: &Pod) -> BTreeSet<&str> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|claim| claim.claim_name.as_str()).collect()
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
    fn a_claim_has_a_volume_of_its_own_unless_it_names_one() {
        let mut claim = claim(&json!({}));
        claim.metadata.uid = Some("7".into());
        assert_eq!(volume(&claim).as_deref(), Some("pvc-7"));
        claim.spec.get_or_insert_default().volume_name = Some("mine".into());
        assert_eq!(volume(&claim), None);
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
