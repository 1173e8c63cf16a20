//! The machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use astrago_plan::fit::holds_room;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Result, list};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::{Amounts, NodeInfo};
use crate::view;
use crate::world::Key;

/// The machines, and what runs on them as far as the caller may know.
pub(crate) async fn nodes(context: &Context, caller: &Caller) -> Result<Vec<NodeInfo>> {
    let readable = list::readable(context, caller, None).await?;
    let mirrors = &context.world.mirrors;
    let pods = mirrors.pods.all();
    let mut used: BTreeMap<&str, (Amounts, Vec<String>)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| holds_room(pod)) {
        let Some(machine) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            continue;
        };
        let (amounts, jobs) = used.entry(machine).or_default();
        *amounts = amounts.plus(&view::of_pod(pod));
        if let Some(job) = Key::of_training_job(pod).filter(|job| readable.may(&job.namespace)) {
            let job = job.to_string();
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }
    let nodes = mirrors.nodes.all();
    let view = |node: &Arc<Node>| {
        node_view(
            node,
            used.remove(node.name_any().as_str()).unwrap_or_default(),
        )
    };
    Ok(nodes.iter().map(view).collect())
}

fn node_view(node: &Node, (used, jobs): (Amounts, Vec<String>)) -> NodeInfo {
    let label = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| node.labels().get(*name).cloned())
    };
    let status = node.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());
    let capacity =
        status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let capacity = capacity.map(Amounts::of).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    NodeInfo {
        name: node.name_any(),
        ready: ready.is_some_and(|condition| condition.status == "True"),
        instance_type: label(&[
            "node.kubernetes.io/instance-type",
            "beta.kubernetes.io/instance-type",
        ]),
        architecture: label(&["kubernetes.io/arch"])
            .or_else(|| info.map(|info| info.architecture.clone()))
            .unwrap_or_default(),
        os: info
            .map(|info| info.os_image.clone())
            .filter(|os| !os.is_empty())
            .or_else(|| label(&["kubernetes.io/os"]))
            .unwrap_or_default(),
        gpu_count: capacity.gpu,
        capacity_type: label(&[
            "karpenter.sh/capacity-type",
            "eks.amazonaws.com/capacityType",
            "astrago.io/capacity-type",
        ]),
        zone: label(&["topology.kubernetes.io/zone"]),
        capacity,
        used,
        jobs,
        message: ready
            .and_then(|condition| condition.message.clone())
            .filter(|message| !message.is_empty()),
    }
}
