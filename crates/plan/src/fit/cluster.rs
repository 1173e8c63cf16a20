//! Nodes and the room that is left on them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};

use super::place::{self, Moment, Shape, Verdict};
use super::{Cause, PodNeed, Resources, Result};

/// What placement has to know of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeInfo {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub ready: bool,
    pub allocatable: Resources,
}

impl NodeInfo {
    pub fn of(node: &Node) -> Result<Self> {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        // A node that says only what it has offers all of it.
        let offer = status.allocatable.as_ref().or(status.capacity.as_ref());
        let conditions = status.conditions.unwrap_or_default();
        Ok(Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            ready: conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            allocatable: Resources::read(offer, "status.allocatable")?,
        })
    }
}

/// Nodes with the room that is left on each, index by index.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub nodes: Vec<NodeInfo>,
    pub free: Vec<Resources>,
}

impl Cluster {
    /// Nodes without any load.
    pub fn empty(nodes: Vec<NodeInfo>) -> Self {
        let free = nodes.iter().map(|node| node.allocatable.clone()).collect();
        Self { nodes, free }
    }

    /// Nodes under the load of the pods that are bound to them. Pods whose needs cannot be read
    /// count as nothing: the API server refuses them before they get here.
    pub fn of(nodes: &[Node], pods: &[Pod]) -> Result<Self> {
        let mut cluster = Self::empty(nodes.iter().map(NodeInfo::of).collect::<Result<Vec<_>>>()?);
        for pod in pods.iter().filter(|pod| holds_room(pod)) {
            let Some(spec) = &pod.spec else { continue };
            let node = spec.node_name.as_deref().unwrap_or_default();
            if let (Some(index), Ok(need)) = (cluster.position(node), PodNeed::of(spec)) {
                cluster.free[index].subtract(&need.requests);
            }
        }
        Ok(cluster)
    }

    pub fn position(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|info| info.name == node)
    }

    /// Whether these pods fit all together: now (and where), later, or never.
    pub fn verdict(&self, pods: &[PodNeed]) -> Verdict {
        let shapes = place::shapes(pods.iter());
        if let Some(nodes) = place::place(&shapes, &self.nodes, &self.free, Moment::Now) {
            return Verdict::Now(place::in_pod_order(&shapes, nodes, pods.len()));
        }
        let cause = self.refusal(&shapes);
        if cause.is_final() {
            Verdict::Never(cause)
        } else {
            Verdict::Later(cause)
        }
    }

    /// Why a gang of these shapes, for which there is no placement, does not fit.
    pub fn refusal(&self, shapes: &[Shape<'_>]) -> Cause {
        let capacity: Vec<_> = self.nodes.iter().map(|node| &node.allocatable).collect();
        let fits_when_empty = place::place(shapes, &self.nodes, &capacity, Moment::Ever).is_some();
        if fits_when_empty || self.nodes.is_empty() {
            place::waits_because(shapes, &self.nodes, &self.free)
        } else {
            place::never_because(shapes, &self.nodes)
        }
    }
}

/// A bound pod holds its room until it has ended.
pub fn holds_room(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}
