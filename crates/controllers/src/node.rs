//! Nodes that fall silent: no new pods for them, and after a while their pods are failed, so that the jobs go on
//! elsewhere.
//!
//! Signs of life are the node's Lease in `kube-node-lease` and the heartbeat of its `Ready` condition, whichever is
//! newer. When they were last seen to change is remembered in memory only; see [`silence_policy`] for why.

mod apply;
mod silence_policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use astrago_api::ObjectKey;
use astrago_mirror::node_entry;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::reference;
use crate::{pod, report};
use silence_policy::{Hearing, Silence, hear, silence};

const CONTROLLER: &str = "node";
const LEASE_NAMESPACE: &str = "kube-node-lease";

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a silent node could not be dealt with.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub(crate) enum Error {
    #[error("failed to mark the node as unknown")]
    MarkNode { source: kube::Error },
    #[error("failed to give up pod {pod}")]
    GiveUp { pod: String, source: kube::Error },
}

impl Category for Error {
    fn category(&self) -> &'static str {
        self.into()
    }

    fn retry(&self) -> Retry {
        match self {
            Self::MarkNode { source } | Self::GiveUp { source, .. } => retry_of(source),
        }
    }
}

/// What is known of each node's signs of life.
type Signs = Mutex<HashMap<String, Hearing>>;

pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let queue = context.queue();
    let mirrors = &context.mirrors;
    queue.follow(&mirrors.nodes, |node| Some(ObjectKey::of(node)));
    queue.follow(&mirrors.leases, |lease| {
        let lease = ObjectKey::of(lease);
        (lease.namespace == LEASE_NAMESPACE).then(|| ObjectKey::new("", lease.name))
    });
    let ready = async {
        tokio::join!(
            mirrors.nodes.ready(),
            mirrors.leases.ready(),
            mirrors.pods.ready()
        )
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    // Pods may be left of a node that was deleted while nobody looked.
    for pod in mirrors.pods.all() {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
            queue.add(ObjectKey::new("", node));
        }
    }
    let signs: Arc<Signs> = Arc::default();
    drive(&context, CONTROLLER, &queue, 2, &stop, |key| {
        reconcile(Arc::clone(&context), Arc::clone(&signs), key)
    })
    .await;
}

async fn reconcile(context: Arc<Context>, signs: Arc<Signs>, key: ObjectKey) -> Result<Next> {
    let node = context.mirrors.nodes.get(&key);
    let result = step(&context, &signs, &key.name, node.as_deref()).await;
    if let (Err(error), Some(node)) = (&result, &node) {
        report::failure(&context, CONTROLLER, reference(&**node), error);
    }
    result
}

async fn step(context: &Context, signs: &Signs, name: &str, node: Option<&Node>) -> Result<Next> {
    let now = context.clock.now();
    let sign = last_sign(context, name, node);
    let hearing = {
        let mut signs = signs.lock().unwrap_or_else(PoisonError::into_inner);
        let hearing = hear(signs.get(name).copied(), sign, now);
        signs.insert(name.to_string(), hearing);
        hearing
    };
    match silence(&hearing, now) {
        Silence::Usual(until) => return Ok(Next::At(until)),
        Silence::Worrying(until) => {
            if let Some(node) = node {
                apply::mark_unknown(context, node, now).await?;
            }
            return Ok(Next::At(until));
        }
        Silence::Final => {}
    }
    if let Some(node) = node {
        apply::mark_unknown(context, node, now).await?;
    }
    let pods = context.mirrors.pods.find(&node_entry(name));
    for lost in pods.iter().filter(|lost| !pod::is_terminal(lost)) {
        apply::give_up(context, lost, name, now).await?;
    }
    Ok(Next::AwaitChange)
}

/// The newest sign of life that the API server knows of.
fn last_sign(context: &Context, name: &str, node: Option<&Node>) -> Option<Timestamp> {
    let lease = context
        .mirrors
        .leases
        .get(&ObjectKey::new(LEASE_NAMESPACE, name));
    let renewed =
        lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
    let conditions = node.iter().flat_map(|node| node.status.iter());
    let conditions = conditions.flat_map(|status| status.conditions.iter().flatten());
    let beat = conditions
        .filter(|condition| condition.type_ == "Ready")
        .find_map(|condition| condition.last_heartbeat_time.as_ref())
        .map(|time| time.0);
    renewed.max(beat)
}
