//! What placement needs of the world, kept up to date change by change.
//!
//! Only what placement needs is kept of an object, and what nodes and quotas have left is adjusted with
//! every pod that gets or leaves a node. A pass therefore reads the gangs that wait and those that hold
//! room, never all pods that have ever run.
//!
//! A pod that this scheduler has just bound counts as bound from that moment ([`World::assume`]), so
//! that no pass gives the same room away twice while the watch is behind.

mod expect;
mod facts;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use astrago_api::{JobSet, ObjectKey, TrainJob, highest_priority, labels};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, ObjectReference, Pod, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::{Gang, GangKey, PodKey, Quota, Rank, Running, Snapshot, decide};
use crate::fit::{Cause, Cluster, NodeInfo, Resources, Waiting};
use facts::{JobFacts, PodFacts, SetFacts, Stage, TrainJobFacts};

#[derive(Debug, Default)]
pub struct World {
    pods: HashMap<ObjectKey, PodFacts>,
    /// Pods of one gang, or of one restart attempt of a JobSet with all its waves.
    groups: BTreeMap<GangKey, BTreeSet<ObjectKey>>,
    /// Groups with pods that need a node.
    pending: BTreeSet<GangKey>,
    running: BTreeMap<GangKey, Arc<Running>>,
    /// Groups whose entry in `running` is out of date.
    stale: HashSet<GangKey>,
    nodes: BTreeMap<String, NodeInfo>,
    used: HashMap<String, Resources>,
    jobs: HashMap<ObjectKey, JobFacts>,
    jobs_of_set: HashMap<String, BTreeSet<ObjectKey>>,
    sets: HashMap<String, SetFacts>,
    set_uids: HashMap<ObjectKey, String>,
    train_jobs: HashMap<ObjectKey, TrainJobFacts>,
    /// TrainJobs that wait and have no pods yet, since their equals wait before them.
    unmade: BTreeSet<ObjectKey>,
    classes: HashMap<String, (i32, bool)>,
    /// What namespaces say about the highest priority that counts.
    limits: HashMap<String, String>,
    quotas: BTreeMap<ObjectKey, Quota>,
    claims: HashSet<ObjectKey>,
}

/// A job that nobody has made yet.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub namespace: &'a str,
    pub pods: &'a [&'a Pod],
    pub priority: Option<i32>,
    /// After how many seconds it is ended.
    pub deadline: Option<i64>,
}

/// The methods that take in a change answer whether it can matter to those that wait.
impl World {
    pub fn set_pod(&mut self, key: &ObjectKey, pod: Option<&Pod>) -> bool {
        let old = self.pods.remove(key);
        let mut new = pod.map(PodFacts::of);
        if let (Some(old), Some(new)) = (&old, &mut new) {
            new.keep_assumption(old);
        }
        if let Some(old) = &old {
            self.leave(key, old);
        }
        let changed = match (&old, &new) {
            (Some(old), Some(new)) => !old.counts_as(new),
            (None, Some(new)) => new.stage != Stage::Ended,
            (old, None) => old.as_ref().is_some_and(|old| old.stage != Stage::Ended),
        };
        if let Some(new) = new {
            self.enter(key, new);
        }
        changed
    }

    pub fn set_node(&mut self, name: &str, node: Option<&Node>) -> bool {
        // A node whose offer cannot be read offers nothing.
        let new = node.and_then(|node| NodeInfo::of(node).ok());
        let old = self.nodes.get(name);
        if old == new.as_ref() {
            return false;
        }
        match new {
            Some(new) => self.nodes.insert(name.to_owned(), new),
            None => self.nodes.remove(name),
        };
        true
    }

    pub fn set_job(&mut self, key: &ObjectKey, job: Option<&Job>) -> bool {
        let new = job.map(JobFacts::of);
        let old = self.jobs.remove(key);
        if let Some(set) = old.as_ref().and_then(|old| old.set.as_ref())
            && let Some(jobs) = self.jobs_of_set.get_mut(set)
        {
            jobs.remove(key);
            if jobs.is_empty() {
                self.jobs_of_set.remove(set);
            }
        }
        let changed = old != new;
        if let Some(new) = new {
            if let Some(set) = &new.set {
                self.jobs_of_set
                    .entry(set.clone())
                    .or_default()
                    .insert(key.clone());
            }
            self.jobs.insert(key.clone(), new);
        }
        changed && !self.pending.is_empty()
    }

