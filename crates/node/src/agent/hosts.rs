//! Which names a pod can resolve: the hosts file that every pod has and that is kept current.
//!
//! There is no name server. A pod's hosts file has the pods of its own `subdomain`, which a job's pods
//! share, and Services with the addresses of the pods that they select, in all the forms that a cluster's
//! name server knows. Of the Services of its namespace it has those that nobody owns, and of those that jobs
//! own the ones of its own job: a namespace with many jobs must not make the files of all of them long,
//! nor each job's coming and going a change of all. Each address stands there a second time in its
//! IPv4-mapped form, because programs that listen on IPv6 sockets look up the names of such addresses, and
//! would otherwise ask a name server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

use crate::relay;

/// So much of a longer file is emptied before it is cut.
const PADDED_MAX: usize = 1 << 20;

/// What is known of names on this node.
#[derive(Debug, Default)]
pub(super) struct Names {
    namespaces: BTreeMap<String, Namespace>,
    /// The namespace of each pod.
    pods: BTreeMap<String, String>,
    /// Pods may report progress, and know where.
    relay: bool,
    /// The addresses of Services lead to their pods.
    led: bool,
}

/// A namespace's pods and Services. Who has to do with whom is looked up, not searched for: with a job
/// comes the work for its own pods, however many others there are.
#[derive(Debug, Default)]
struct Namespace {
    pods: BTreeMap<String, Entry>,
    services: BTreeMap<String, Target>,
    pods_by: Index,
    services_by: Index,
}

/// What is known of somebody, and of whom.
type Index = BTreeMap<Trait, BTreeSet<String>>;

/// By what pods and Services find each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trait {
    Subdomain(String),
    Owner(String),
    /// Of a Service, the first of those that it selects by.
    Label(String, String),
    /// A Service that nobody owns, and that all know.
    Free,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hostname: String,
    subdomain: Option<String>,
    /// All forms of its name in the subdomain.
    names: String,
    labels: BTreeMap<String, String>,
    owners: Vec<String>,
    address: Ipv4Addr,
    reports: bool,
    /// The lines of its `hostAliases`.
    aliases: String,
}

/// What a Service stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// All forms of its name.
    names: String,
    selector: BTreeMap<String, String>,
    owners: Vec<String>,
    /// The name is that of this address, and not of the pods.
    address: Option<Ipv4Addr>,
}

impl Entry {
    fn traits(&self) -> impl Iterator<Item = Trait> {
        let subdomain = self.subdomain.iter().cloned().map(Trait::Subdomain);
        let owners = self.owners.iter().cloned().map(Trait::Owner);
        subdomain.chain(owners).chain(labels(&self.labels))
    }
}

impl Target {
    fn selects(&self, pod: &Entry) -> bool {
        let same = |(key, value): (&String, &String)| pod.labels.get(key) == Some(value);
        self.selector.iter().all(same)
    }

    fn traits(&self) -> impl Iterator<Item = Trait> {
        let owners = self.owners.iter().cloned().map(Trait::Owner);
        let free = self.owners.is_empty().then_some(Trait::Free);
        owners.chain(free).chain(labels(&self.selector).next())
    }
}

fn labels(all: &BTreeMap<String, String>) -> impl Iterator<Item = Trait> {
    let label = |(key, value): (&String, &String)| Trait::Label(key.clone(), value.clone());
    all.iter().map(label)
}

fn enter(index: &mut Index, traits: impl Iterator<Item = Trait>, name: &str) {
    for one in traits {
        index.entry(one).or_default().insert(name.to_owned());
    }
}

fn leave(index: &mut Index, traits: impl Iterator<Item = Trait>, name: &str) {
    for one in traits {
        if let Some(names) = index.get_mut(&one) {
            names.remove(name);
            if names.is_empty() {
                index.remove(&one);
            }
        }
    }
}

impl Namespace {
    fn add_pod(&mut self, uid: &str, entry: Entry) -> Option<Entry> {
        let before = self.remove_pod(uid);
        enter(&mut self.pods_by, entry.traits(), uid);
        self.pods.insert(uid.to_owned(), entry);
        before
    }

    fn remove_pod(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        leave(&mut self.pods_by, entry.traits(), uid);
        Some(entry)
    }

