//! Doing what a pass decided: bindings, conditions, events, the status of quotas.
//!
//! # Guarantees
//! - Pods count as bound before the first request is sent, so that what was given away is not given away
//!   again. Only an answer that says "no" takes that back; after no answer at all it stays until the
//!   watch or the next look at the pod tells.
//! - A gang of which a part could not be bound is in the next pass a gang that was started in part,
//!   and those go first.
//! - A sentence is written only when it differs from what the pod says already, and an event only
//!   when the kind of reason has changed.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use astrago_api::{ObjectKey, labels};
use astrago_plan::fit::{Cause, Waiting};
use astrago_plan::queue::{Assignment, Decision, GangKey, PodKey, Wait, World};
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, ResourceQuota};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::clock::stamp;
use crate::context::Context;
use crate::events::Notice;

const AT_ONCE: usize = 16;

/// Pods of a job are created one after another, so that one is missing is worth telling only after a while.
const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

/// The hands of the scheduler.
pub(super) struct Actor {
    context: Arc<Context>,
    /// The last kind of reason that was told about a gang.
    told: HashMap<GangKey, String>,
    /// The last status that was written for a quota.
    written: HashMap<ObjectKey, BTreeMap<String, Quantity>>,
    /// Pods of which it is unknown whether they are bound.
    unsure: Vec<PodKey>,
}

impl Actor {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let (told, written, unsure) = (HashMap::new(), HashMap::new(), Vec::new());
        Self {
            context,
            told,
            written,
            unsure,
        }
    }

    /// Answers whether all went well; otherwise another pass is due soon.
    pub(super) async fn carry_out(&mut self, world: &mut World, decision: Decision) -> bool {
        let bound = self.bind(world, &decision.bind).await;
        for assignment in &decision.bind {
            self.told.remove(&assignment.gang);
        }
        let explained = self.explain(world, &decision.wait).await;
        let accounted = self.account(world).await;
        bound && explained && accounted
    }

    /// Looks again at the pods whose binding got no answer.
    pub(super) async fn make_sure(&mut self, world: &mut World) -> bool {
        for pod in mem::take(&mut self.unsure) {
            let known = self.pods(&pod).get_opt(&pod.name).await;
            let key = ObjectKey::new(pod.namespace.as_str(), pod.name.as_str());
            match known {
                Ok(known) => {
                    world.unassume(&pod);
                    world.set_pod(&key, known.as_ref());
                }
                Err(_) => self.unsure.push(pod),
            }
        }
        self.unsure.is_empty()
    }

    async fn bind(&mut self, world: &mut World, assignments: &[Assignment]) -> bool {
        let now = self.context.clock.now();
        let pods: Vec<_> = assignments
            .iter()
            .flat_map(|assignment| &assignment.pods)
            .collect();
        for (pod, node) in &pods {
            world.assume(pod, node, now);
        }
        let mut requests = Vec::with_capacity(pods.len());
        for (pod, node) in pods {
            let (api, pod, node) = (self.pods(pod), pod.clone(), node.clone());
            requests.push(async move {
                let answer = bind_one(&api, &pod, &node).await;
                (pod, node, answer)
            });
        }
        let mut answers = stream::iter(requests).buffer_unordered(AT_ONCE);
        let mut all_bound = true;
        let mut unsure = Vec::new();
        while let Some((pod, node, answer)) = answers.next().await {
            match answer {
                Ok(()) => {
                    let (namespace, name) = (&pod.namespace, &pod.name);
                    let message = format!("assigned {namespace}/{name} to {node}");
                    self.tell(pod_reference(&pod), "Scheduled", message, false);
                }
                Err(error) => {
                    all_bound = false;
                    tracing::warn!(pod = pod.name, namespace = pod.namespace, node, %error, "failed to bind");
                    if matches!(&error, kube::Error::Api(status) if status.code < 500) {
                        world.unassume(&pod);
                    } else {
                        unsure.push(pod);
                    }
                }
            }
        }
        self.unsure.append(&mut unsure);
        all_bound
    }

    async fn explain(&mut self, world: &mut World, waits: &[Wait]) -> bool {
        let now = self.context.clock.now();
        let mut requests = Vec::new();
        for wait in waits {
            if matches!(wait.waiting.cause, Cause::Pods { .. }) && is_fresh(wait, now) {
                continue;
            }
            let message = wait.waiting.to_string();
            for pod in &wait.pods {
                let Some((said, since)) = world.said(pod) else {
                    continue;
                };
                if said != Some(message.as_str()) {
                    let since = since.unwrap_or(now);
                    let patch = explanation(&wait.waiting, &message, since);
                    let (api, pod, message) = (self.pods(pod), pod.clone(), message.clone());
                    requests.push(async move {
                        let (patch, how) = (Patch::Strategic(&patch), PatchParams::default());
                        let answer = api.patch_status(&pod.name, &how, &patch).await;
                        (pod, message, since, answer)
                    });
                }
            }
            self.tell_once(world, wait);
        }
        let mut answers = stream::iter(requests).buffer_unordered(AT_ONCE);
        let mut all_written = true;
        while let Some((pod, message, since, answer)) = answers.next().await {
            match answer {
                Ok(_) => world.set_said(&pod, &message, since),
                // It was deleted meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    all_written = false;
                    tracing::warn!(pod = pod.name, namespace = pod.namespace, %error, "failed to explain");
                }
            }
        }
        all_written
    }

    fn tell_once(&mut self, world: &World, wait: &Wait) {
        let kind = kind_of(&wait.waiting.cause);
        if self.told.get(&wait.gang) == Some(&kind) {
            return;
        }
        let message = wait.waiting.cause.to_string();
        for pod in &wait.pods {
            self.tell(
                pod_reference(pod),
                "FailedScheduling",
                message.clone(),
                true,
            );
        }
        if let Some(owner) = wait.pods.first().and_then(|pod| world.owner_of(pod)) {
            if let Some((counts, asked)) = wait.lowered {
                let namespace = &wait.gang.namespace;
                let message = format!(
                    "priority {asked} counts as {counts}: namespace {namespace} allows no more \
                     (its annotation {})",
                    labels::MAX_PRIORITY
                );
                self.tell(owner.clone(), "PriorityLowered", message, true);
            }
            self.tell(owner, "FailedScheduling", message, true);
        }
        self.told.insert(wait.gang.clone(), kind);
    }

    /// Forgets what was told about gangs that no longer wait.
    pub(super) fn forget_all_but(&mut self, waits: &[Wait]) {
        if self.told.len() > 2 * waits.len() + 64 {
            let waiting: std::collections::HashSet<_> =
                waits.iter().map(|wait| &wait.gang).collect();
            self.told.retain(|gang, _| waiting.contains(gang));
        }
    }

    async fn account(&mut self, world: &World) -> bool {
        let mut all_written = true;
        for (key, quota) in world.quotas() {
            let used = quota.used_status();
            if self.written.get(key) == Some(&used) {
                continue;
            }
            let api: Api<ResourceQuota> =
                Api::namespaced(self.context.client.clone(), &key.namespace);
            let hard: BTreeMap<_, _> = quota
                .hard
                .iter()
                .map(|(name, amount)| (name, Quantity::from(*amount)))
                .collect();
            let patch = Patch::Merge(json!({ "status": { "hard": hard, "used": used } }));
            match api
                .patch_status(&key.name, &PatchParams::default(), &patch)
                .await
            {
                Ok(_) => {
                    self.written.insert(key.clone(), used);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    all_written = false;
                    tracing::warn!(quota = key.name, namespace = key.namespace, %error, "failed to account");
                }
            }
        }
        all_written
    }

    /// The quota was written by somebody else, or is gone.
    pub(super) fn forget_quota(
        &mut self,
        key: &ObjectKey,
        used: Option<&BTreeMap<String, Quantity>>,
    ) {
        // Others account for other keys in the same status.
        let stands = match (self.written.get(key), used) {
            (Some(written), Some(used)) => written
                .iter()
                .all(|(name, amount)| used.get(name) == Some(amount)),
            (written, used) => written.is_none() && used.is_none(),
        };
        if !stands {
            self.written.remove(key);
        }
    }

    fn tell(&self, regarding: ObjectReference, reason: &str, message: String, warns: bool) {
        let notice = if warns {
            Notice::warning
        } else {
            Notice::normal
        };
        self.context.events.send(notice(regarding, reason, message));
    }

    fn pods(&self, pod: &PodKey) -> Api<Pod> {
        Api::namespaced(self.context.client.clone(), &pod.namespace)
    }
}

