//! Amounts by resource name, and what a pod needs.

use std::collections::{BTreeMap, btree_map};

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{
    Container, NodeSelectorTerm, PodSpec, ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Error, Result};

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
/// The resource that people mean by "GPU"; others are called by their full name.
pub const GPU: &str = "nvidia.com/gpu";

/// Amounts by resource name. A name that is absent means none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, Amount>);

impl Resources {
    pub fn read(list: Option<&BTreeMap<String, Quantity>>, field: &str) -> Result<Self> {
        let mut resources = Self::default();
        for (name, quantity) in list.into_iter().flatten() {
            let amount = Amount::try_from(quantity).map_err(|source| Error {
                field: format!("{field}[{name}]"),
                source,
            })?;
            resources.0.insert(name.clone(), amount);
        }
        Ok(resources)
    }

    pub fn get(&self, name: &str) -> Amount {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn set(&mut self, name: &str, amount: Amount) {
        self.0.insert(name.to_owned(), amount);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> btree_map::Iter<'_, String, Amount> {
        self.0.iter()
    }

    pub fn add(&mut self, other: &Self) {
        self.merge(other, |mine, theirs| mine + theirs);
    }

    pub fn subtract(&mut self, other: &Self) {
        self.merge(other, |mine, theirs| mine - theirs);
    }

    /// The larger amount of each resource.
    pub fn raise(&mut self, other: &Self) {
        self.merge(other, Amount::max);
    }

    /// What is left of this after `other`, never less than nothing.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let amounts = self
            .0
            .iter()
            .map(|(name, amount)| (name.clone(), (*amount - other.get(name)).at_least_zero()));
        Self(amounts.collect())
    }

    #[must_use]
    pub fn scaled(&self, factor: u64) -> Self {
        Self(
            self.0
                .iter()
                .map(|(name, amount)| (name.clone(), amount.scaled(factor)))
                .collect(),
        )
    }

    /// Whether all that `need` asks for is here.
    pub fn covers(&self, need: &Self) -> bool {
        need.0
            .iter()
            .all(|(name, amount)| !amount.is_positive() || self.get(name) >= *amount)
    }

    /// How many times `need` is contained in this.
    pub fn times(&self, need: &Self) -> u64 {
        let counts = need
            .0
            .iter()
            .filter_map(|(name, amount)| self.get(name).times(*amount));
        counts.min().unwrap_or(u64::MAX)
    }

    /// All accelerators together: every resource that is a device rather than a share of the host.
    pub fn gpus(&self) -> Amount {
        self.0
            .iter()
            .filter(|(name, _)| is_gpu(name))
            .map(|(_, amount)| *amount)
            .sum()
    }

    fn merge(&mut self, other: &Self, with: impl Fn(Amount, Amount) -> Amount) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(mine) => *mine = with(*mine, *amount),
                None => {
                    self.0.insert(name.clone(), with(Amount::ZERO, *amount));
                }
            }
        }
    }
}

impl<'a> IntoIterator for &'a Resources {
    type Item = (&'a String, &'a Amount);
    type IntoIter = btree_map::Iter<'a, String, Amount>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> FromIterator<(&'a str, Amount)> for Resources {
    fn from_iter<I: IntoIterator<Item = (&'a str, Amount)>>(amounts: I) -> Self {
        Self(
            amounts
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
        )
    }
}

fn is_gpu(name: &str) -> bool {
    name.contains('/') && (name.contains("gpu") || name.contains("/mig-"))
}

/// What one pod needs of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodNeed {
    pub requests: Resources,
    pub node_selector: BTreeMap<String, String>,
    /// The terms of the required node affinity, of which one must match; `None` without any.
    pub affinity: Option<Vec<NodeSelectorTerm>>,
    pub tolerations: Vec<Toleration>,
}

impl PodNeed {
    pub fn of(spec: &PodSpec) -> Result<Self> {
        let mut requests = pod_total(spec, "requests", |resources, field| {
            // A limit without a request is also the request.
            let mut requests = Resources::read(resources.limits.as_ref(), field)?;
            let stated = Resources::read(resources.requests.as_ref(), field)?;
            requests.0.extend(stated.0);
            Ok(requests)
        })?;
        requests.add(&Resources::read(spec.overhead.as_ref(), "spec.overhead")?);
        requests.set(PODS, Amount::whole(1));
        let affinity = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|node| {
            node.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        Ok(Self {
            requests,
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            affinity: required.map(|selector| selector.node_selector_terms.clone()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
        })
    }
}

/// The limits of a pod, for quotas.
pub fn pod_limits(spec: &PodSpec) -> Result<Resources> {
    let mut limits = pod_total(spec, "limits", |resources, field| {
        Resources::read(resources.limits.as_ref(), field)
    })?;
    limits.add(&Resources::read(spec.overhead.as_ref(), "spec.overhead")?);
    Ok(limits)
}

/// Containers run together; init containers run one after another before them, but an init
/// container that restarts always (a sidecar) keeps running beside everything after it.
fn pod_total(
    spec: &PodSpec,
    what: &str,
    read: impl Fn(&ResourceRequirements, &str) -> Result<Resources>,
) -> Result<Resources> {
    let of = |container: &Container, list: &str| match &container.resources {
        None => Ok(Resources::default()),
        Some(resources) => read(
            resources,
            &format!("spec.{list}[{}].resources.{what}", container.name),
        ),
    };
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let mut at_once = of(container, "initContainers")?;
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&at_once);
        } else {
            at_once.add(&sidecars);
            starting.raise(&at_once);
        }
        starting.raise(&sidecars);
    }
    let mut total = sidecars;
    for container in &spec.containers {
        total.add(&of(container, "containers")?);
    }
    total.raise(&starting);
    if let Some(resources) = &spec.resources {
        // Amounts stated for the whole pod hold instead of the sum.
        total
            .0
            .extend(read(resources, &format!("spec.resources.{what}"))?.0);
    }
    Ok(total)
}