    /// Puts a Service in the place of the one of that name.
    fn set_service(&mut self, name: &str, target: Option<Target>) -> Option<Target> {
        let before = self.services.remove(name);
        if let Some(before) = &before {
            leave(&mut self.services_by, before.traits(), name);
        }
        if let Some(target) = target {
            enter(&mut self.services_by, target.traits(), name);
            self.services.insert(name.to_owned(), target);
        }
        before
    }

    /// The pods whose files change when this one comes, changes or goes.
    fn concerned(&self, changed: &Entry) -> BTreeSet<String> {
        let subdomain = changed.subdomain.clone().map(Trait::Subdomain);
        let peers = subdomain.and_then(|it| self.pods_by.get(&it));
        let mut found: BTreeSet<String> = peers.into_iter().flatten().cloned().collect();
        for service in self
            .selecting(changed)
            .filter_map(|it| self.services.get(it))
        {
            found.extend(self.knowing(service).cloned());
        }
        found
    }

    /// The Services that stand for a pod.
    fn selecting<'a>(&'a self, pod: &'a Entry) -> impl Iterator<Item = &'a String> {
        let candidates = labels(&pod.labels).filter_map(|it| self.services_by.get(&it));
        candidates.flatten().filter(|name| {
            let service = self.services.get(*name);
            service.is_some_and(|service| service.selects(pod))
        })
    }

    /// The pods that a Service stands for.
    fn selected<'a>(
        &'a self,
        service: &'a Target,
    ) -> impl Iterator<Item = (&'a String, &'a Entry)> {
        let first = labels(&service.selector).next();
        let candidates = first.and_then(|it| self.pods_by.get(&it));
        let known = |uid: &'a String| Some((uid, self.pods.get(uid)?));
        let known = candidates.into_iter().flatten().filter_map(known);
        known.filter(|(_, pod)| service.selects(pod))
    }

    /// The pods that are to know a Service.
    fn knowing<'a>(&'a self, service: &'a Target) -> impl Iterator<Item = &'a String> {
        let all = service.owners.is_empty().then(|| self.pods.keys());
        let owners = service.owners.iter().cloned().map(Trait::Owner);
        let related = owners.filter_map(|it| self.pods_by.get(&it)).flatten();
        let selected = self.selected(service).map(|(uid, _)| uid);
        all.into_iter().flatten().chain(related).chain(selected)
    }

    /// The Services that a pod is to know, by name.
    fn known_to<'a>(&'a self, pod: &'a Entry) -> BTreeMap<&'a String, &'a Target> {
        let owners = pod.owners.iter().cloned().map(Trait::Owner);
        let traits = owners.chain([Trait::Free]);
        let related = traits.filter_map(|it| self.services_by.get(&it)).flatten();
        let names = related.chain(self.selecting(pod));
        names
            .filter_map(|name| Some((name, self.services.get(name)?)))
            .collect()
    }
}

/// The pods whose hosts files are out of date.
pub(super) type Stale = BTreeSet<String>;

impl Names {
    /// Nothing yet; `relay` where pods may report progress.
    pub(super) fn new(relay: bool) -> Self {
        Self {
            relay,
            ..Self::default()
        }
    }

    /// From now on the addresses of Services lead to their pods.
    pub(super) fn lead(&mut self) {
        self.led = true;
    }

