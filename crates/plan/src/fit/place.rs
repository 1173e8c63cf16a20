//! Finding a node for every pod of a gang, or the reason why there is none.

use std::borrow::{Borrow, Cow};
use std::cmp::Reverse;

use astrago_api::quantity::Amount;

use super::constraints::{self, Obstacle};
use super::resources::{CPU, GPU, MEMORY, PODS};
use super::{Cause, NodeInfo, PodNeed, Resources};

/// The answer to "will these pods fit?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, at once: the node (by index) of every pod.
    Now(Vec<usize>),
    /// When room becomes free.
    Later(Cause),
    /// Not on the nodes that there are, even if they were empty.
    Never(Cause),
}

/// Whether the present health of nodes counts, or only what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Now,
    Ever,
}

/// Pods of a gang that need the same; `members` are their indexes in the gang.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    pub need: &'a PodNeed,
    pub members: Vec<usize>,
}

impl Shape<'_> {
    pub fn count(&self) -> u64 {
        self.members.len() as u64
    }

    /// Whether a pod of this shape may run on this node at all.
    pub fn may_use(&self, node: &NodeInfo, moment: Moment) -> bool {
        constraints::lasting(self.need, node).is_ok()
            && (moment == Moment::Ever || constraints::passing(self.need, node).is_ok())
    }
}

/// Groups pods by what they need, the most demanding first.
pub fn shapes<'a>(pods: impl IntoIterator<Item = &'a PodNeed>) -> Vec<Shape<'a>> {
    let mut shapes: Vec<Shape<'a>> = Vec::new();
    for (index, need) in pods.into_iter().enumerate() {
        match shapes.iter_mut().find(|shape| shape.need == need) {
            Some(shape) => shape.members.push(index),
            None => shapes.push(Shape {
                need,
                members: vec![index],
            }),
        }
    }
    shapes.sort_by_key(|shape| {
        let requests = &shape.need.requests;
        Reverse((requests.gpus(), requests.get(CPU), requests.get(MEMORY)))
    });
    shapes
}

