//! Values that a pod may ask about itself: `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

/// What is known about a pod beyond its own object.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) pod: &'a Pod,
    pub(super) node_name: &'a str,
    pub(super) host_address: IpAddr,
    pub(super) address: Option<Ipv4Addr>,
    /// What the node offers, which is the limit of containers that name none.
    pub(super) allocatable: &'a BTreeMap<String, Quantity>,
}

/// The value of a field of the pod; `None` for a field that cannot be asked for.
pub(super) fn field(facts: &Facts<'_>, path: &str) -> Option<String> {
    let pod = facts.pod;
    let spec = pod.spec.as_ref();
    let own = || {
        facts.address.map_or_else(
            || facts.host_address.to_string(),
            |address| address.to_string(),
        )
    };
    let value = match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => listing(pod.labels()),
        "metadata.annotations" => listing(pod.annotations()),
        "spec.nodeName" => facts.node_name.to_owned(),
        "spec.serviceAccountName" => spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_else(|| "default".to_owned()),
        "status.hostIP" | "status.hostIPs" => facts.host_address.to_string(),
        "status.podIP" | "status.podIPs" => own(),
        _ => {
            let subscript = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
            let (map, key) = subscript("metadata.labels['")
                .map(|key| (pod.labels(), key))
                .or_else(|| {
                    subscript("metadata.annotations['").map(|key| (pod.annotations(), key))
                })?;
            map.get(key).cloned().unwrap_or_default()
        }
    };
    Some(value)
}

/// A limit or request of a container in units of the divisor, rounded up.
pub(super) fn resource(
    facts: &Facts<'_>,
    container: &Container,
    selector: &ResourceFieldSelector,
) -> Option<String> {
    let resources = container.resources.as_ref();
    let (kind, name) = selector.resource.split_once('.')?;
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let quantity = match kind {
        "limits" => limits
            .and_then(|limits| limits.get(name))
            .or_else(|| facts.allocatable.get(name)),
        "requests" => requests
            .and_then(|requests| requests.get(name))
            .or_else(|| limits.and_then(|limits| limits.get(name))),
        _ => return None,
    };
    let nanos = quantity
        .and_then(|quantity| Amount::try_from(quantity).ok())
        .map_or(0, Amount::nanos);
    let divisor = selector
        .divisor
        .as_ref()
        .and_then(|divisor| Amount::try_from(divisor).ok())
        .map(Amount::nanos);
    let divisor = divisor
        .filter(|divisor| *divisor > 0)
        .unwrap_or(1_000_000_000);
    Some(((nanos + divisor - 1) / divisor).to_string())
}

/// Labels and annotations as the files of a downwardAPI volume have them.
fn listing(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<_> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}\n"))
        .collect();
    lines.concat()
}

#[cfg(test)]
impl<'a> Facts<'a> {
    pub(super) fn for_tests(pod: &'a Pod) -> Self {
        static NOTHING: BTreeMap<String, Quantity> = BTreeMap::new();
        Self {
            pod,
            node_name: "node",
            host_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            address: Some(Ipv4Addr::new(10, 224, 0, 2)),
            allocatable: &NOTHING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_itself() {
        let mut pod = Pod::default();
        pod.metadata.annotations = Some(
            [(
                "batch.kubernetes.io/job-completion-index".to_owned(),
                "3".to_owned(),
            )]
            .into(),
        );
        let facts = Facts::for_tests(&pod);
        let get = |path| field(&facts, path);
        assert_eq!(
            get("metadata.annotations['batch.kubernetes.io/job-completion-index']").as_deref(),
            Some("3")
        );
        assert_eq!(get("metadata.labels['none']").as_deref(), Some(""));
        assert_eq!(get("status.podIP").as_deref(), Some("10.224.0.2"));
        assert_eq!(get("spec.containers"), None);
    }

    #[test]
    fn resources_are_counted_in_the_divisor_and_rounded_up() {
        let pod = Pod::default();
        let facts = Facts::for_tests(&pod);
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
        }))
        .unwrap();
        let get = |name: &str, divisor: Option<&str>| {
            let selector = ResourceFieldSelector {
                resource: name.to_owned(),
                divisor: divisor.map(|text| Quantity(text.to_owned())),
                ..ResourceFieldSelector::default()
            };
            resource(&facts, &container, &selector).unwrap()
        };
        assert_eq!(get("limits.cpu", None), "2");
        assert_eq!(get("limits.cpu", Some("1m")), "1500");
        assert_eq!(get("requests.memory", Some("1Mi")), "1024");
    }
}
