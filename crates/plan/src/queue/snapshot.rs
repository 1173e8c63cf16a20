//! The world as one pass of the scheduler sees it: owned, so that deciding needs no lock and no I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::quota::{Charge, Quota};
use crate::fit::{Cause, Cluster, PodNeed, Resources, Waiting};

/// Everything that a pass decides from.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Nodes and the room that bound (or just now bound) pods leave on them.
    pub cluster: Cluster,
    /// Gangs that have pods without a node.
    pub pending: Vec<Gang>,
    /// Gangs that hold room.
    pub running: Vec<Arc<Running>>,
    pub quotas: Vec<Quota>,
}

/// Names a gang. Gangs of different kinds (a JobSet's, a Job's, a single pod) never share a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GangKey {
    pub namespace: String,
    pub name: String,
}

/// Names a pod; a successor of the same name has another uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// What decides which gang comes first: priority, then age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    pub priority: i32,
    /// When its job was created, in whole seconds: no time stamp of Kubernetes is finer.
    pub since: Timestamp,
    /// The uid of its job. Our API server gives them out in ascending order, so it decides within a second; other
    /// servers give them out at random, so that there the order within a second is arbitrary, but the same in every pass.
    pub uid: String,
    pub key: GangKey,
}

/// Pods that start together or not at all, as far as they have no node yet.
#[derive(Clone, Debug, Default)]
pub struct Gang {
    pub rank: Rank,
    pub pods: Vec<Member>,
    /// How many live pods of the gang have a node already. If there are any, the gang was started
    /// and has to be made whole.
    pub bound: usize,
    /// How many pods have yet to be created before the gang is whole.
    pub missing: u64,
    /// When the newest of its pods was created.
    pub whole_since: Timestamp,
    /// The most seconds for which it will hold its room, if that is known.
    pub longest: Option<i64>,
    /// Something other than room that it waits for.
    pub obstacle: Option<Cause>,
    /// The priority that it asks for, if its namespace does not allow as much.
    pub lowered_from: Option<i32>,
}

/// A pod of a gang that needs a node.
#[derive(Clone, Debug, Default)]
pub struct Member {
    pub key: PodKey,
    pub need: Arc<PodNeed>,
    pub charge: Arc<Charge>,
}

/// A gang that holds room.
#[derive(Clone, Debug, Default)]
pub struct Running {
    pub rank: Rank,
    /// When its first pod got a node, if that is known.
    pub started: Option<Timestamp>,
    /// By when it will have ended at the latest, if that is known.
    pub ends: Option<Timestamp>,
    /// What it holds, by node.
    pub held: BTreeMap<String, Resources>,
}

/// What a pass wants done.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub bind: Vec<Assignment>,
    pub wait: Vec<Wait>,
}

/// All pods of a gang with the node of each.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub gang: GangKey,
    pub pods: Vec<(PodKey, String)>,
}

/// A gang that stays where it is, and why.
#[derive(Clone, Debug)]
pub struct Wait {
    pub gang: GangKey,
    pub pods: Vec<PodKey>,
    /// When the newest of its pods was created.
    pub whole_since: Timestamp,
    pub waiting: Waiting,
    /// The priority that it counts with, and the one it asks for, if its namespace does not allow as much.
    pub lowered: Option<(i32, i32)>,
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The lesser rank comes first.
impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .priority
            .cmp(&self.priority)
            .then_with(|| self.since.cmp(&other.since))
            .then_with(|| self.uid.cmp(&other.uid))
            .then_with(|| self.key.cmp(&other.key))
    }
}
