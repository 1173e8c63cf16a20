//! Resources of a node: laying the job's over the runtime's, and counting GPUs and CPUs.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::fit::{CPU, GPU};

/// Lays `over` on `base` key by key; claims by name. What `over` does not mention stays.
pub(crate) fn merge(base: &mut ResourceRequirements, over: &ResourceRequirements) {
    for (base, over) in [
        (&mut base.limits, &over.limits),
        (&mut base.requests, &over.requests),
    ] {
        if let Some(over) = over.as_ref().filter(|over| !over.is_empty()) {
            base.get_or_insert_default().extend(over.clone());
        }
    }
    for claim in over.claims.iter().flatten() {
        let claims = base.claims.get_or_insert_default();
        match claims.iter_mut().find(|old| old.name == claim.name) {
            Some(old) => *old = claim.clone(),
            None => claims.push(claim.clone()),
        }
    }
}

/// Says that a container has no GPU where its limits name no device at all: Kubeflow's SDK takes a step's device from
/// the limits of its container, and lists no job of a namespace in which one has limits without any. A CPU that nobody
/// asked for would go past the defaults of a LimitRange, and past requests; zero GPUs change nothing.
pub(crate) fn name_a_device(resources: &mut ResourceRequirements) {
    let Some(limits) = &mut resources.limits else {
        return;
    };
    if limits.is_empty() {
        resources.limits = None;
    } else if !limits.keys().any(|name| is_device_of_sdk(name)) {
        limits.insert(GPU.to_owned(), Quantity("0".to_owned()));
    }
}

/// The names by which both SDKs know a device.
fn is_device_of_sdk(name: &str) -> bool {
    [CPU, GPU, "google.com/tpu", "huawei.com/Ascend910"].contains(&name)
        || name.starts_with("nvidia.com/mig-")
}

/// Whether a resource is a GPU: its name contains `gpu`, or it is a slice of one (`nvidia.com/mig-…`).
pub(crate) fn is_gpu(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("gpu") || name.contains("/mig-")
}

/// How many GPUs a container gets.
pub(crate) fn gpus(resources: Option<&ResourceRequirements>) -> i64 {
    let Some(resources) = resources else { return 0 };
    match gpus_in(resources.requests.as_ref()) {
        0 => gpus_in(resources.limits.as_ref()),
        requested => requested,
    }
}

/// How many whole CPUs a container gets; at least one.
pub(crate) fn cpus(resources: Option<&ResourceRequirements>) -> i64 {
    let lists = resources
        .into_iter()
        .flat_map(|all| [all.requests.as_ref(), all.limits.as_ref()]);
    let mut cpus = lists.filter_map(|list| list?.get("cpu").and_then(units));
    cpus.next().unwrap_or(1).max(1)
}

fn gpus_in(list: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let gpus = list.into_iter().flatten().filter(|(name, _)| is_gpu(name));
    gpus.filter_map(|(_, quantity)| units(quantity)).sum()
}

/// A quantity in whole units, rounded up; nothing if it is no quantity.
fn units(quantity: &Quantity) -> Option<i64> {
    Amount::try_from(quantity).ok().map(Amount::units_up)
}