    pub fn set_job_set(&mut self, key: &ObjectKey, set: Option<&JobSet>) -> bool {
        if let Some(uid) = self.set_uids.remove(key) {
            self.sets.remove(&uid);
        }
        if let Some(set) = set {
            let uid = set.metadata.uid.clone().unwrap_or_default();
            self.sets.insert(uid.clone(), SetFacts::of(set));
            self.set_uids.insert(key.clone(), uid);
        }
        self.note_unmade(key);
        !self.pending.is_empty()
    }

    pub fn set_train_job(&mut self, key: &ObjectKey, job: Option<&TrainJob>) -> bool {
        let new = job.map(TrainJobFacts::of);
        let old = match new.clone() {
            Some(new) => self.train_jobs.insert(key.clone(), new),
            None => self.train_jobs.remove(key),
        };
        self.note_unmade(key);
        // Before it has a JobSet, nothing of it can run: its JobSet has its name.
        let Some(set) = self.set_uids.get(key).filter(|_| old != new) else {
            return false;
        };
        let first = GangKey {
            namespace: key.namespace.clone(),
            name: format!("jobset/{set}/"),
        };
        let groups = self.groups.range(&first..).map(|(group, _)| group);
        let own = groups.take_while(|group| {
            group.namespace == first.namespace && group.name.starts_with(&first.name)
        });
        self.stale.extend(own.cloned());
        !self.pending.is_empty()
    }

    fn note_unmade(&mut self, key: &ObjectKey) {
        let waits = self.train_jobs.get(key).is_some_and(|job| job.waits);
        if waits && !self.set_uids.contains_key(key) {
            self.unmade.insert(key.clone());
        } else {
            self.unmade.remove(key);
        }
    }

    /// The jobs that wait without pods, each with its place in the queue.
    pub fn unmade(&self) -> impl Iterator<Item = Rank> {
        let jobs = self.unmade.iter();
        jobs.filter_map(|key| {
            let job = self.train_jobs.get(key)?;
            let asked = job.priority.unwrap_or_else(|| self.ordinary_priority());
            Some(Rank {
                priority: asked.min(self.limit(&key.namespace)),
                since: job.created,
                uid: job.uid.clone(),
                key: GangKey {
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                },
            })
        })
    }

