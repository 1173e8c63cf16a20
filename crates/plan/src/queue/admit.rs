//! Giving the gangs of a queue their nodes, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fit::{Ahead, Cause, Cluster, Moment, Resources, Waiting, place};

use super::backfill::{self, Budget, Trial};
use super::snapshot::{Assignment, Decision, Gang, Running, Snapshot, Wait};

/// Placements that may be tried per pass to let gangs pass others.
const TRIALS: usize = 20_000;

/// A pass in progress: what is left, who waits, what was decided.
pub(super) struct Pass {
    world: Snapshot,
    /// Per node, the most that waiting gangs may need of it, and what that leaves to others.
    holds: Vec<Resources>,
    open: Vec<Resources>,
    /// Per quota, what waiting gangs need of it.
    quota_holds: Vec<Resources>,
    /// Gangs that wait for room, in order.
    waiting: Vec<Gang>,
    /// Gangs that wait for room or quota so far.
    queued: usize,
    budget: Budget,
    decision: Decision,
}

impl Pass {
    pub(super) fn new(world: Snapshot) -> Self {
        Self {
            holds: vec![Resources::default(); world.cluster.nodes.len()],
            quota_holds: vec![Resources::default(); world.quotas.len()],
            open: world.cluster.free.clone(),
            waiting: Vec::new(),
            queued: 0,
            budget: Budget(TRIALS),
            decision: Decision::default(),
            world,
        }
    }

    /// Sets a gang aside that cannot be considered yet. It holds nothing and nobody is behind it.
    pub(super) fn set_aside(&mut self, gang: &Gang, cause: Cause) {
        self.wait(gang, cause, 0);
    }

    /// Starts the gang, or lets it wait.
    pub(super) fn consider(&mut self, gang: Gang) {
        let started = gang.bound > 0;
        if let Some(cause) = self.quota_refusal(&gang) {
            self.refuse(gang, cause);
            return;
        }
        match self.find_nodes(&gang, started) {
            Ok(nodes) => self.start(&gang, &nodes),
            Err(cause) => self.refuse(gang, *cause),
        }
    }

    pub(super) fn finish(self) -> Decision {
        self.decision
    }

    /// A gang that was started already may use what others hold: it comes first.
    fn find_nodes(&mut self, gang: &Gang, started: bool) -> Result<Vec<usize>, Box<Cause>> {
        let cluster = &self.world.cluster;
        let shapes = backfill::shapes_of(gang);
        let in_order = |nodes: Vec<usize>| {
            let members = shapes
                .iter()
                .flat_map(|shape| shape.members.iter().copied());
            let mut pairs: Vec<_> = members.zip(nodes).collect();
            pairs.sort_unstable();
            pairs.into_iter().map(|(_, node)| node).collect::<Vec<_>>()
        };
        if !started
            && !self.waiting.is_empty()
            && let Some(nodes) = place(&shapes, &cluster.nodes, &self.open, Moment::Now)
        {
            return Ok(in_order(nodes));
        }
        let nodes = match place(&shapes, &cluster.nodes, &cluster.free, Moment::Now) {
            Some(nodes) => in_order(nodes),
            None => return Err(Box::new(self.why_not(gang))),
        };
        if started || self.waiting.is_empty() {
            return Ok(nodes);
        }
        let mut taken = vec![Resources::default(); cluster.nodes.len()];
        for (pod, node) in gang.pods.iter().zip(&nodes) {
            taken[*node].add(&pod.need.requests);
        }
        let trial = Trial {
            now: self.world.now,
            cluster,
            running: &self.world.running,
        };
        let budget = &mut self.budget;
        if backfill::is_harmless(&trial, &self.waiting, gang, &taken, budget) {
            Ok(nodes)
        } else {
            Err(Box::new(Cause::Kept))
        }
    }

    fn why_not(&self, gang: &Gang) -> Cause {
        self.world.cluster.refusal(&backfill::shapes_of(gang))
    }

    fn quota_refusal(&self, gang: &Gang) -> Option<Cause> {
        let none = Resources::default();
        let mut quotas = self
            .world
            .quotas
            .iter()
            .zip(&self.quota_holds)
            .filter(|(quota, _)| quota.namespace == gang.rank.key.namespace);
        quotas.find_map(|(quota, held)| {
            let held = if gang.bound > 0 { &none } else { held };
            quota.refusal(gang.pods.iter().map(|pod| pod.charge.as_ref()), held)
        })
    }

    fn start(&mut self, gang: &Gang, nodes: &[usize]) {
        let cluster: &mut Cluster = &mut self.world.cluster;
        let mut held: BTreeMap<String, Resources> = BTreeMap::new();
        let mut pods = Vec::with_capacity(gang.pods.len());
        for (pod, node) in gang.pods.iter().zip(nodes) {
            let name = &cluster.nodes[*node].name;
            cluster.free[*node].subtract(&pod.need.requests);
            self.open[*node] = cluster.free[*node].without(&self.holds[*node]);
            held.entry(name.clone())
                .or_default()
                .add(&pod.need.requests);
            pods.push((pod.key.clone(), name.clone()));
        }
        let namespace = &gang.rank.key.namespace;
        for quota in self
            .world
            .quotas
            .iter_mut()
            .filter(|quota| quota.namespace == *namespace)
        {
            for pod in &gang.pods {
                quota.take(&pod.charge);
            }
        }
        let ends = gang.longest.and_then(|seconds| {
            self.world
                .now
                .checked_add(jiff::SignedDuration::from_secs(seconds))
                .ok()
        });
        let started = Some(self.world.now);
        let running = Running {
            rank: gang.rank.clone(),
            started,
            ends,
            held,
        };
        self.world.running.push(Arc::new(running));
        self.decision.bind.push(Assignment {
            gang: gang.rank.key.clone(),
            pods,
        });
    }

    /// Lets a gang wait. Unless it waits in vain, it holds its place against those behind it: its
    /// part of the quota, and room on the nodes if that is what it waits for.
    fn refuse(&mut self, gang: Gang, cause: Cause) {
        let lasting = cause.is_final();
        let for_quota = matches!(cause, Cause::Quota { .. });
        self.wait(&gang, cause, if lasting { 0 } else { self.queued });
        if lasting {
            return;
        }
        self.queued += 1;
        for (quota, held) in self.world.quotas.iter().zip(&mut self.quota_holds) {
            if quota.namespace == gang.rank.key.namespace {
                for pod in &gang.pods {
                    held.add(&quota.charge(&pod.charge));
                }
            }
        }
        if !for_quota {
            let most = backfill::holds(&backfill::shapes_of(&gang), &self.world.cluster);
            for (node, most) in most.iter().enumerate() {
                self.holds[node].add(most);
                self.open[node] = self.world.cluster.free[node].without(&self.holds[node]);
            }
            self.waiting.push(gang);
        }
    }

    fn wait(&mut self, gang: &Gang, cause: Cause, ahead: usize) {
        self.decision.wait.push(Wait {
            gang: gang.rank.key.clone(),
            pods: gang.pods.iter().map(|pod| pod.key.clone()).collect(),
            whole_since: gang.whole_since,
            lowered: gang.lowered_from.map(|asked| (gang.rank.priority, asked)),
            waiting: Waiting {
                cause,
                ahead: Ahead::new(ahead),
            },
        });
    }
}