async fn bind_one(api: &Api<Pod>, pod: &PodKey, node: &str) -> kube::Result<()> {
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            // A successor of the same name must not be bound in its place.
            uid: Some(pod.uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let parameters = PostParams::default();
    let _: serde_json::Value = api
        .create_subresource("binding", &pod.name, &parameters, &binding)
        .await?;
    Ok(())
}

/// For people a condition, for programs an annotation. As in Kubernetes, one request to a pod's status may
/// change both.
fn explanation(waiting: &Waiting, message: &str, since: jiff::Timestamp) -> serde_json::Value {
    let gated = matches!(waiting.cause, Cause::Gated { .. });
    let reason = if gated {
        "SchedulingGated"
    } else {
        "Unschedulable"
    };
    json!({
        "metadata": { "annotations": { labels::WAITING: json!(waiting).to_string() } },
        "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": stamp(since),
        }] },
    })
}

fn is_fresh(wait: &Wait, now: jiff::Timestamp) -> bool {
    now.duration_since(wait.whole_since) < PATIENCE
}

/// The kind of a reason, without its numbers: an event is due when this changes.
fn kind_of(cause: &Cause) -> String {
    match cause {
        Cause::Shortage { resource, .. } => format!("shortage of {resource}"),
        Cause::Scattered { resource, .. } => format!("scattered {resource}"),
        Cause::TooBig { resource, .. } => format!("too big in {resource}"),
        Cause::TooMuch { resource, .. } => format!("too much {resource}"),
        Cause::Quota {
            quota, resource, ..
        } => format!("quota {quota} of {resource}"),
        Cause::OverQuota {
            quota, resource, ..
        } => format!("over quota {quota} of {resource}"),
        Cause::Room { .. } => "room".to_owned(),
        Cause::Pods { .. } => "pods".to_owned(),
        other => other.to_string(),
    }
}

fn pod_reference(pod: &PodKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}