/// Finds a node (by index) for every pod, in the order of the shapes and their members.
pub fn place<R: Borrow<Resources>>(
    shapes: &[Shape<'_>],
    nodes: &[NodeInfo],
    free: &[R],
    moment: Moment,
) -> Option<Vec<usize>> {
    let usable: Vec<Vec<usize>> = shapes
        .iter()
        .map(|shape| {
            (0..nodes.len())
                .filter(|index| shape.may_use(&nodes[*index], moment))
                .collect()
        })
        .collect();
    fill(shapes, nodes, free, &usable, Policy::Preferred).or_else(|| {
        // With equal pods the order of nodes cannot matter, so a second try would be in vain.
        (shapes.len() > 1)
            .then(|| fill(shapes, nodes, free, &usable, Policy::Packed))
            .flatten()
    })
}

#[derive(Clone, Copy)]
enum Policy {
    Preferred,
    Packed,
}

fn fill<R: Borrow<Resources>>(
    shapes: &[Shape<'_>],
    nodes: &[NodeInfo],
    free: &[R],
    usable: &[Vec<usize>],
    policy: Policy,
) -> Option<Vec<usize>> {
    let mut free: Vec<Cow<'_, Resources>> = free
        .iter()
        .map(|free| Cow::Borrowed(free.borrow()))
        .collect();
    let mut chosen = Vec::new();
    for (shape, usable) in shapes.iter().zip(usable) {
        let need = &shape.need.requests;
        for _ in &shape.members {
            let node = usable
                .iter()
                .copied()
                .filter(|node| free[*node].covers(need))
                .min_by_key(|node| rank(shape.need, &nodes[*node], &free[*node], policy))?;
            free[node].to_mut().subtract(need);
            chosen.push(node);
        }
    }
    Some(chosen)
}

/// The lower, the better; see the policy in the documentation of [`crate::fit`].
fn rank(
    pod: &PodNeed,
    node: &NodeInfo,
    free: &Resources,
    policy: Policy,
) -> (bool, bool, i128, i128) {
    let disliked = constraints::is_disliked(pod, node);
    let wants_gpu = pod.requests.gpus().is_positive();
    if wants_gpu || matches!(policy, Policy::Packed) {
        return (disliked, false, free.gpus().nanos(), free.get(CPU).nanos());
    }
    let share = |name: &str| {
        let left = (free.get(name) - pod.requests.get(name)).nanos();
        left.saturating_mul(1000) / node.allocatable.get(name).nanos().max(1)
    };
    let has_gpus = node.allocatable.gpus().is_positive();
    (disliked, has_gpus, -share(CPU).min(share(MEMORY)), 0)
}

/// Brings nodes from the order of the shapes into the order of the pods.
pub(super) fn in_pod_order(shapes: &[Shape<'_>], nodes: Vec<usize>, pods: usize) -> Vec<usize> {
    let mut ordered = vec![0; pods];
    let members = shapes.iter().flat_map(|shape| &shape.members);
    for (member, node) in members.zip(nodes) {
        ordered[*member] = node;
    }
    ordered
}

/// Why a gang that could fit on empty nodes does not fit on these now.
pub(super) fn waits_because(shapes: &[Shape<'_>], nodes: &[NodeInfo], free: &[Resources]) -> Cause {
    for shape in shapes {
        let suitable: Vec<_> = nodes
            .iter()
            .filter(|node| shape.may_use(node, Moment::Ever))
            .collect();
        let obstacles = suitable
            .iter()
            .map(|node| constraints::passing(shape.need, node).err());
        // The node that comes nearest to being usable names the reason.
        if let Some(Some(obstacle)) = obstacles.min() {
            return if obstacle == Obstacle::Unschedulable {
                Cause::Cordoned
            } else {
                Cause::NotReady
            };
        }
        if suitable.is_empty() {
            return Cause::NotReady;
        }
    }
    let usable: Vec<_> = (0..nodes.len())
        .filter(|node| {
            shapes
                .iter()
                .any(|shape| shape.may_use(&nodes[*node], Moment::Now))
        })
        .collect();
    let needed = total(shapes);
    for resource in by_weight(&needed) {
        let needed = needed.get(resource);
        let free = usable
            .iter()
            .map(|node| free[*node].get(resource).at_least_zero())
            .sum();
        if free < needed {
            return Cause::Shortage {
                resource: resource.to_owned(),
                needed,
                free,
            };
        }
    }
    for shape in shapes {
        for resource in by_weight(&shape.need.requests) {
            let needed = shape.need.requests.get(resource);
            let best = (0..nodes.len())
                .filter(|node| shape.may_use(&nodes[*node], Moment::Now))
                .map(|node| free[node].get(resource).at_least_zero())
                .max()
                .unwrap_or_default();
            if best < needed {
                return Cause::Scattered {
                    resource: resource.to_owned(),
                    needed,
                    free: best,
                };
            }
        }
    }
    let pods: u64 = shapes.iter().map(Shape::count).sum();
    let fits = shapes
        .iter()
        .map(|shape| count_room(shape, nodes, free, Moment::Now))
        .sum::<u64>();
    Cause::Room {
        pods,
        fits: fits.min(pods.saturating_sub(1)),
    }
}

/// Why a gang does not fit even on empty nodes.
pub(super) fn never_because(shapes: &[Shape<'_>], nodes: &[NodeInfo]) -> Cause {
    for shape in shapes {
        let suitable: Vec<_> = nodes
            .iter()
            .filter(|node| shape.may_use(node, Moment::Ever))
            .collect();
        if suitable.is_empty() {
            // The rule that the most promising node fails at is the one to name.
            let obstacles = nodes
                .iter()
                .filter_map(|node| constraints::lasting(shape.need, node).err());
            return match obstacles.max() {
                Some(Obstacle::Selector) => Cause::NoNodeSelected,
                Some(Obstacle::Affinity) => Cause::NoNodeAffine,
                _ => Cause::Tainted,
            };
        }
        for resource in by_weight(&shape.need.requests) {
            let needed = shape.need.requests.get(resource);
            let largest = suitable
                .iter()
                .map(|node| node.allocatable.get(resource))
                .max()
                .unwrap_or_default();
            if largest < needed {
                return Cause::TooBig {
                    resource: resource.to_owned(),
                    needed,
                    largest,
                };
            }
        }
    }
    let needed = total(shapes);
    for resource in by_weight(&needed) {
        let needed = needed.get(resource);
        let all = nodes
            .iter()
            .filter(|node| shapes.iter().any(|shape| shape.may_use(node, Moment::Ever)))
            .map(|node| node.allocatable.get(resource))
            .sum();
        if all < needed {
            return Cause::TooMuch {
                resource: resource.to_owned(),
                needed,
                all,
            };
        }
    }
    Cause::NotTogether {
        pods: shapes.iter().map(Shape::count).sum(),
    }
}

fn total(shapes: &[Shape<'_>]) -> Resources {
    let mut total = Resources::default();
    for shape in shapes {
        total.add(&shape.need.requests.scaled(shape.count()));
    }
    total
}

fn count_room(shape: &Shape<'_>, nodes: &[NodeInfo], free: &[Resources], moment: Moment) -> u64 {
    nodes
        .iter()
        .zip(free)
        .filter(|(node, _)| shape.may_use(node, moment))
        .map(|(_, free)| free.times(&shape.need.requests).min(shape.count()))
        .sum()
}

/// Resource names in the order in which people want to hear of them: accelerators first, the
/// number of pods last.
fn by_weight(resources: &Resources) -> Vec<&str> {
    let mut names: Vec<&str> = resources
        .iter()
        .filter(|(_, amount)| **amount > Amount::ZERO)
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_by_key(|name| match *name {
        GPU => 0,
        CPU => 2,
        MEMORY => 3,
        PODS => 5,
        name if name.contains('/') => 1,
        _ => 4,
    });
    names
}
