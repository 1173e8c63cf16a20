//! Where the addresses of Services lead: to the pods of their EndpointSlices, in turn.
//!
//! Only where there is a way out ([`crate::egress`]): its keeper has the rules, and pods have a gateway. Elsewhere
//! the names of Services are those of their pods.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;

use astrago_api::Readable;
use futures::StreamExt;
use futures::stream::select;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::node::Node;
use crate::egress::{Egress, Forward};
use crate::layout::SUBNET;

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Namespace and name.
type Key = (String, String);

#[derive(Default)]
struct World {
    services: BTreeMap<Key, Service>,
    /// By Service, and by name.
    slices: BTreeMap<Key, BTreeMap<String, EndpointSlice>>,
}

/// Follows Services and EndpointSlices for as long as it is polled.
pub(super) async fn follow(node: Arc<Node>) {
    if !node.egress.way.is_open() {
        return std::future::pending().await;
    }
    let services: Api<Readable<Service>> = Api::all(node.client.clone());
    let slices: Api<Readable<EndpointSlice>> = Api::all(node.client.clone());
    let services = watcher(services, watcher::Config::default()).default_backoff();
    let slices = watcher(slices, watcher::Config::default()).default_backoff();
    let events = select(
        services.map(|event| event.map(|event| Either::Service(Box::new(event)))),
        slices.map(|event| event.map(|event| Either::Slice(Box::new(event)))),
    );
    let mut events = pin!(events.ready_chunks(256));
    let mut world = World::default();
    let mut told = None;
    while let Some(chunk) = events.next().await {
        for event in chunk {
            match event {
                Ok(Either::Service(event)) => world.service(*event),
                Ok(Either::Slice(event)) => world.slice(*event),
                Err(error) => tracing::warn!(%error, "the pods of services could not be watched"),
            }
        }
        let forwards = forwards(&world, |namespace| node.bridge(namespace));
        if told.as_ref() == Some(&forwards) {
            continue;
        }
        let folder = node.options.data_dir.clone();
        let news = forwards.clone();
        let lead = move || Egress::lead(&folder, &news);
        match tokio::task::spawn_blocking(lead).await {
            Ok(Ok(())) => told = Some(forwards),
            Ok(Err(error)) => tracing::warn!(%error, "the addresses of services lead nowhere new"),
            Err(_) => return,
        }
    }
}

enum Either {
    Service(Box<Event<Readable<Service>>>),
    Slice(Box<Event<Readable<EndpointSlice>>>),
}

impl World {
    /// Those without an address lead nowhere; every job has one, and they are not looked through each time.
    fn service(&mut self, event: Event<Readable<Service>>) {
        match event {
            Event::Init => self.services.clear(),
            Event::InitDone => {}
            Event::Apply(object) | Event::InitApply(object) => {
                let Ok(service) = object.0 else { return };
                match address(&service) {
                    Some(_) => self.services.insert(key(&service), service),
                    None => self.services.remove(&key(&service)),
                };
            }
            Event::Delete(object) => {
                if let Ok(service) = object.0 {
                    self.services.remove(&key(&service));
                }
            }
        }
    }

    fn slice(&mut self, event: Event<Readable<EndpointSlice>>) {
        match event {
            Event::Init => self.slices.clear(),
            Event::InitDone => {}
            Event::Apply(object) | Event::InitApply(object) => {
                if let Ok(slice) = object.0 {
                    self.add(slice);
                }
            }
            Event::Delete(object) => {
                if let Ok(slice) = object.0 {
                    self.remove(&slice);
                }
            }
        }
    }

    fn add(&mut self, slice: EndpointSlice) {
        let (namespace, name) = key(&slice);
        if let Some(service) = slice.labels().get(SERVICE_NAME) {
            let of_service = self.slices.entry((namespace, service.clone()));
            of_service.or_default().insert(name, slice);
        }
    }

