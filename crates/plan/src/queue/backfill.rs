//! When a gang may pass others that wait: only if that cannot delay any of them.
//!
//! How long a job will run is mostly unknown, so "does not delay" has to hold whichever of the running
//! gangs end first. A gang B may pass the gangs W that wait before it by any of three rules.
//!
//! 1. **Holds.** On every node that a gang of W could ever use, it holds as much of each resource as its
//!    pods could at most use there if the node were empty. B is placed in what all of these leave. *Why
//!    this is right:* in every resource that B takes on a node, all that W could take there together is
//!    still free afterwards. So this resource is not what keeps a gang of W off the node, now, after any
//!    release, or after others of W have started; and the other resources B does not touch. So each of
//!    W fits with B exactly when it fits without B. Whoever passes later keeps the same distance, and
//!    who leaves W takes no more than it held, so this stays true.
//! 2. **Every order of endings.** For each set S of gangs that run, and each set T of gangs of W: if T
//!    fits when just S has ended and none of those that passed W before is there, then T also fits with
//!    those and B still running. This is the definition itself, tried out. It is exponential, so it
//!    is used for at most [`MOST_GANGS`] gangs and within a [`Budget`] per pass; beyond, the answer is no.
//! 3. **Promise.** If the running gangs whose room a gang of W needs have deadlines, there is a moment by
//!    which it can start at the latest. B may pass if its own deadline ends before that moment, for all
//!    of W. This is Slurm's backfill: it keeps the promised start, though W might have been luckier.
//!
//! A gang that arrives later and goes before W (by its priority) is what it is: nobody promised W
//! anything against it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::snapshot::{Gang, Running};
use crate::fit::{Cluster, Moment, PodNeed, Resources, Shape, place, shapes};

/// With more running and waiting gangs than this, not every order of endings is tried.
const MOST_GANGS: usize = 10;

/// What a waiting gang holds on each node against those behind it (rule 1).
pub(super) fn holds(shapes: &[Shape<'_>], cluster: &Cluster) -> Vec<Resources> {
    cluster
        .nodes
        .iter()
        .map(|node| {
            let mut most = Resources::default();
            for shape in shapes
                .iter()
                .filter(|shape| shape.may_use(node, Moment::Ever))
            {
                let requests = &shape.need.requests;
                let count = node.allocatable.times(requests).min(shape.count());
                most.add(&requests.scaled(count));
            }
            most
        })
        .collect()
}

/// How many placements may still be tried in this pass.
#[derive(Debug)]
pub(super) struct Budget(pub(super) usize);

/// The world in which rules 2 and 3 are tried.
pub(super) struct Trial<'a> {
    pub(super) now: Timestamp,
    pub(super) cluster: &'a Cluster,
    /// Gangs that ran before this pass and those that it has started.
    pub(super) running: &'a [Arc<Running>],
}

/// Whether the candidate, placed as in `taken` (what it takes of each node), can delay none of the
/// waiting gangs.
pub(super) fn is_harmless(
    trial: &Trial<'_>,
    waiting: &[Gang],
    candidate: &Gang,
    taken: &[Resources],
    budget: &mut Budget,
) -> bool {
    let in_time = candidate.longest.is_some_and(|seconds| {
        let end = trial.now.saturating_add(SignedDuration::from_secs(seconds));
        waiting
            .iter()
            .all(|gang| match (promise(trial, gang, budget), &end) {
                (Some(promised), Ok(end)) => *end <= promised,
                _ => false,
            })
    });
    in_time || holds_in_every_order(trial, waiting, taken, budget)
}

/// The moment by which the gang has room at the latest, if that is known.
fn promise(trial: &Trial<'_>, waiting: &Gang, budget: &mut Budget) -> Option<Timestamp> {
    let shapes = shapes_of(waiting);
    let mut free = trial.cluster.free.clone();
    let mut limited: Vec<_> = trial
        .running
        .iter()
        .filter_map(|gang| gang.ends.map(|ends| (ends, gang)))
        .collect();
    limited.sort_by_key(|(ends, _)| *ends);
    for (ends, gang) in limited {
        release(&mut free, trial.cluster, gang);
        budget.0 = budget.0.checked_sub(1)?;
        if place(&shapes, &trial.cluster.nodes, &free, Moment::Ever).is_some() {
            return Some(ends);
        }
    }
    None
}

fn holds_in_every_order(
    trial: &Trial<'_>,
    waiting: &[Gang],
    taken: &[Resources],
    budget: &mut Budget,
) -> bool {
    if waiting.len() > MOST_GANGS {
        return false;
    }
    let nodes = &trial.cluster.nodes;
    let all = shapes(waiting.iter().flat_map(needs));
    let matters = |gang: &&Arc<Running>| {
        let mut held = gang
            .held
            .keys()
            .filter_map(|name| trial.cluster.position(name));
        held.any(|node| {
            all.iter()
                .any(|shape| shape.may_use(&nodes[node], Moment::Ever))
        })
    };
    let passed = |gang: &&Arc<Running>| waiting.iter().any(|waiting| is_guest(gang, waiting));
    let (guests, before): (Vec<_>, Vec<_>) = trial.running.iter().filter(matters).partition(passed);
    let gangs = before.len() + waiting.len();
    let Some(left) = budget.0.checked_sub(2 << gangs.min(MOST_GANGS + 1)) else {
        return false;
    };
    if gangs > MOST_GANGS {
        return false;
    }
    budget.0 = left;
    (0_u32..1 << before.len()).all(|ended| {
        let mut with = trial.cluster.free.clone();
        for gang in chosen(&before, ended) {
            release(&mut with, trial.cluster, gang);
        }
        let mut without = with.clone();
        for guest in &guests {
            release(&mut without, trial.cluster, guest);
        }
        for (free, taken) in with.iter_mut().zip(taken) {
            free.subtract(taken);
        }
        (1_u32..1 << waiting.len()).all(|present| {
            let shapes = shapes(chosen(waiting, present).flat_map(needs));
            place(&shapes, nodes, &without, Moment::Ever).is_none()
                || place(&shapes, nodes, &with, Moment::Ever).is_some()
        })
    })
}

/// The items whose bit is set.
fn chosen<T>(items: &[T], bits: u32) -> impl Iterator<Item = &T> {
    items
        .iter()
        .enumerate()
        .filter(move |(index, _)| bits & (1 << index) != 0)
        .map(|(_, item)| item)
}

/// A running gang that is behind the waiting one and started when that was already there has
/// passed it, so it must not count among those that the waiting gang has to wait for.
fn is_guest(running: &Running, waiting: &Gang) -> bool {
    running.rank > waiting.rank
        && running
            .started
            .is_none_or(|started| started >= waiting.whole_since)
}

fn release(free: &mut [Resources], cluster: &Cluster, gang: &Running) {
    for (node, held) in &gang.held {
        if let Some(index) = cluster.position(node) {
            free[index].add(held);
        }
    }
}

fn needs(gang: &Gang) -> impl Iterator<Item = &PodNeed> {
    gang.pods.iter().map(|pod| pod.need.as_ref())
}

pub(super) fn shapes_of(gang: &Gang) -> Vec<Shape<'_>> {
    shapes(needs(gang))
}
