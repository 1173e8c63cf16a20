//! What an object takes of a quota, by the quota's keys.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::builtin::quantity;

/// Amounts in billionths.
pub(super) type Charge = BTreeMap<String, i128>;

const ONE: i128 = 1_000_000_000;
const CLASS: &str = ".storageclass.storage.k8s.io/";
const CLAIMS: &str = "persistentvolumeclaims";
/// Resources whose number may be limited by their plain name.
const PLAIN: [&str; 6] = [
    "configmaps",
    CLAIMS,
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What an object of a resource takes. The tree is made only for the few resources where it matters.
pub(super) fn charge(resource: &str, object: impl FnOnce() -> Value) -> Charge {
    let mut charge = Charge::new();
    if resource == "pods" {
        return charge;
    }
    charge.insert(format!("count/{resource}"), ONE);
    if PLAIN.contains(&resource) {
        charge.insert(resource.to_owned(), ONE);
    }
    match resource {
        "services" => service(&mut charge, &object()["spec"]),
        CLAIMS => claim(&mut charge, &object()),
        _ => {}
    }
    charge
}

/// Whether a key of a quota is counted here.
pub(super) fn is_counted(key: &str) -> bool {
    match key.strip_prefix("count/") {
        Some(resource) => resource != "pods",
        None => !resource(key).is_empty(),
    }
}

/// The resource whose objects a key is about.
pub(super) fn resource(key: &str) -> &str {
    if let Some(resource) = key.strip_prefix("count/") {
        return resource;
    }
    match key {
        "requests.storage" => CLAIMS,
        "services.nodeports" | "services.loadbalancers" => "services",
        key if key.contains(CLASS) => CLAIMS,
        key if PLAIN.contains(&key) => key,
        _ => "",
    }
}

/// An amount as a quota's status shows it: sizes in powers of two.
pub(super) fn shown(key: &str, amount: i128) -> String {
    let is_size = key.ends_with("requests.storage");
    quantity::shown(amount, is_size)
}

fn service(charge: &mut Charge, spec: &Value) {
    let kind = spec["type"].as_str().unwrap_or_default();
    let ports = spec["ports"].as_array().map_or(0, Vec::len) as i128 * ONE;
    let allocates = spec["allocateLoadBalancerNodePorts"] != false;
    if kind == "LoadBalancer" {
        charge.insert("services.loadbalancers".to_owned(), ONE);
    }
    if kind == "NodePort" || (kind == "LoadBalancer" && allocates) {
        charge.insert("services.nodeports".to_owned(), ports);
    }
}

fn claim(charge: &mut Charge, claim: &Value) {
    const OLD_NAME: &str = "volume.beta.kubernetes.io/storage-class";
    let request = &claim["spec"]["resources"]["requests"]["storage"];
    let size = request.as_str().and_then(quantity::nanos).unwrap_or(0);
    charge.insert("requests.storage".to_owned(), size);
    let class = claim["metadata"]["annotations"][OLD_NAME].as_str();
    let class = class.or_else(|| claim["spec"]["storageClassName"].as_str());
    if let Some(class) = class.filter(|class| !class.is_empty()) {
        charge.insert(format!("{class}{CLASS}requests.storage"), size);
        charge.insert(format!("{class}{CLASS}{CLAIMS}"), ONE);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn text(resource: &str, object: &Value) -> String {
        let charge = charge(resource, || object.clone());
        let parts = charge
            .iter()
            .map(|(key, amount)| format!("{key}={}", shown(key, *amount)));
        parts.collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    #[case("secrets", json!({}), "count/secrets=1 secrets=1")]
    #[case("jobs.batch", json!({}), "count/jobs.batch=1")]
    #[case("pods", json!({}), "")]
    #[case("services", json!({"spec": {"type": "NodePort", "ports": [{}, {}]}}),
        "count/services=1 services=1 services.nodeports=2")]
    #[case("services", json!({"spec": {"type": "LoadBalancer", "ports": [{}],
        "allocateLoadBalancerNodePorts": false}}),
        "count/services=1 services=1 services.loadbalancers=1")]
    #[case("persistentvolumeclaims",
        json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}}),
        "count/persistentvolumeclaims=1 \
         fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
         fast.storageclass.storage.k8s.io/requests.storage=2Gi \
         persistentvolumeclaims=1 requests.storage=2Gi")]
    fn objects_take_their_part(#[case] resource: &str, #[case] object: Value, #[case] want: &str) {
        assert_eq!(text(resource, &object), want);
    }

    #[rstest]
    #[case("count/jobs.batch", true)]
    #[case("requests.storage", true)]
    #[case("fast.storageclass.storage.k8s.io/requests.storage", true)]
    #[case("services.nodeports", true)]
    #[case("count/pods", false)]
    #[case("pods", false)]
    #[case("requests.cpu", false)]
    #[case("limits.memory", false)]
    fn pods_are_left_to_the_scheduler(#[case] key: &str, #[case] want: bool) {
        assert_eq!(is_counted(key), want);
    }
}
