//! Which names a pod can resolve: the hosts file that every pod has and that is kept current.
//!
//! There is no name server. A pod's hosts file has the pods with a `hostname` and `subdomain` in its
//! namespace and the Services whose selector matches pods there, in all the forms that a cluster's name
//! server knows. Each address stands there a second time in its IPv4-mapped form, because programs that
//! listen on IPv6 sockets look up the names of such addresses, and would otherwise ask a name server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

use crate::relay;

/// What is known of names on this node.
#[derive(Debug, Default)]
pub(super) struct Names {
    pods: BTreeMap<String, Entry>,
    services: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// Pods may report progress, and know where.
    relay: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    namespace: String,
    hostname: String,
    subdomain: Option<String>,
    labels: BTreeMap<String, String>,
    address: Ipv4Addr,
    reports: bool,
}

impl Names {
    /// Nothing yet; `relay` where pods may report progress.
    pub(super) fn new(relay: bool) -> Self {
        Self {
            relay,
            ..Self::default()
        }
    }

    /// A pod has an address; whether that is news.
    pub(super) fn add(&mut self, pod: &Pod, address: Ipv4Addr) -> bool {
        let entry = Entry {
            namespace: pod.namespace().unwrap_or_default(),
            hostname: hostname(pod),
            subdomain: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.subdomain.clone())
                .filter(|name| !name.is_empty()),
            labels: pod.labels().clone(),
            address,
            reports: reports(pod),
        };
        let uid = pod.uid().unwrap_or_default();
        self.pods.insert(uid, entry.clone()) != Some(entry)
    }

    /// A pod is gone; whether that is news.
    pub(super) fn remove(&mut self, uid: &str) -> bool {
        self.pods.remove(uid).is_some()
    }

    /// Takes the selector of a Service; `None` when it is gone.
    pub(super) fn service(&mut self, service: &Service, present: bool) {
        let key = (service.namespace().unwrap_or_default(), service.name_any());
        let selector = service
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.clone())
            .filter(|_| present);
        match selector {
            Some(selector) if !selector.is_empty() => self.services.insert(key, selector),
            _ => self.services.remove(&key),
        };
    }

    /// Forgets all Services, before they are told anew.
    pub(super) fn forget_services(&mut self) {
        self.services.clear();
    }

    /// The pods of a namespace.
    pub(super) fn pods_in(&self, namespace: Option<&str>) -> Vec<String> {
        let chosen = self
            .pods
            .iter()
            .filter(|(_, entry)| namespace.is_none_or(|name| entry.namespace == name));
        chosen.map(|(uid, _)| uid.clone()).collect()
    }

    /// The hosts file of a pod.
    pub(super) fn file(&self, uid: &str) -> Option<String> {
        let own = self.pods.get(uid)?;
        let mut lines: BTreeMap<Ipv4Addr, Vec<String>> = BTreeMap::new();
        for entry in self
            .pods
            .values()
            .filter(|entry| entry.namespace == own.namespace)
        {
            let names = lines.entry(entry.address).or_default();
            if let Some(subdomain) = &entry.subdomain {
                names.extend(forms(
                    &format!("{}.{subdomain}", entry.hostname),
                    &entry.namespace,
                ));
            }
            if entry == own {
                names.push(entry.hostname.clone());
            }
            for ((_, service), _) in self.services.iter().filter(|((namespace, _), selector)| {
                *namespace == entry.namespace
                    && selector
                        .iter()
                        .all(|(key, value)| entry.labels.get(key) == Some(value))
            }) {
                names.extend(forms(service, &entry.namespace));
            }
        }
        let mut text = String::from(
            "# Kept current by the node. Changes are overwritten.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
        );
        for (address, names) in lines.iter().filter(|(_, names)| !names.is_empty()) {
            let _ = writeln!(text, "{address} {}", names.join(" "));
        }
        for (address, names) in lines.iter().filter(|(_, names)| !names.is_empty()) {
            let _ = writeln!(text, "::ffff:{address} {}", names.join(" "));
        }
        if self.relay && own.reports {
            let address = relay::ADDRESS;
            let _ = writeln!(text, "{address} {0} {0}.cluster.local", relay::HOST);
        }
        Some(text)
    }
}

/// Whether the pod is to report its progress.
pub(super) fn reports(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    variables.any(|variable| variable.name == relay::VARIABLE)
}

/// The host name that a pod has inside.
pub(super) fn hostname(pod: &Pod) -> String {
    let given = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.hostname.clone())
        .filter(|name| !name.is_empty());
    let mut name = given.unwrap_or_else(|| pod.name_any());
    // As long as the kernel takes; Kubernetes cuts in the same way.
    name.truncate(63);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// Replaces the content of a file that is mounted in containers, where another file would not be seen.
/// A reader sees the old or the new lines, or the new ones and empty ones after them.
pub(super) fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(bytes.len().max(before), b'\n');
    file.write_all_at(&bytes, 0)?;
    file.set_len(text.len() as u64)
}

fn forms(name: &str, namespace: &str) -> [String; 4] {
    [
        format!("{name}.{namespace}.svc.cluster.local"),
        name.to_owned(),
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, namespace: &str, job: Option<&str>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(format!("pod-{uid}"));
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.labels = Some([("role".to_owned(), uid.to_owned())].into());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("host-{uid}"));
        spec.subdomain = job.map(str::to_owned);
        pod
    }

    #[test]
    fn names_of_a_headless_service_are_known_to_its_namespace_alone() {
        let mut names = Names::default();
        names.add(&pod("a", "one", Some("job")), Ipv4Addr::new(10, 0, 0, 2));
        names.add(&pod("b", "one", Some("job")), Ipv4Addr::new(10, 0, 0, 3));
        names.add(&pod("c", "two", Some("job")), Ipv4Addr::new(10, 0, 4, 2));
        let file = names.file("a").unwrap();
        assert!(file.contains("10.0.0.3 host-b.job.one.svc.cluster.local host-b.job host-b.job.one host-b.job.one.svc\n"), "{file}");
        assert!(file.contains("::ffff:10.0.0.3 host-b.job"), "{file}");
        assert!(file.contains("host-a.job.one.svc host-a\n"), "{file}");
        assert!(
            !file.contains("host-c") && !file.contains(" host-b\n"),
            "{file}"
        );
        names.remove("b");
        assert!(!names.file("a").unwrap().contains("host-b"));
    }

    #[test]
    fn a_service_has_the_addresses_of_the_pods_that_it_selects() {
        let mut names = Names::default();
        names.add(&pod("a", "one", None), Ipv4Addr::new(10, 0, 0, 2));
        names.add(&pod("b", "one", None), Ipv4Addr::new(10, 0, 0, 3));
        let mut service = Service::default();
        service.metadata.name = Some("master".into());
        service.metadata.namespace = Some("one".into());
        service.spec.get_or_insert_default().selector =
            Some([("role".to_owned(), "a".to_owned())].into());
        names.service(&service, true);
        let file = names.file("b").unwrap();
        assert!(
            file.contains(
                "10.0.0.2 master.one.svc.cluster.local master master.one master.one.svc\n"
            ),
            "{file}"
        );
        assert!(!file.contains("10.0.0.3 master"), "{file}");
        names.service(&service, false);
        assert!(!names.file("b").unwrap().contains("master"));
    }

    #[test]
    fn a_rewritten_file_keeps_its_identity() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        rewrite(&path, "one\ntwo\nthree\n").unwrap();
        let before = std::fs::metadata(&path).unwrap().ino();
        rewrite(&path, "four\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "four\n");
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), before);
    }
}
