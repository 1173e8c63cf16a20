//! Pods that stand for the control plane, which `astrago up` runs in its own process: whoever looks for the
//! Trainer, JobSet and the Training Operator where Kubeflow has them finds them, as a kubelet shows its static pods.
//!
//! They are of this node, need nothing of it, and come back when they are deleted.

use anyhow::{Context, Result};
use astrago_node::MIRROR;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::install::ensure_namespace;

const STANDS_FOR: &str = "astrago.io/stands-for";

/// Where they are, and what they are called.
const ALL: [(&str, &str); 3] = [
    ("kubeflow-system", "kubeflow-trainer-controller-manager"),
    ("kubeflow-system", "jobset-controller-manager"),
    ("kubeflow", "training-operator"),
];

/// Keeps them until it is told to stop.
pub(super) async fn keep(client: Client, node: String, stop: CancellationToken) {
    let pods: Api<Pod> = Api::all(client.clone());
    let theirs = watcher::Config::default().labels(STANDS_FOR);
    let mut changes = Box::pin(watcher(pods, theirs).default_backoff());
    let work = async {
        // The first list is a change, too.
        while let Some(change) = changes.next().await {
            if !matches!(
                change,
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_) | watcher::Event::Apply(_))
            ) {
                continue;
            }
            for (namespace, name) in ALL {
                if let Err(error) = ensure(&client, &node, namespace, name).await {
                    tracing::debug!(name, error = %astrago_net::chain(&*error), "a stand-in was not made");
                }
            }
        }
    };
    Box::pin(stop.run_until_cancelled(work)).await;
}

async fn ensure(client: &Client, node: &str, namespace: &str, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let full = format!("{name}-{node}");
    if let Some(pod) = pods.get_opt(&full).await? {
        if pod.meta().deletion_timestamp.is_some() {
            let now = DeleteParams::default().grace_period(0);
            pods.delete(&full, &now).await?;
        }
        return Ok(());
    }
    ensure_namespace(client, namespace).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let owner = nodes.get(node).await?.uid().context("the node has a UID")?;
    let pod = serde_json::from_value(pod(node, &owner, name, &full))?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let since = pod.creation_timestamp();
    let ready = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": since });
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(ready);
    let status = json!({ "status": {
        "phase": "Running",
        "startTime": since,
        "conditions": conditions,
        "containerStatuses": [{
            "name": name, "image": "astrago", "imageID": "", "ready": true, "started": true, "restartCount": 0,
            "state": { "running": { "startedAt": since } },
        }],
    } });
    let parameters = PatchParams::default();
    pods.patch_status(&full, &parameters, &Patch::Merge(status))
        .await?;
    Ok(())
}

fn pod(node: &str, owner: &str, name: &str, full: &str) -> Value {
    json!({
        "metadata": {
            "name": full,
            "labels": { "app.kubernetes.io/name": name, STANDS_FOR: name },
            "annotations": { MIRROR: name, "astrago.io/about": "part of `astrago up`; not a process of its own" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner, "controller": true }],
        },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": name, "image": "astrago" }],
            "tolerations": [{ "operator": "Exists" }],
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
        },
    })
}
