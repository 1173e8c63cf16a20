//! The headless Services of a v1 job: one per pod, of the pod's name, so that the others find it.

use std::collections::{BTreeMap, BTreeSet};

use astrago_api::labels;
use k8s_openapi::api::core::v1::{ContainerPort, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::replica_job::{Replica, TrainingJob};

impl TrainingJob {
    /// The Service of one pod; none for the launcher of an MPIJob, which nobody calls by name.
    pub fn service(&self, replica: &Replica, index: i32) -> Option<Service> {
        if replica.kind == "Launcher" {
            return None;
        }
        let selector = self.service_labels(replica.kind, index);
        let main = self.main_container(replica);
        let ports = main
            .into_iter()
            .flat_map(|main| main.ports.iter().flatten());
        Some(Service {
            metadata: ObjectMeta {
                name: Some(self.pod_name(replica.kind, index)),
                namespace: Some(self.namespace.clone()),
                labels: Some(selector.clone()),
                owner_references: self.owner.clone(),
                ..ObjectMeta::default()
            },
            spec: Some(ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                selector: Some(selector),
                // The pods have to find each other in order to become ready.
                publish_not_ready_addresses: Some(true),
                ports: Some(service_ports(ports)),
                ..ServiceSpec::default()
            }),
            status: None,
        })
    }

    /// The labels that a pod and its Service share.
    pub(super) fn service_labels(&self, kind: &str, index: i32) -> BTreeMap<String, String> {
        let mut selector = self.selector(Some(kind));
        if kind != "Launcher" {
            selector.insert(labels::TRAINING_REPLICA_INDEX.to_owned(), index.to_string());
        }
        selector
    }
}

/// Ports in the form that Kubernetes takes: each number once, and with a name.
fn service_ports<'a>(ports: impl Iterator<Item = &'a ContainerPort>) -> Vec<ServicePort> {
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    for port in ports {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        if !seen.insert((port.container_port, protocol.clone())) {
            continue;
        }
        let name = port
            .name
            .clone()
            .unwrap_or_else(|| format!("{}-{}", protocol.to_lowercase(), port.container_port));
        list.push(ServicePort {
            name: Some(name),
            port: port.container_port,
            target_port: Some(IntOrString::Int(port.container_port)),
            protocol: Some(protocol),
            ..ServicePort::default()
        });
    }
    list
}
