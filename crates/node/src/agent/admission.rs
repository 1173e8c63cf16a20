//! Which pods a node does not take, though they are bound to it. Pure.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

/// The label by which an administrator lets the pods of a namespace share what is the machine's, with
/// Kubernetes' own words for it. Roles of a namespace do not include changing the namespace.
const LEVEL: &str = "pod-security.kubernetes.io/enforce";
const PRIVILEGED: &str = "privileged";

/// What a pod asks for, by resource.
pub(super) type Needs = BTreeMap<String, Amount>;

/// Why a pod fails without having been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) message: String,
}

/// Whether the pod wants the machine's own network.
pub(super) fn wants_host_network(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.host_network).unwrap_or(false)
}

/// Refuses the machine's network, from which everything on its loopback can be reached, to pods of
/// namespaces that no administrator has opened.
pub(super) fn shares(pod: &Pod, namespace: Option<&Namespace>) -> Option<Refusal> {
    let is_open = namespace.is_some_and(|namespace| {
        namespace.labels().get(LEVEL).map(String::as_str) == Some(PRIVILEGED)
    });
    let name = pod.namespace().unwrap_or_default();
    (wants_host_network(pod) && !is_open).then(|| Refusal {
        reason: "HostNetworkForbidden".to_owned(),
        message: format!(
            "spec.hostNetwork: pods of namespace {name:?} may not use the machine's own network; leave it out, \
             or have an administrator label the namespace {LEVEL}={PRIVILEGED}"
        ),
    })
}

/// Refuses a pod that asks for devices in a way that nobody here serves: it would train without them.
pub(super) fn claims_devices(pod: &Pod) -> Option<Refusal> {
    let spec = pod.spec.as_ref()?;
    let claims = spec.resource_claims.iter().flatten().next().is_some();
    claims.then(|| Refusal {
        reason: "ResourceClaimsNotServed".to_owned(),
        message:
            "spec.resourceClaims: dynamic resource allocation is not there; ask for devices by \
                  resources.limits, such as nvidia.com/gpu"
                .to_owned(),
    })
}

/// Whether the scheduler bound the pod; one that was made with `nodeName` has not been looked at.
pub(super) fn is_scheduled(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
}

/// Refuses a pod that asks for more than the others leave, in the kubelet's words.
pub(super) fn fits<'a>(
    needs: &Needs,
    others: impl Iterator<Item = &'a Needs>,
    capacity: &BTreeMap<String, Quantity>,
) -> Option<Refusal> {
    let mut used = Needs::new();
    for (name, amount) in others.flatten() {
        let sum = used.entry(name.clone()).or_default();
        *sum = *sum + *amount;
    }
    needs.iter().find_map(|(name, amount)| {
        let total = capacity
            .get(name)
            .and_then(|quantity| Amount::try_from(quantity).ok())
            .unwrap_or_default();
        let taken = used.get(name).copied().unwrap_or_default();
        (amount.is_positive() && taken + *amount > total).then(|| Refusal {
            reason: format!("OutOf{name}"),
            message: format!(
                "Node didn't have enough resource: {name}, requested: {amount}, used: {taken}, capacity: {total}"
            ),
        })
    })
}

/// What a pod needs at once: its containers together, or one of the init containers that run before
/// them, each with the sidecars that run by then.
pub(super) fn needs(pod: &Pod) -> Needs {
    let mut sidecars = Needs::new();
    let mut most = Needs::new();
    let spec = pod.spec.clone().unwrap_or_default();
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, container);
        } else {
            let mut at_once = sidecars.clone();
            add(&mut at_once, container);
            raise(&mut most, at_once);
        }
    }
    for container in &spec.containers {
        add(&mut sidecars, container);
    }
    raise(&mut most, sidecars);
    most.insert("pods".to_owned(), Amount::whole(1));
    most
}

fn add(sum: &mut Needs, container: &Container) {
    let resources = container.resources.clone().unwrap_or_default();
    let mut asked = resources.limits.unwrap_or_default();
    asked.extend(resources.requests.unwrap_or_default());
    for (name, quantity) in asked {
        let amount = Amount::try_from(&quantity).unwrap_or_default();
        let total = sum.entry(name).or_default();
        *total = *total + amount;
    }
}

fn raise(most: &mut Needs, at_once: Needs) {
    for (name, amount) in at_once {
        let highest = most.entry(name).or_default();
        *highest = (*highest).max(amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "team"}, "spec": spec})).unwrap()
    }

    fn asks(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn the_machines_network_is_for_namespaces_that_an_administrator_opened() {
        let wanting = pod(&json!({"hostNetwork": true, "containers": []}));
        let labelled = |level: &str| -> Namespace {
            serde_json::from_value(json!({"metadata": {"name": "team", "labels": {LEVEL: level}}}))
                .unwrap()
        };
        let refusal = shares(&wanting, None).unwrap();
        assert!(refusal.message.contains("spec.hostNetwork"), "{refusal:?}");
        assert!(shares(&wanting, Some(&labelled("baseline"))).is_some());
        assert_eq!(shares(&wanting, Some(&labelled("privileged"))), None);
        assert_eq!(shares(&pod(&json!({"containers": []})), None), None);
    }

    #[test]
    fn devices_that_nobody_gives_are_refused() {
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        let wanting = pod(&json!({"resourceClaims": claims, "containers": []}));
        let refusal = claims_devices(&wanting).unwrap();
        assert!(refusal.message.starts_with("spec.resourceClaims"));
        assert_eq!(claims_devices(&pod(&json!({"containers": []}))), None);
    }

    #[test]
    fn a_pod_must_fit_into_what_the_others_leave() {
        let capacity = BTreeMap::from([
            ("cpu".to_owned(), Quantity("2".to_owned())),
            ("pods".to_owned(), Quantity("2".to_owned())),
        ]);
        let one = needs(&pod(&json!({"containers": [asks("1500m")]})));
        let fits = |spec: Value, others: &[Needs]| {
            fits(&needs(&pod(&spec)), others.iter(), &capacity).map(|refusal| refusal.reason)
        };
        let others = std::slice::from_ref(&one);
        assert_eq!(fits(json!({"containers": [asks("500m")]}), others), None);
        let want = Some("OutOfcpu".to_owned());
        assert_eq!(fits(json!({"containers": [asks("501m")]}), others), want);
        assert_eq!(
            fits(json!({"containers": [asks("2"), asks("1m")]}), &[]),
            want
        );
        let twice = [one.clone(), one];
        let want = Some("OutOfpods".to_owned());
        assert_eq!(fits(json!({"containers": [{"name": "c"}]}), &twice), want);
        let gpu = json!({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        let want = Some("OutOfnvidia.com/gpu".to_owned());
        assert_eq!(fits(json!({"containers": [gpu]}), &[]), want);
        let before = json!({"initContainers": [asks("2")], "containers": [asks("1")]});
        assert_eq!(fits(before, &[]), None);
    }
}