    /// A pod has an address.
    pub(super) fn add(&mut self, pod: &Pod, address: Ipv4Addr) -> Stale {
        let name = pod.namespace().unwrap_or_default();
        let hostname = hostname(pod);
        let subdomain = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.subdomain.clone())
            .filter(|name| !name.is_empty());
        let entry = Entry {
            names: subdomain.as_ref().map_or_else(String::new, |subdomain| {
                forms(&format!("{hostname}.{subdomain}"), &name)
            }),
            hostname,
            subdomain,
            labels: pod.labels().clone(),
            owners: owners(pod),
            address,
            reports: reports(pod),
            aliases: aliases(pod),
        };
        let uid = pod.uid().unwrap_or_default();
        let namespace = self.namespaces.entry(name.clone()).or_default();
        if namespace.pods.get(&uid) == Some(&entry) {
            return Stale::new();
        }
        let before = namespace.add_pod(&uid, entry.clone());
        let mut stale = namespace.concerned(&entry);
        if let Some(before) = before {
            stale.extend(namespace.concerned(&before));
        }
        stale.insert(uid.clone());
        self.pods.insert(uid, name);
        stale
    }

    /// A pod is gone.
    pub(super) fn remove(&mut self, uid: &str) -> Stale {
        let Some(name) = self.pods.remove(uid) else {
            return Stale::new();
        };
        let Some(namespace) = self.namespaces.get_mut(&name) else {
            return Stale::new();
        };
        let Some(entry) = namespace.remove_pod(uid) else {
            return Stale::new();
        };
        let stale = namespace.concerned(&entry);
        if namespace.pods.is_empty() && namespace.services.is_empty() {
            self.namespaces.remove(&name);
        }
        stale
    }

    /// A Service came, changed or went.
    pub(super) fn service(&mut self, service: &Service, present: bool) -> Stale {
        let (name, key) = (service.namespace().unwrap_or_default(), service.name_any());
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
        let selector = selector.filter(|selector| present && !selector.is_empty());
        let address = service
            .spec
            .as_ref()
            .and_then(|spec| spec.cluster_ip.as_ref());
        let address = address.filter(|_| self.led).and_then(|it| it.parse().ok());
        let target = selector.map(|selector| Target {
            names: forms(&key, &name),
            selector,
            owners: owners(service),
            address,
        });
        let namespace = self.namespaces.entry(name).or_default();
        let before = namespace.set_service(&key, target.clone());
        if before == target {
            return Stale::new();
        }
        let either = [before, target];
        let either = either.iter().flatten();
        either
            .flat_map(|service| namespace.knowing(service).cloned())
            .collect()
    }

    /// All Services there are, after they could not be followed for a while.
    pub(super) fn services(&mut self, all: &[Service]) -> Stale {
        for namespace in self.namespaces.values_mut() {
            namespace.services.clear();
            namespace.services_by.clear();
        }
        for service in all {
            self.service(service, true);
        }
        self.pods.keys().cloned().collect()
    }

    /// The hosts file of a pod.
    pub(super) fn file(&self, uid: &str) -> Option<String> {
        let namespace = self.namespaces.get(self.pods.get(uid)?)?;
        let own = namespace.pods.get(uid)?;
        let services = namespace.known_to(own);
        let mut lines: BTreeMap<Ipv4Addr, String> = BTreeMap::new();
        let mut add = |address: Ipv4Addr, names: &str| {
            let line = lines.entry(address).or_default();
            line.push(' ');
            line.push_str(names);
        };
        let subdomain = own.subdomain.clone().map(Trait::Subdomain);
        let peers = subdomain.and_then(|it| namespace.pods_by.get(&it));
        let peers = peers.into_iter().flatten();
        for peer in peers.filter_map(|uid| namespace.pods.get(uid)) {
            add(peer.address, &peer.names);
        }
        add(own.address, &own.hostname);
        for service in services.values().filter(|it| it.address.is_none()) {
            for (_, pod) in namespace.selected(service) {
                add(pod.address, &service.names);
            }
        }
        for service in services.values() {
            if let Some(address) = service.address {
                lines.insert(address, format!(" {}", service.names));
            }
        }
        let mut text = String::from(
            "# Kept current by the node. Changes are overwritten.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
        );
        for prefix in ["", "::ffff:"] {
            for (address, names) in &lines {
                let _ = writeln!(text, "{prefix}{address}{names}");
            }
        }
        if self.relay && own.reports {
            let address = relay::ADDRESS;
            let _ = writeln!(text, "{address} {0} {0}.cluster.local", relay::HOST);
        }
        text.push_str(&own.aliases);
        Some(text)
    }
}

/// What a pod adds to its own file.
fn aliases(pod: &Pod) -> String {
    let aliases = pod.spec.iter().flat_map(|spec| &spec.host_aliases);
    let mut text = String::new();
    for alias in aliases.flatten() {
        text.push_str(&alias.ip);
        for name in alias.hostnames.iter().flatten() {
            let _ = write!(text, "\t{name}");
        }
        text.push('\n');
    }
    text
}

fn owners(object: &impl ResourceExt) -> Vec<String> {
    let owners = object.owner_references().iter();
    owners.map(|owner| owner.uid.clone()).collect()
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
        .read(true)
        .write(true)
        .open(path)?;
    // An ordinary user's pod can write to it too, and make it as long as it likes.
    let before =
        usize::try_from(file.metadata()?.len()).map_or(PADDED_MAX, |it| it.min(PADDED_MAX));
    let mut bytes = text.as_bytes().to_vec();
    if before == bytes.len() {
        let mut present = vec![0; before];
        if file.read_exact_at(&mut present, 0).is_ok() && present == bytes {
            return Ok(());
        }
    }
    bytes.resize(bytes.len().max(before), b'\n');
    file.write_all_at(&bytes, 0)?;
    file.set_len(text.len() as u64)
}

