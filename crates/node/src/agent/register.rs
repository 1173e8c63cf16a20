//! The Node object: what this machine is and offers, and that it lives.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Namespace, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec,
    NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::egress::Way;
use crate::gpu::Gpu;
use crate::options::Options;

/// How often the node says that it lives; others wait four times as long before they doubt it.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
/// Where the embedded API server finds the certificate to trust.
const CERTIFICATE: &str = "astrago.io/kubelet-certificate-sha256";
const LEASES: &str = "kube-node-lease";
/// How many pods a node runs at most.
const PODS: u32 = 500;

/// What the machine offers.
pub(super) fn capacity(options: &Options, gpus: &[Gpu]) -> BTreeMap<String, Quantity> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpus.to_string())),
        (
            "memory".to_owned(),
            Quantity(format!("{}Ki", memory_kibibytes())),
        ),
        ("pods".to_owned(), Quantity(PODS.to_string())),
        (
            "ephemeral-storage".to_owned(),
            Quantity(format!("{}Ki", disk_kibibytes(&options.data_dir))),
        ),
        ("hugepages-2Mi".to_owned(), Quantity("0".to_owned())),
    ]);
    if !gpus.is_empty() {
        all.insert(
            "nvidia.com/gpu".to_owned(),
            Quantity(gpus.len().to_string()),
        );
    }
    for (name, amount) in &options.capacity {
        all.insert(name.clone(), Quantity(amount.clone()));
    }
    all
}

/// The address by which this machine is known; the one that leads outside, if any.
pub(super) fn host_address() -> IpAddr {
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    let outside = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("198.51.100.1:9")?;
        socket.local_addr()
    });
    outside.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

/// Creates or updates the Node.
pub(super) async fn register(
    client: &Client,
    options: &Options,
    facts: &NodeFacts,
) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = labels(options, facts);
    let annotations = BTreeMap::from([(CERTIFICATE.to_owned(), facts.certificate.clone())]);
    let node = Node {
        metadata: ObjectMeta {
            name: Some(options.node_name.clone()),
            labels: Some(labels.clone()),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("astrago://{}", options.node_name)),
            ..NodeSpec::default()
        }),
        status: Some(status(facts, None, Timestamp::now())),
    };
    let known = match nodes.create(&PostParams::default(), &node).await {
        Ok(node) => node,
        Err(kube::Error::Api(error)) if error.code == 409 => {
            let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
            nodes
                .patch(
                    &options.node_name,
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .await?
        }
        Err(error) => return Err(error),
    };
    beat(client, &options.node_name, facts, Some(&known)).await?;
    Ok(known)
}

/// Says that the node is ready, and what it offers.
pub(super) async fn beat(
    client: &Client,
    name: &str,
    facts: &NodeFacts,
    known: Option<&Node>,
) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = status(
        facts,
        known.and_then(|node| node.status.as_ref()),
        Timestamp::now(),
    );
    nodes
        .patch_status(
            name,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await?;
    Ok(())
}

/// Renews the node's lease, the cheap sign of life.
pub(super) async fn renew(client: &Client, node: &Node) -> kube::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let name = node.name_any();
    let now = MicroTime(Timestamp::now());
    let spec = LeaseSpec {
        holder_identity: Some(name.clone()),
        lease_duration_seconds: Some(40),
        renew_time: Some(now),
        ..LeaseSpec::default()
    };
    let patch = Patch::Merge(json!({"spec": spec}));
    match leases.patch(&name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(error)) if error.code == 404 => {}
        other => return other.map(drop),
    }
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.clone(),
        uid: node.uid().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    };
    match leases.create(&PostParams::default(), &lease).await {
        Err(kube::Error::Api(error)) if error.code == 404 => {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            let namespace = Namespace {
                metadata: ObjectMeta {
                    name: Some(LEASES.to_owned()),
                    ..ObjectMeta::default()
                },
                ..Namespace::default()
            };
            namespaces
                .create(&PostParams::default(), &namespace)
                .await?;
            leases
                .create(&PostParams::default(), &lease)
                .await
                .map(drop)
        }
        other => other.map(drop),
    }
}

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    pub(super) capacity: BTreeMap<String, Quantity>,
    pub(super) host_address: IpAddr,
    /// SHA-256 of the certificate of the kubelet's endpoints.
    pub(super) certificate: String,
    pub(super) hostname: String,
    pub(super) kubelet_port: Option<u16>,
    pub(super) egress: Way,
    pub(super) disk: Disk,
    pub(super) gpus: Vec<Gpu>,
}