    pub fn set_priority_class(&mut self, name: &str, class: Option<&PriorityClass>) -> bool {
        let new = class.map(|class| {
            (
                class.value.unwrap_or(0),
                class.global_default.unwrap_or_default(),
            )
        });
        let old = match new {
            Some(new) => self.classes.insert(name.to_owned(), new),
            None => self.classes.remove(name),
        };
        old != new
    }

    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) -> bool {
        let annotations = namespace.and_then(|namespace| namespace.metadata.annotations.as_ref());
        let new = annotations.and_then(|annotations| annotations.get(labels::MAX_PRIORITY));
        let old = match new.cloned() {
            Some(new) => self.limits.insert(name.to_owned(), new),
            None => self.limits.remove(name),
        };
        let changed = old.as_ref() != new;
        if changed {
            self.outdate(name);
        }
        changed
    }

    pub fn set_quota(&mut self, key: &ObjectKey, quota: Option<&ResourceQuota>) -> bool {
        let old = self.quotas.remove(key);
        let new = quota.map(Quota::of);
        let limits = |quota: &Quota| (quota.hard.clone(), quota.scopes.clone());
        if old.as_ref().map(limits) == new.as_ref().map(limits) {
            // Only its status has changed, which the scheduler writes itself.
            self.quotas.extend(old.map(|old| (key.clone(), old)));
            return false;
        }
        if let Some(mut quota) = new {
            let here = self
                .pods
                .iter()
                .filter(|(pod, _)| pod.namespace == key.namespace);
            for (_, pod) in here.filter(|(_, pod)| pod.holds_room()) {
                quota.take(&pod.charge);
            }
            self.quotas.insert(key.clone(), quota);
        }
        true
    }

    pub fn set_claim(&mut self, key: &ObjectKey, exists: bool) -> bool {
        if exists {
            self.claims.insert(key.clone())
        } else {
            self.claims.remove(key)
        }
    }

    /// Counts the pod as bound, though the watch has not said so yet.
    pub fn assume(&mut self, pod: &PodKey, node: &str, now: Timestamp) {
        self.change(pod, |facts| {
            if facts.needs_node() {
                facts.node = Some(node.to_owned());
                facts.assumed = true;
                facts.bound_at = Some(now);
            }
        });
    }

    /// The pod was not bound after all.
    pub fn unassume(&mut self, pod: &PodKey) {
        self.change(pod, |facts| {
            if facts.assumed {
                (facts.node, facts.assumed, facts.bound_at) = (None, false, None);
            }
        });
    }

    /// What the pod was last said to wait for, and since when it has not been scheduled.
    pub fn said(&self, pod: &PodKey) -> Option<(Option<&str>, Option<Timestamp>)> {
        let facts = self
            .pods
            .get(&object_key(pod))
            .filter(|facts| facts.key == *pod)?;
        Some((facts.said.as_deref(), facts.said_since))
    }

    pub fn set_said(&mut self, pod: &PodKey, message: &str, since: Timestamp) {
        if let Some(facts) = self
            .pods
            .get_mut(&object_key(pod))
            .filter(|facts| facts.key == *pod)
        {
            facts.said = Some(message.to_owned());
            facts.said_since = Some(since);
        }
    }

    /// The object that a person would look at to learn about the pod: its TrainJob, JobSet, v1 job
    /// or Job.
    pub fn owner_of(&self, pod: &PodKey) -> Option<ObjectReference> {
        let facts = self.pods.get(&object_key(pod))?;
        let set = facts.set.as_ref().and_then(|uid| self.sets.get(uid));
        set.map(|set| set.owner.clone())
            .or_else(|| facts.owner.clone())
    }

    pub fn quotas(&self) -> impl Iterator<Item = (&ObjectKey, &Quota)> {
        self.quotas.iter()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The world as of now.
    pub fn snapshot(&mut self, now: Timestamp) -> Snapshot {
        self.refresh_running();
        let mut cluster = Cluster::empty(self.nodes.values().cloned().collect());
        for (node, free) in cluster.nodes.iter().zip(&mut cluster.free) {
            if let Some(used) = self.used.get(&node.name) {
                free.subtract(used);
            }
        }
        Snapshot {
            now,
            cluster,
            pending: self
                .pending
                .iter()
                .flat_map(|group| self.gangs_of(group, now))
                .collect(),
            running: self.running.values().cloned().collect(),
            quotas: self.quotas.values().cloned().collect(),
        }
    }

    /// Why the candidate would wait if it came now; nothing if it would be started.
    pub fn foresee(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Option<Waiting> {
        let facts: Vec<PodFacts> = candidate.pods.iter().copied().map(PodFacts::of).collect();
        let of_pods = || facts.iter().map(|pod| self.priority(pod)).max();
        let asked = candidate.priority.or_else(of_pods).unwrap_or_default();
        let grace = facts.iter().map(|pod| pod.grace).max().unwrap_or_default();
        let key = GangKey {
            namespace: candidate.namespace.to_owned(),
            // No gang has it.
            name: String::new(),
        };
        let gang = Gang {
            rank: Rank {
                priority: asked.min(self.limit(candidate.namespace)),
                since: now,
                // Behind all that were made in this second.
                uid: "~".to_owned(),
                key: key.clone(),
            },
            pods: facts.iter().map(PodFacts::member).collect(),
            whole_since: now,
            longest: candidate
                .deadline
                .map(|seconds| seconds.saturating_add(grace)),
            ..Gang::default()
        };
        let mut snapshot = self.snapshot(now);
        snapshot.pending.push(gang);
        let decision = decide(snapshot);
        let wait = decision.wait.into_iter().find(|wait| wait.gang == key);
        wait.map(|wait| wait.waiting)
    }

    fn change(&mut self, pod: &PodKey, edit: impl FnOnce(&mut PodFacts)) {
        let key = object_key(pod);
        if let Some(old) = self.pods.remove(&key) {
            self.leave(&key, &old);
            let mut new = old;
            if new.key == *pod {
                edit(&mut new);
            }
            self.enter(&key, new);
        }
    }

    fn enter(&mut self, key: &ObjectKey, pod: PodFacts) {
        if pod.holds_room() {
            let node = pod.node.clone().unwrap_or_default();
            self.used.entry(node).or_default().add(&pod.need.requests);
            self.quotas_of(key)
                .for_each(|quota| quota.take(&pod.charge));
        }
        self.groups
            .entry(pod.group.clone())
            .or_default()
            .insert(key.clone());
        let group = pod.group.clone();
        self.pods.insert(key.clone(), pod);
        self.regroup(&group);
    }

    fn leave(&mut self, key: &ObjectKey, pod: &PodFacts) {
        if pod.holds_room() {
            let node = pod.node.as_deref().unwrap_or_default();
            if let Some(used) = self.used.get_mut(node) {
                used.subtract(&pod.need.requests);
                if used.iter().all(|(_, amount)| amount.is_zero()) {
                    self.used.remove(node);
                }
            }
            self.quotas_of(key)
                .for_each(|quota| quota.give_back(&pod.charge));
        }
        if let Some(pods) = self.groups.get_mut(&pod.group) {
            pods.remove(key);
        }
        self.regroup(&pod.group);
    }

    fn quotas_of(&mut self, pod: &ObjectKey) -> impl Iterator<Item = &mut Quota> {
        let namespace = pod.namespace.clone();
        self.quotas
            .values_mut()
            .filter(move |quota| quota.namespace == namespace)
    }

    fn regroup(&mut self, group: &GangKey) {
        let pods = self.groups.get(group);
        let mut members = pods
            .into_iter()
            .flatten()
            .filter_map(|key| self.pods.get(key));
        if members.any(PodFacts::needs_node) {
            self.pending.insert(group.clone());
        } else {
            self.pending.remove(group);
        }
        if self.groups.get(group).is_some_and(BTreeSet::is_empty) {
            self.groups.remove(group);
        }
        self.stale.insert(group.clone());
    }

    /// What was derived from the gangs of a namespace must be derived again.
    fn outdate(&mut self, namespace: &str) {
        let groups = self
            .groups
            .keys()
            .filter(|group| group.namespace == namespace);
        self.stale.extend(groups.cloned());
    }

    /// The highest priority that counts for jobs of a namespace.
    pub fn limit(&self, namespace: &str) -> i32 {
        let said = self.limits.get(namespace).map(String::as_str);
        highest_priority(namespace, said, self.ordinary_priority())
    }

    fn members(&self, group: &GangKey) -> impl Iterator<Item = &PodFacts> {
        let keys = self.groups.get(group).into_iter().flatten();
        keys.filter_map(|key| self.pods.get(key))
    }

    fn refresh_running(&mut self) {
        for group in std::mem::take(&mut self.stale) {
            let holding: Vec<_> = self
                .members(&group)
                .filter(|pod| pod.holds_room())
                .collect();
            if holding.is_empty() {
                self.running.remove(&group);
                continue;
            }
            let mut held: BTreeMap<String, Resources> = BTreeMap::new();
            for pod in &holding {
                let node = pod.node.clone().unwrap_or_default();
                held.entry(node).or_default().add(&pod.need.requests);
            }
            // One pod without a known end makes the end of the gang unknown.
            let ends: Option<Vec<_>> = holding.iter().map(|pod| self.end_of(pod)).collect();
            let running = Running {
                rank: self.rank(&holding, group.clone()),
                started: holding.iter().filter_map(|pod| pod.bound_at).min(),
                ends: ends.and_then(|ends| ends.into_iter().max()),
                held,
            };
            self.running.insert(group, Arc::new(running));
        }
    }

    /// The gangs of a group: one per wave that has pods without a node.
    fn gangs_of(&self, group: &GangKey, now: Timestamp) -> Vec<Gang> {
        let mut waves: BTreeMap<usize, Vec<&PodFacts>> = BTreeMap::new();
        for pod in self.members(group) {
            waves.entry(self.wave_of(pod)).or_default().push(pod);
        }
        let whole = waves
            .into_iter()
            .filter(|(_, pods)| pods.iter().any(|pod| pod.needs_node()));
        whole
            .map(|(wave, pods)| self.gang(group, wave, &pods, now))
            .collect()
    }

    fn gang(&self, group: &GangKey, wave: usize, pods: &[&PodFacts], now: Timestamp) -> Gang {
        let waiting: Vec<_> = pods
            .iter()
            .copied()
            .filter(|pod| pod.needs_node())
            .collect();
        let longest: Option<Vec<_>> = waiting
            .iter()
            .map(|pod| self.longest_of(pod, now))
            .collect();
        let mut key = group.clone();
        if wave > 0 {
            key.name = format!("{}/wave-{wave}", key.name);
        }
        let rank = self.rank(&waiting, key);
        let asked = self.asked_priority(&waiting);
        Gang {
            lowered_from: (asked > rank.priority).then_some(asked),
            rank,
            bound: pods
                .iter()
                .filter(|pod| pod.stage == Stage::Live && pod.node.is_some())
                .count(),
            missing: self.missing(wave, pods),
            whole_since: waiting
                .iter()
                .map(|pod| pod.created)
                .max()
                .unwrap_or_default(),
            longest: longest.and_then(|all| all.into_iter().max()),
            obstacle: waiting.iter().find_map(|pod| self.obstacle(pod)),
            pods: waiting.iter().map(|pod| pod.member()).collect(),
        }
    }

    fn rank(&self, pods: &[&PodFacts], key: GangKey) -> Rank {
        let set = pods.iter().find_map(|pod| self.sets.get(pod.set.as_ref()?));
        let train_job = pods
            .iter()
            .find_map(|pod| self.train_jobs.get(&self.train_job_of(pod)?));
        // A job keeps its place when it is started again, so its age is not that of its pods.
        let ages = train_job
            .map(|job| job.created)
            .into_iter()
            .chain(set.map(|set| set.created))
            .chain(pods.iter().map(|pod| pod.created));
        let uid = match set {
            Some(set) => set.owner.uid.as_deref(),
            None => pods.iter().map(|pod| pod.root()).min(),
        };
        Rank {
            priority: self.asked_priority(pods).min(self.limit(&key.namespace)),
            since: ages.min().unwrap_or_default(),
            uid: uid.unwrap_or_default().to_owned(),
            key,
        }
    }

    /// The priority that the pods' TrainJob asks for, or else they themselves.
    fn asked_priority(&self, pods: &[&PodFacts]) -> i32 {
        let asked = pods
            .iter()
            .find_map(|pod| self.train_jobs.get(&self.train_job_of(pod)?)?.priority);
        let of_pods = || pods.iter().map(|pod| self.priority(pod)).max();
        asked.or_else(of_pods).unwrap_or_default()
    }

    fn priority(&self, pod: &PodFacts) -> i32 {
        let class = pod.charge.priority_class.as_deref();
        pod.priority.unwrap_or_else(|| match class {
            Some("system-node-critical") => 2_000_001_000,
            Some("system-cluster-critical") => 2_000_000_000,
            Some(name) => self.classes.get(name).map_or(0, |(value, _)| *value),
            None => self.ordinary_priority(),
        })
    }

    /// The priority of pods that ask for none.
    fn ordinary_priority(&self) -> i32 {
        let class = self.classes.values().find(|(_, default)| *default);
        class.map_or(0, |(value, _)| *value)
    }

    fn obstacle(&self, pod: &PodFacts) -> Option<Cause> {
        if let Some(reason) = &pod.invalid {
            return Some(Cause::Invalid {
                reason: reason.clone(),
            });
        }
        if let Some(gate) = &pod.gate {
            return Some(Cause::Gated { gate: gate.clone() });
        }
        let namespace = &pod.key.namespace;
        let exists = |claim: &&String| {
            self.claims
                .contains(&ObjectKey::new(namespace.as_str(), claim.as_str()))
        };
        let missing = pod.claims.iter().find(|claim| !exists(claim))?;
        Some(Cause::NoClaim {
            claim: missing.clone(),
        })
    }
}

fn object_key(pod: &PodKey) -> ObjectKey {
    ObjectKey::new(pod.namespace.as_str(), pod.name.as_str())
}

#[cfg(test)]
mod tests;
