//! What is kept of each object.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use astrago_api::{JobSet, ObjectKey, StartupPolicyOrder, TrainJob, labels};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::fit::{self, PODS, PodNeed, Waiting};
use crate::queue::{Charge, GangKey, Member, PodKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Live,
    /// Asked to end: it holds its room, but its gang no longer counts on it.
    Ending,
    Ended,
}

/// What makes a pod part of its gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Named,
    JobSet,
    Training,
    Alone,
}

#[derive(Clone, Debug)]
pub(super) struct PodFacts {
    pub(super) key: PodKey,
    pub(super) group: GangKey,
    pub(super) membership: Membership,
    pub(super) stage: Stage,
    pub(super) succeeded: bool,
    pub(super) node: Option<String>,
    /// The node is known from our own binding only.
    pub(super) assumed: bool,
    pub(super) bound_at: Option<Timestamp>,
    pub(super) created: Timestamp,
    pub(super) need: Arc<PodNeed>,
    pub(super) charge: Arc<Charge>,
    pub(super) invalid: Option<String>,
    pub(super) priority: Option<i32>,
    pub(super) gate: Option<String>,
    pub(super) claims: Vec<String>,
    pub(super) gang_size: Option<u64>,
    pub(super) set: Option<String>,
    pub(super) attempt: String,
    pub(super) replicated: Option<String>,
    pub(super) job: Option<ObjectKey>,
    pub(super) deadline: Option<i64>,
    pub(super) grace: i64,
    pub(super) owner: Option<ObjectReference>,
    pub(super) said: Option<String>,
    pub(super) said_since: Option<Timestamp>,
}

impl PodFacts {
    pub(super) fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let key = PodKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        };
        let (membership, group) = membership(meta, &key);
        let (need, invalid) = match PodNeed::of(spec) {
            Ok(need) => (need, None),
            Err(error) => (PodNeed::default(), Some(error.to_string())),
        };
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let scheduled = conditions
            .iter()
            .find(|condition| condition.type_ == "PodScheduled");
        let waiting = scheduled.filter(|condition| condition.status == "False");
        let since = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.map(|time| time.0)
        };
        let limits = fit::pod_limits(spec).unwrap_or_default();
        let nothing = need
            .requests
            .iter()
            .all(|(name, amount)| name == PODS || amount.is_zero());
        let charge = Charge {
            best_effort: nothing && limits.iter().all(|(_, amount)| amount.is_zero()),
            requests: need.requests.clone(),
            limits,
            terminating: spec.active_deadline_seconds.is_some(),
            priority_class: spec
                .priority_class_name
                .clone()
                .filter(|name| !name.is_empty()),
        };
        let claims = spec.volumes.iter().flatten();
        let job = ObjectKey::of_batch_job(pod);
        Self {
            membership,
            group,
            stage: match phase {
                Some("Succeeded" | "Failed") => Stage::Ended,
                _ if meta.deletion_timestamp.is_some() => Stage::Ending,
                _ => Stage::Live,
            },
            succeeded: phase == Some("Succeeded"),
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
            assumed: false,
            bound_at: since(scheduled.and_then(|condition| {
                condition
                    .last_transition_time
                    .as_ref()
                    .filter(|_| condition.status == "True")
            }))
            .or_else(|| since(status.and_then(|status| status.start_time.as_ref()))),
            created: created(meta),
            need: Arc::new(need),
            charge: Arc::new(charge),
            invalid,
            priority: spec.priority,
            gate: spec
                .scheduling_gates
                .iter()
                .flatten()
                .next()
                .map(|gate| gate.name.clone()),
            claims: claims
                .filter_map(|volume| volume.persistent_volume_claim.as_ref())
                .map(|claim| claim.claim_name.clone())
                .collect(),
            gang_size: mark(meta, labels::GANG_SIZE).and_then(|size| size.parse().ok()),
            set: (membership == Membership::JobSet)
                .then(|| mark(meta, labels::JOBSET_UID).map(str::to_owned))
                .flatten(),
            attempt: mark(meta, labels::RESTART_ATTEMPT)
                .unwrap_or("0")
                .to_owned(),
            replicated: mark(meta, labels::REPLICATED_JOB_NAME).map(str::to_owned),
            job,
            deadline: spec.active_deadline_seconds,
            grace: spec.termination_grace_period_seconds.unwrap_or(30),
            owner: controller(meta),
            said: Waiting::written_on(pod).map(|waiting| waiting.to_string()),
            said_since: since(
                waiting.and_then(|condition| condition.last_transition_time.as_ref()),
            ),
            key,
        }
    }

    /// The uid of what the pod was made for, or its own.
    pub(super) fn root(&self) -> &str {
        let owner = self.owner.as_ref().and_then(|owner| owner.uid.as_deref());
        owner.unwrap_or(&self.key.uid)
    }

    pub(super) fn member(&self) -> Member {
        Member {
            key: self.key.clone(),
            need: Arc::clone(&self.need),
            charge: Arc::clone(&self.charge),
        }
    }

    pub(super) fn needs_node(&self) -> bool {
        self.stage == Stage::Live && self.node.is_none()
    }

    pub(super) fn holds_room(&self) -> bool {
        self.stage != Stage::Ended && self.node.is_some()
    }

    /// The watch may still show the pod as it was before our binding.
    pub(super) fn keep_assumption(&mut self, old: &Self) {
        if old.assumed && old.key == self.key && self.node.is_none() && self.stage != Stage::Ended {
            self.node.clone_from(&old.node);
            self.assumed = true;
            self.bound_at = old.bound_at;
        }
    }

    /// Whether nothing has changed that a pass would see.
    pub(super) fn counts_as(&self, new: &Self) -> bool {
        self.key == new.key
            && self.group == new.group
            && self.stage == new.stage
            && self.node == new.node
            && self.gate == new.gate
            && self.gang_size == new.gang_size
            && self.priority == new.priority
            && self.need == new.need
    }
}