fn labels(options: &Options, facts: &NodeFacts) -> BTreeMap<String, String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let kind = if facts.gpus.is_empty() { "cpu" } else { "gpu" };
    let mut all: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", options.node_name.as_str()),
        ("kubernetes.io/arch", machine),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", &format!("local-{kind}")),
        ("topology.kubernetes.io/region", "local"),
        ("topology.kubernetes.io/zone", "local"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if let Some(gpu) = facts.gpus.first() {
        let product: String = gpu
            .name
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '-'
                }
            })
            .collect();
        all.insert("nvidia.com/gpu.product".to_owned(), product);
    }
    all.extend(options.labels.clone());
    all
}

fn status(facts: &NodeFacts, before: Option<&NodeStatus>, now: Timestamp) -> NodeStatus {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        let old = before
            .and_then(|before| before.conditions.as_ref())
            .into_iter()
            .flatten()
            .find(|old| old.type_ == kind);
        let since = old
            .filter(|old| old.status == status)
            .and_then(|old| old.last_transition_time.clone());
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: since.or(Some(Time(now))),
        }
    };
    let address = |type_: &str, address: String| NodeAddress {
        type_: type_.to_owned(),
        address,
    };
    NodeStatus {
        capacity: Some(facts.capacity.clone()),
        allocatable: Some(facts.capacity.clone()),
        addresses: Some(vec![
            address("InternalIP", facts.host_address.to_string()),
            address("Hostname", facts.hostname.clone()),
        ]),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "the node has sufficient memory",
            ),
            if facts.disk.is_short() {
                condition(
                    "DiskPressure",
                    "True",
                    "KubeletHasDiskPressure",
                    "the disk of the data folder is almost full: no new pods are started",
                )
            } else {
                condition(
                    "DiskPressure",
                    "False",
                    "KubeletHasNoDiskPressure",
                    "the node has no disk pressure",
                )
            },
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "the node has sufficient process ids",
            ),
            condition(
                "astrago.io/Egress",
                if facts.egress.is_open() {
                    "True"
                } else {
                    "False"
                },
                facts.egress.name(),
                &facts.egress.describe(),
            ),
            condition("Ready", "True", "KubeletReady", "the node runs pods"),
        ]),
        daemon_endpoints: facts.kubelet_port.map(|port| NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint {
                port: i32::from(port),
            }),
        }),
        node_info: Some(system()),
        ..NodeStatus::default()
    }
}

fn system() -> NodeSystemInfo {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    };
    let release = read("/etc/os-release");
    let pretty = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    NodeSystemInfo {
        architecture: match std::env::consts::ARCH {
            "x86_64" => "amd64".to_owned(),
            "aarch64" => "arm64".to_owned(),
            other => other.to_owned(),
        },
        operating_system: "linux".to_owned(),
        os_image: pretty.unwrap_or("Linux").trim_matches('"').to_owned(),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        machine_id: read("/etc/machine-id"),
        system_uuid: read("/etc/machine-id"),
        container_runtime_version: concat!("astrago://", env!("CARGO_PKG_VERSION")).to_owned(),
        kubelet_version: concat!("v1.33.0+astrago.", env!("CARGO_PKG_VERSION")).to_owned(),
        kube_proxy_version: String::new(),
        ..NodeSystemInfo::default()
    }
}

fn memory_kibibytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The disk that the data folder is on.
#[derive(Clone, Debug)]
pub(super) struct Disk(pub(super) PathBuf);

impl Disk {
    /// There is so little left that nothing more should be begun.
    pub(super) fn is_short(&self) -> bool {
        rustix::fs::statvfs(&self.0).is_ok_and(|disk| {
            is_short(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
        })
    }
}

/// Less than a twentieth, and less than what one image takes: large disks are not full at 5 %.
fn is_short(free: u64, total: u64) -> bool {
    free < (total / 20).min(2 << 30)
}

fn disk_kibibytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |disk| disk.f_blocks * disk.f_frsize / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_one_with_little_left_for_its_size() {
        const GIB: u64 = 1 << 30;
        assert!(!is_short(3 * GIB, 1000 * GIB));
        assert!(is_short(GIB, 1000 * GIB));
        assert!(!is_short(GIB, 10 * GIB));
        assert!(is_short(GIB / 4, 10 * GIB));
    }
}
