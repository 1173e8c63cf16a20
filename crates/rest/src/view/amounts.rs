//! Sums of quantities.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::model::Amounts;

impl Amounts {
    pub(crate) fn of(list: &BTreeMap<String, Quantity>) -> Self {
        let read = |quantity: &Quantity| Amount::try_from(quantity).ok();
        let named = |name: &str| list.get(name).and_then(read).unwrap_or_default();
        let gpu: Amount = list
            .iter()
            .filter(|(name, _)| name.to_ascii_lowercase().contains("gpu"))
            .filter_map(|(_, quantity)| read(quantity))
            .sum();
        Self {
            cpu: cores(named("cpu")),
            memory: named("memory").units_up(),
            gpu: gpu.units_up(),
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            memory: self.memory + other.memory,
            gpu: self.gpu + other.gpu,
        }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self {
            cpu: (self.cpu - other.cpu).max(0.0),
            memory: (self.memory - other.memory).max(0),
            gpu: (self.gpu - other.gpu).max(0),
        }
    }

    pub(crate) fn times(&self, count: i64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a count of nodes")]
        let factor = count as f64;
        Self {
            cpu: self.cpu * factor,
            memory: self.memory * count,
            gpu: self.gpu * count,
        }
    }
}

/// What a set of requirements asks for: its requests, or its limits where it has none.
pub(crate) fn of_resources(resources: &ResourceRequirements) -> Amounts {
    let mut list = resources.limits.clone().unwrap_or_default();
    list.extend(resources.requests.clone().unwrap_or_default());
    Amounts::of(&list)
}

/// What a pod holds on its machine: the sum of its containers, or its largest init container.
pub(crate) fn of_pod(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::default();
    };
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        container
            .resources
            .as_ref()
            .map(of_resources)
            .unwrap_or_default()
    };
    let running = spec
        .containers
        .iter()
        .map(of)
        .fold(Amounts::default(), |sum, next| sum.plus(&next));
    spec.init_containers
        .iter()
        .flatten()
        .map(of)
        .fold(running, |most, next| Amounts {
            cpu: most.cpu.max(next.cpu),
            memory: most.memory.max(next.memory),
            gpu: most.gpu.max(next.gpu),
        })
}

/// An amount of processors as people write it.
pub(crate) fn cores(amount: Amount) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "cores have few digits")]
    let millis = amount.millis_up() as f64;
    millis / 1000.0
}