/// What decides the gang of a pod, from the most explicit to the least.
fn membership(meta: &ObjectMeta, pod: &PodKey) -> (Membership, GangKey) {
    let attempt = mark(meta, labels::RESTART_ATTEMPT).unwrap_or("0");
    let (membership, name) = if let Some(gang) = mark(meta, labels::GANG) {
        (Membership::Named, format!("gang/{gang}"))
    } else if let Some(uid) = mark(meta, labels::JOBSET_UID) {
        (Membership::JobSet, format!("jobset/{uid}/{attempt}"))
    } else if let Some(job) = mark(meta, labels::TRAINING_JOB_NAME) {
        let uid = controller(meta)
            .and_then(|owner| owner.uid)
            .unwrap_or_default();
        (Membership::Training, format!("training/{job}/{uid}"))
    } else {
        (Membership::Alone, format!("pod/{}", pod.name))
    };
    (
        membership,
        GangKey {
            namespace: pod.namespace.clone(),
            name,
        },
    )
}

/// The value of a label, or else of an annotation.
fn mark<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(key));
    let annotation = || {
        meta.annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
    };
    label
        .or_else(annotation)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

fn created(meta: &ObjectMeta) -> Timestamp {
    let time = meta.creation_timestamp.as_ref();
    time.map(|time| time.0).unwrap_or_default()
}

/// A reference to the object that controls this one.
fn controller(meta: &ObjectMeta) -> Option<ObjectReference> {
    let mut owners = meta.owner_references.iter().flatten();
    let owner: &OwnerReference = owners.find(|owner| owner.controller == Some(true))?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: meta.namespace.clone(),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub(super) set: Option<String>,
    pub(super) replicated: Option<String>,
    pub(super) attempt: String,
    parallelism: u64,
    completions: Option<u64>,
    succeeded: u64,
    idle: bool,
    pub(super) deadline: Option<i64>,
    pub(super) started: Option<Timestamp>,
}

