//! Which nodes a pod may run on at all, whatever room they have.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

use super::{NodeInfo, PodNeed};

/// The first rule that keeps a pod off a node, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    Selector,
    Affinity,
    Taint,
    Unschedulable,
    NotReady,
}

/// Checks the rules that stay true whatever happens to the load and health of the node.
pub(super) fn lasting(pod: &PodNeed, node: &NodeInfo) -> Result<(), Obstacle> {
    if pod
        .node_selector
        .iter()
        .any(|(key, value)| node.labels.get(key) != Some(value))
    {
        return Err(Obstacle::Selector);
    }
    if let Some(terms) = &pod.affinity
        && !terms.iter().any(|term| term_matches(term, node))
    {
        return Err(Obstacle::Affinity);
    }
    let mut taints = node
        .taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    match taints.find(|taint| !is_health(taint) && !is_tolerated(taint, &pod.tolerations)) {
        Some(_) => Err(Obstacle::Taint),
        None => Ok(()),
    }
}

/// Checks the rules that change with the health of the node.
pub(super) fn passing(pod: &PodNeed, node: &NodeInfo) -> Result<(), Obstacle> {
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.unschedulable && !is_tolerated(&unschedulable, &pod.tolerations) {
        return Err(Obstacle::Unschedulable);
    }
    let mut health = node
        .taints
        .iter()
        .filter(|taint| is_health(taint) && taint.effect != "PreferNoSchedule");
    if !node.ready || health.any(|taint| !is_tolerated(taint, &pod.tolerations)) {
        return Err(Obstacle::NotReady);
    }
    Ok(())
}

/// Whether a taint asks to keep this pod away if that is possible.
pub(super) fn is_disliked(pod: &PodNeed, node: &NodeInfo) -> bool {
    let mut soft = node
        .taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule");
    soft.any(|taint| !is_tolerated(taint, &pod.tolerations))
}

/// Taints under this prefix are set and removed by controllers as the node's health changes.
fn is_health(taint: &Taint) -> bool {
    taint.key.starts_with("node.kubernetes.io/")
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let key = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let value = toleration.value.as_deref().unwrap_or_default();
        (effect.is_empty() || effect == taint.effect)
            && ((key.is_empty() && exists) || key == taint.key)
            && (exists || value == taint.value.as_deref().unwrap_or_default())
    })
}

/// All requirements of a term must hold; a term without any matches no node.
fn term_matches(term: &NodeSelectorTerm, node: &NodeInfo) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    !(labels.is_empty() && fields.is_empty())
        && labels
            .iter()
            .all(|rule| requirement_holds(rule, node.labels.get(&rule.key).map(String::as_str)))
        && fields
            .iter()
            .all(|rule| rule.key == "metadata.name" && requirement_holds(rule, Some(&node.name)))
}

fn requirement_holds(rule: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    let contained = actual.is_some_and(|actual| values.iter().any(|value| value == actual));
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|value| number(value));
    match rule.operator.as_str() {
        "In" => contained,
        "NotIn" => !contained,
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => matches!((actual.and_then(number), bound), (Some(a), Some(b)) if a > b),
        "Lt" => matches!((actual.and_then(number), bound), (Some(a), Some(b)) if a < b),
        _ => false,
    }
}
