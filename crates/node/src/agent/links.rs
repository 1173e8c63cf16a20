//! Variables that tell containers where the Services of their namespace are, as a kubelet sets them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use tokio::sync::watch;

/// Names and values.
type Variables = Vec<(String, String)>;

/// The variables of each Service that has an address, by namespace and name; nothing before Services were listed.
#[derive(Default)]
pub(super) struct Links(watch::Sender<Option<BTreeMap<(String, String), Variables>>>);

impl Links {
    /// These are all Services.
    pub(super) fn services(&self, all: &[Service]) {
        let known = all
            .iter()
            .map(|service| (key(service), variables(service)))
            .filter(|(_, variables)| !variables.is_empty());
        self.0.send_replace(Some(known.collect()));
    }

    /// A Service came, changed or went.
    pub(super) fn service(&self, service: &Service, present: bool) {
        let variables = variables(service);
        self.0.send_modify(|known| {
            let Some(known) = known else { return };
            if present && !variables.is_empty() {
                known.insert(key(service), variables);
            } else {
                known.remove(&key(service));
            }
        });
    }

    /// What a pod that starts now is told. It waits until Services have been listed: nobody tells it later.
    pub(super) async fn of(&self, pod: &Pod) -> Variables {
        let spec = pod.spec.as_ref();
        if spec.and_then(|spec| spec.enable_service_links) == Some(false) {
            return Variables::new();
        }
        let namespace = pod.namespace().unwrap_or_default();
        let mut news = self.0.subscribe();
        let Ok(known) = news.wait_for(Option::is_some).await else {
            return Variables::new();
        };
        let known = known.iter().flatten();
        known
            .filter(|((home, _), _)| *home == namespace)
            .flat_map(|(_, variables)| variables.iter().cloned())
            .collect()
    }
}

fn key(service: &Service) -> (String, String) {
    (service.namespace().unwrap_or_default(), service.name_any())
}

/// Kubernetes' own, and those that Docker once set for linked containers.
fn variables(service: &Service) -> Variables {
    let Some(spec) = &service.spec else {
        return Variables::new();
    };
    let address = spec.cluster_ip.as_deref().unwrap_or_default();
    let mut ports = spec.ports.iter().flatten().peekable();
    let (false, Some(first)) = (matches!(address, "" | "None"), ports.peek()) else {
        return Variables::new();
    };
    let protocol = |port: Option<&String>| port.map_or("tcp".to_owned(), |it| it.to_lowercase());
    let place = |protocol: &str, port: i32| format!("{protocol}://{address}:{port}");
    let name = variable(&service.name_any());
    let mut all = vec![
        (format!("{name}_SERVICE_HOST"), address.to_owned()),
        (format!("{name}_SERVICE_PORT"), first.port.to_string()),
        (
            format!("{name}_PORT"),
            place(&protocol(first.protocol.as_ref()), first.port),
        ),
    ];
    for port in ports {
        let (number, protocol) = (port.port, protocol(port.protocol.as_ref()));
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let port_name = variable(port_name);
            all.push((
                format!("{name}_SERVICE_PORT_{port_name}"),
                number.to_string(),
            ));
        }
        let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
        all.push((prefix.clone(), place(&protocol, number)));
        all.push((format!("{prefix}_PROTO"), protocol));
        all.push((format!("{prefix}_PORT"), number.to_string()));
        all.push((format!("{prefix}_ADDR"), address.to_owned()));
    }
    all
}

fn variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(namespace: &str, name: &str, spec: &Value) -> Service {
        let metadata = json!({ "namespace": namespace, "name": name });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    #[tokio::test]
    async fn a_pod_is_told_the_addresses_of_the_services_of_its_namespace() {
        let links = Links::default();
        let two = json!({ "clusterIP": "10.96.0.9", "ports": [
            { "name": "http-web", "port": 80 }, { "port": 53, "protocol": "UDP" }] });
        let one = json!({ "clusterIP": "10.96.0.8", "ports": [{ "port": 80 }] });
        let headless = json!({ "clusterIP": "None", "ports": [{ "port": 80 }] });
        links.services(&[
            service("team", "my-web", &two),
            service("other", "far", &one),
            service("team", "job", &headless),
            service("team", "gone", &one),
        ]);
        links.service(&service("team", "gone", &one), false);
        let pod = |spec: Value| -> Pod {
            let metadata = json!({ "namespace": "team", "name": "p" });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
        };
        let want = [
            ("MY_WEB_SERVICE_HOST", "10.96.0.9"),
            ("MY_WEB_SERVICE_PORT", "80"),
            ("MY_WEB_PORT", "tcp://10.96.0.9:80"),
            ("MY_WEB_SERVICE_PORT_HTTP_WEB", "80"),
            ("MY_WEB_PORT_80_TCP", "tcp://10.96.0.9:80"),
            ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
            ("MY_WEB_PORT_80_TCP_PORT", "80"),
            ("MY_WEB_PORT_80_TCP_ADDR", "10.96.0.9"),
            ("MY_WEB_PORT_53_UDP", "udp://10.96.0.9:53"),
            ("MY_WEB_PORT_53_UDP_PROTO", "udp"),
            ("MY_WEB_PORT_53_UDP_PORT", "53"),
            ("MY_WEB_PORT_53_UDP_ADDR", "10.96.0.9"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(links.of(&pod(json!({ "containers": [] }))).await, want);
        let without = pod(json!({ "containers": [], "enableServiceLinks": false }));
        assert_eq!(links.of(&without).await, []);
    }
}