fn forms(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc.cluster.local {name} {name}.{namespace} {name}.{namespace}.svc")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

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
    fn nothing_is_left_of_pods_and_services_that_are_gone() {
        let mut names = Names::default();
        let mut service = Service::default();
        service.metadata.name = Some("master".into());
        service.metadata.namespace = Some("one".into());
        service.spec.get_or_insert_default().selector =
            Some([("role".to_owned(), "a".to_owned())].into());
        names.add(&pod("a", "one", Some("job")), Ipv4Addr::new(10, 0, 0, 2));
        // Another job, and another label: it is found by what it is now.
        let mut moved = pod("a", "one", Some("other"));
        moved.metadata.labels = Some([("role".to_owned(), "b".to_owned())].into());
        names.add(&moved, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(names.service(&service, true), Stale::from(["a".to_owned()]));
        let file = names.file("a").unwrap();
        assert!(!file.contains("10.0.0.2 master"), "{file}");
        let namespace = &names.namespaces["one"];
        assert_eq!(namespace.pods_by.len(), 2, "{:?}", namespace.pods_by);
        assert_eq!(namespace.services_by.len(), 2);
        names.service(&service, false);
        names.remove("a");
        assert!(names.namespaces.is_empty(), "{names:?}");
    }

    #[test]
    fn a_pod_adds_aliases_to_its_own_file() {
        let mut names = Names::default();
        let mut one = pod("a", "one", Some("job"));
        let alias = serde_json::json!({ "ip": "192.0.2.7", "hostnames": ["foo", "bar.example"] });
        one.spec.get_or_insert_default().host_aliases =
            Some(vec![serde_json::from_value(alias).unwrap()]);
        names.add(&one, Ipv4Addr::new(10, 0, 0, 2));
        names.add(&pod("b", "one", Some("job")), Ipv4Addr::new(10, 0, 0, 3));
        let file = names.file("a").unwrap();
        assert!(file.ends_with("\n192.0.2.7\tfoo\tbar.example\n"), "{file}");
        assert!(!names.file("b").unwrap().contains("192.0.2.7"));
    }

    #[test]
    fn a_job_changes_the_files_of_its_own_pods_alone() {
        let mut names = Names::default();
        let set = |uids: &[&str]| uids.iter().map(ToString::to_string).collect::<Stale>();
        let owned = |mut pod: Pod, owner: &str| {
            pod.metadata.owner_references = Some(vec![OwnerReference {
                uid: owner.to_owned(),
                ..OwnerReference::default()
            }]);
            pod
        };
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        names.add(&owned(pod("a", "one", Some("job")), "x"), address(2));
        names.add(&owned(pod("c", "one", Some("other")), "y"), address(4));
        let b = owned(pod("b", "one", Some("job")), "x");
        assert_eq!(names.add(&b, address(3)), set(&["a", "b"]));
        assert_eq!(names.add(&b, address(3)), set(&[]), "that is no news");
        let mut service = Service::default();
        service.metadata.name = Some("master".into());
        service.metadata.namespace = Some("one".into());
        service.spec.get_or_insert_default().selector =
            Some([("role".to_owned(), "a".to_owned())].into());
        // Nobody's is everybody's; a job's is for the pods of the job.
        assert_eq!(names.service(&service, true), set(&["a", "b", "c"]));
        assert!(names.file("c").unwrap().contains("10.0.0.2 master.one.svc"));
        service.metadata.owner_references = b.metadata.owner_references.clone();
        assert_eq!(names.service(&service, true), set(&["a", "b", "c"]));
        assert!(!names.file("c").unwrap().contains("master"));
        assert!(names.file("b").unwrap().contains(" master.one.svc\n"));
        assert_eq!(names.remove("a"), set(&["b"]));
        assert!(!names.file("b").unwrap().contains("master"));
        assert_eq!(names.services(&[]), set(&["b", "c"]));
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
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        rewrite(&path, "five\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "five\n");
    }
}