impl JobFacts {
    pub(super) fn of(job: &Job) -> Self {
        let meta = &job.metadata;
        let spec = job.spec.as_ref();
        let status = job.status.as_ref();
        let count = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let ended = conditions.iter().any(|condition| {
            matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
        });
        let suspended = spec.and_then(|spec| spec.suspend).unwrap_or_default();
        Self {
            set: mark(meta, labels::JOBSET_UID).map(str::to_owned),
            replicated: mark(meta, labels::REPLICATED_JOB_NAME).map(str::to_owned),
            attempt: mark(meta, labels::RESTART_ATTEMPT)
                .unwrap_or("0")
                .to_owned(),
            parallelism: count(spec.and_then(|spec| spec.parallelism)).unwrap_or(1),
            completions: count(spec.and_then(|spec| spec.completions)),
            succeeded: count(status.and_then(|status| status.succeeded)).unwrap_or(0),
            idle: ended || suspended,
            deadline: spec.and_then(|spec| spec.active_deadline_seconds),
            started: status
                .and_then(|status| status.start_time.as_ref())
                .map(|time| time.0),
        }
    }

    /// How many live pods the Job should have now.
    pub(super) fn needed(&self) -> u64 {
        let left = self
            .completions
            .map_or(u64::MAX, |all| all.saturating_sub(self.succeeded));
        if self.idle {
            0
        } else {
            self.parallelism.min(left)
        }
    }
}

/// What a TrainJob says about its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrainJobFacts {
    pub(super) created: Timestamp,
    pub(super) uid: String,
    /// Whether it is to run and nothing but its turn is in the way.
    pub(super) waits: bool,
    /// When its deadline ends it.
    pub(super) ends: Option<Timestamp>,
    /// The place in the queue that it asks for itself.
    pub(super) priority: Option<i32>,
}

impl TrainJobFacts {
    pub(super) fn of(job: &TrainJob) -> Self {
        let meta = &job.metadata;
        let annotations = meta.annotations.as_ref();
        let priority = annotations.and_then(|annotations| annotations.get(labels::PRIORITY));
        let stuck =
            annotations.is_some_and(|annotations| annotations.contains_key(labels::CREATION_ERROR));
        let held = job.is_finished() || job.is_suspended() || meta.deletion_timestamp.is_some();
        Self {
            created: created(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            waits: !held && !stuck && job.is_managed_by_us(),
            ends: crate::deadline(job),
            priority: priority.and_then(|priority| priority.parse().ok()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct SetFacts {
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) created: Timestamp,
    pub(super) owner: ObjectReference,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    pub(super) wave: usize,
    pub(super) replicas: u64,
    pub(super) parallelism: u64,
}

impl SetFacts {
    pub(super) fn of(set: &JobSet) -> Self {
        let meta = &set.metadata;
        let policy = set.spec.startup_policy.as_ref();
        let in_order =
            policy.is_some_and(|policy| policy.startup_policy_order == StartupPolicyOrder::InOrder);
        let mut waves: HashMap<&str, usize> = HashMap::new();
        let mut templates = BTreeMap::new();
        for (index, replicated) in set.spec.replicated_jobs.iter().enumerate() {
            // Whoever is depended on stands earlier in the list.
            let after = replicated
                .depends_on
                .iter()
                .filter_map(|on| waves.get(on.name.as_str()));
            let wave = if in_order {
                index
            } else {
                after.max().map_or(0, |wave| wave + 1)
            };
            waves.insert(&replicated.name, wave);
            let replicas = u64::try_from(replicated.replicas()).unwrap_or(0);
            let parallelism = u64::try_from(replicated.parallelism()).unwrap_or(0);
            templates.insert(
                replicated.name.clone(),
                Template {
                    wave,
                    replicas,
                    parallelism,
                },
            );
        }
        let own = || ObjectReference {
            api_version: Some("jobset.x-k8s.io/v1alpha2".to_owned()),
            kind: Some("JobSet".to_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        Self {
            templates,
            created: created(meta),
            owner: controller(meta).unwrap_or_else(own),
        }
    }
}