    fn remove(&mut self, slice: &EndpointSlice) {
        let (namespace, name) = key(slice);
        let Some(service) = slice.labels().get(SERVICE_NAME) else {
            return;
        };
        let service = (namespace, service.clone());
        if let Some(of_service) = self.slices.get_mut(&service) {
            of_service.remove(&name);
            if of_service.is_empty() {
                self.slices.remove(&service);
            }
        }
    }
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn address(service: &Service) -> Option<Ipv4Addr> {
    let spec = service.spec.as_ref()?;
    spec.cluster_ip.as_deref()?.parse().ok()
}

/// Where each port of each Service leads that has an address and pods' company here.
fn forwards(world: &World, bridge: impl Fn(&str) -> Option<(String, Ipv4Addr)>) -> Vec<Forward> {
    let mut found = Vec::new();
    for (key, service) in &world.services {
        let (Some(spec), Some(address)) = (&service.spec, address(service)) else {
            continue;
        };
        let Some((bridge, base)) = bridge(&key.0) else {
            continue;
        };
        for port in spec.ports.iter().flatten() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let (Ok(number), "TCP" | "UDP") = (u16::try_from(port.port), protocol) else {
                continue;
            };
            let slices = world.slices.get(key).into_iter().flatten();
            let wanted = port.name.as_deref().unwrap_or_default();
            found.push(Forward {
                bridge: bridge.clone(),
                address,
                protocol: protocol.to_lowercase(),
                port: number,
                targets: slices
                    .flat_map(|(_, slice)| targets(slice, wanted, protocol))
                    // Whoever may write slices leads nobody into another namespace.
                    .filter(|(target, _)| same_subnet(*target, base))
                    .collect(),
            });
        }
    }
    found
}

fn same_subnet(one: Ipv4Addr, other: Ipv4Addr) -> bool {
    let subnet = |address: Ipv4Addr| u32::from(address) >> (32 - u32::from(SUBNET));
    subnet(one) == subnet(other)
}

/// The places of a slice that are ready.
fn targets(slice: &EndpointSlice, name: &str, protocol: &str) -> Vec<(Ipv4Addr, u16)> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|port| {
        port.name.as_deref().unwrap_or_default() == name
            && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    let Some(port) = port.and_then(|port| u16::try_from(port.port?).ok()) else {
        return Vec::new();
    };
    let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|it| it.ready) != Some(false)
    });
    ready
        .filter_map(|endpoint| endpoint.addresses.first()?.parse().ok())
        .map(|address| (address, port))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_leads_to_the_ready_pods_of_its_slices() {
        let mut world = World::default();
        let service = json!({ "metadata": { "name": "web", "namespace": "team" }, "spec": { "clusterIP": "10.96.0.9",
            "ports": [{ "name": "http", "port": 80 }, { "name": "more", "port": 81 }] } });
        let headless = json!({ "metadata": { "name": "job", "namespace": "team" }, "spec": { "clusterIP": "None",
            "ports": [{ "port": 80 }] } });
        for service in [service, headless] {
            let service: Service = serde_json::from_value(service).unwrap();
            world.service(Event::Apply(Readable(Ok(service))));
        }
        assert_eq!(world.services.len(), 1);
        let slice = json!({ "metadata": { "name": "web-0", "namespace": "team", "labels": { SERVICE_NAME: "web" } }, "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": [
                { "addresses": ["10.224.0.2"], "conditions": { "ready": true } },
                { "addresses": ["10.224.0.3"], "conditions": { "ready": false } },
                { "addresses": ["10.224.0.4"], "conditions": {} },
                { "addresses": ["10.224.4.2"], "conditions": { "ready": true } },
                { "addresses": ["169.254.169.254"], "conditions": { "ready": true } },
            ] });
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        world.add(slice.clone());
        let forward = |port: u16, targets: &[u8]| Forward {
            bridge: "ns1".into(),
            address: Ipv4Addr::new(10, 96, 0, 9),
            protocol: "tcp".into(),
            port,
            targets: targets
                .iter()
                .map(|last| (Ipv4Addr::new(10, 224, 0, *last), 8080))
                .collect(),
        };
        let here = |namespace: &str| {
            (namespace == "team").then(|| ("ns1".to_owned(), Ipv4Addr::new(10, 224, 0, 0)))
        };
        assert_eq!(
            forwards(&world, here),
            [forward(80, &[2, 4]), forward(81, &[])]
        );
        assert_eq!(forwards(&world, |_| None), []);
        world.remove(&slice);
        assert!(world.slices.is_empty());
        assert_eq!(forwards(&world, here), [forward(80, &[]), forward(81, &[])]);
    }
}
