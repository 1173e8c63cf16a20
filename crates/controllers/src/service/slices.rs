//! What the EndpointSlices of a Service say. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use astrago_api::ObjectKey;
use astrago_plan::owned_by;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::pod;

/// Whose slices they are.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MOST: usize = 100;

/// The slices that a Service should have; `None` if its user makes them.
pub(super) fn slices(service: &Service, pods: &[Arc<Pod>]) -> Option<Vec<EndpointSlice>> {
    let spec = service.spec.as_ref()?;
    let selects = spec.selector.as_ref().is_some_and(|it| !it.is_empty());
    if !selects || spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    // Pods whose named ports have different numbers are told apart.
    let mut groups: BTreeMap<Vec<(String, String, i32)>, Vec<Endpoint>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod::is_terminal(pod)) {
        if let Some(endpoint) = endpoint(service, pod) {
            groups
                .entry(ports(service, pod))
                .or_default()
                .push(endpoint);
        }
    }
    if groups.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    let parts = groups.into_iter().flat_map(|(ports, endpoints)| {
        let mut parts: Vec<Vec<Endpoint>> = endpoints.chunks(MOST).map(<[_]>::to_vec).collect();
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        parts.into_iter().map(move |part| (ports.clone(), part))
    });
    Some(
        parts
            .enumerate()
            .map(|(index, (ports, endpoints))| slice(service, index, &ports, endpoints))
            .collect(),
    )
}

fn slice(
    service: &Service,
    index: usize,
    ports: &[(String, String, i32)],
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_NAME.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.into(), String::new());
    }
    let ports = ports.iter().map(|(name, protocol, port)| EndpointPort {
        name: Some(name.clone()),
        protocol: Some(protocol.clone()),
        port: Some(*port),
        app_protocol: None,
    });
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{}-{index}", service.name_any())),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: owned_by(service),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".into(),
        endpoints: Some(endpoints),
        ports: Some(ports.collect()),
    }
}

fn endpoint(service: &Service, pod: &Pod) -> Option<Endpoint> {
    let status = pod.status.as_ref()?;
    let address = status
        .pod_ip
        .clone()
        .filter(|address| !address.is_empty())?;
    let early = service
        .spec
        .as_ref()
        .and_then(|spec| spec.publish_not_ready_addresses)
        .unwrap_or(false);
    let conditions = status.conditions.iter().flatten();
    let serving = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let spec = pod.spec.as_ref();
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref());
    let hostname = spec
        .and_then(|spec| spec.hostname.clone())
        .filter(|_| subdomain == Some(service.name_any().as_str()));
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some((serving && !terminating) || early),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname,
        node_name: spec.and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            name: Some(pod.name_any()),
            namespace: pod.namespace(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

/// Name, protocol and number of the ports of a pod that the Service means.
fn ports(service: &Service, pod: &Pod) -> Vec<(String, String, i32)> {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            let number = number(port, &protocol, pod)?;
            Some((port.name.clone().unwrap_or_default(), protocol, number))
        })
        .collect()
}

fn number(port: &ServicePort, protocol: &str, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None | Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut named = containers.flat_map(|container| container.ports.iter().flatten());
    named
        .find(|known| {
            known.name.as_ref() == Some(name)
                && known.protocol.as_deref().unwrap_or("TCP") == protocol
        })
        .map(|known| known.container_port)
}

/// Whether a slice that is there says what it should.
pub(super) fn same(known: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    known.endpoints.clone().unwrap_or_default() == wanted.endpoints.clone().unwrap_or_default()
        && known.ports.clone().unwrap_or_default() == wanted.ports.clone().unwrap_or_default()
        && known.metadata.labels == wanted.metadata.labels
        && known.metadata.owner_references == wanted.metadata.owner_references
}

/// The Service of a slice of ours.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let labels = slice.labels();
    let ours = labels.get(MANAGED_BY).is_some_and(|it| it == MANAGER);
    let name = labels.get(SERVICE_NAME).filter(|_| ours)?;
    Some(ObjectKey::new(slice.namespace().unwrap_or_default(), name))
}

/// Index entry of the slices of a Service.
pub(super) fn entry(service: &ObjectKey) -> String {
    format!("service:{service}")
}

pub(super) fn entries(slice: &EndpointSlice) -> Vec<String> {
    service_of(slice).iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: &Value) -> Service {
        serde_json::from_value(
            json!({ "metadata": { "name": "web", "namespace": "team", "uid": "u" }, "spec": spec }),
        )
        .unwrap()
    }

    fn pod(name: &str, port: i32, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": { "name": name, "namespace": "team", "uid": name },
            "spec": { "hostname": name, "subdomain": "web", "nodeName": "here", "containers": [
                { "name": "main", "ports": [{ "name": "http", "containerPort": port }] }] },
            "status": { "phase": "Running", "podIP": format!("10.0.0.{port}"),
                        "conditions": [{ "type": "Ready", "status": ready }] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// Ports, then address and readiness of each pod, slice by slice.
    fn told(service: &Service, pods: &[Arc<Pod>]) -> Value {
        let slices = slices(service, pods).expect("slices");
        let told = slices.iter().map(|slice| {
            let ports: Vec<_> = slice.ports.iter().flatten().map(|port| port.port).collect();
            let endpoints: Vec<_> = slice
                .endpoints
                .iter()
                .flatten()
                .map(|it| {
                    json!([
                        it.addresses[0],
                        it.conditions.as_ref().and_then(|it| it.ready)
                    ])
                })
                .collect();
            json!([ports, endpoints])
        });
        Value::Array(told.collect())
    }

    #[test]
    fn a_named_port_is_that_of_each_pod() {
        let service = service(
            &json!({ "selector": { "a": "b" }, "ports": [{ "port": 80, "targetPort": "http" }] }),
        );
        let pods = [pod("a", 8, true), pod("b", 9, true), pod("c", 8, false)];
        let want = json!([
            [[8], [["10.0.0.8", true], ["10.0.0.8", false]]],
            [[9], [["10.0.0.9", true]]]
        ]);
        assert_eq!(told(&service, &pods), want);
    }

    #[test]
    fn a_headless_service_may_tell_of_pods_that_are_not_ready_and_has_their_host_names() {
        let service = service(
            &json!({ "clusterIP": "None", "selector": { "a": "b" }, "publishNotReadyAddresses": true }),
        );
        let pods = [pod("a", 8, false)];
        assert_eq!(told(&service, &pods), json!([[[], [["10.0.0.8", true]]]]));
        let slices = slices(&service, &pods).expect("slices");
        let mut endpoints = slices[0].endpoints.iter().flatten();
        let hostname = endpoints.next().and_then(|it| it.hostname.as_deref());
        assert_eq!(hostname, Some("a"));
        assert!(slices[0].labels().contains_key(HEADLESS));
    }

    #[test]
    fn many_pods_are_in_several_slices_and_none_in_one() {
        let service = service(&json!({ "selector": { "a": "b" }, "ports": [{ "port": 80 }] }));
        let pods: Vec<_> = (0..250).map(|it| pod(&format!("p{it}"), 8, true)).collect();
        let sizes: Vec<_> = slices(&service, &pods)
            .expect("slices")
            .iter()
            .map(|it| it.endpoints.iter().flatten().count())
            .collect();
        assert_eq!(sizes, [100, 100, 50]);
        assert_eq!(told(&service, &[]), json!([[[], []]]));
    }

    #[test]
    fn without_a_selector_the_slices_are_the_users() {
        assert!(slices(&service(&json!({ "ports": [{ "port": 80 }] })), &[]).is_none());
    }
}
