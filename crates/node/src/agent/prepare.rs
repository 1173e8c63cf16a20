//! Everything that a pod needs before its supervisor starts: objects, images, volumes, files.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::watch;

use super::fields::Facts;
use super::hosts;
use super::node::Node;
use super::references::{Error, Kind, Objects, Result};
use super::resolve::{self, Inputs};
use super::volumes::{Source, Volumes};
use crate::egress::resolvers::Resolvers;
use crate::gpu::Allocation;
use crate::image;
use crate::layout::PodDir;
use crate::options::{self, Images};
use crate::state;

/// The image that is being pulled, and how far that is.
pub(super) type Pulling = Option<(String, image::Progress)>;

/// Makes the pod's folder; when this returns, `pod.json` is there and the supervisor can start.
pub(super) async fn pod(
    node: &Arc<Node>,
    pod: &Pod,
    dir: &PodDir,
    pulling: &watch::Sender<Pulling>,
) -> Result<()> {
    let objects = Objects::fetch(&node.client, &node.tokens, pod).await?;
    let images = images(node, pod, &objects, pulling).await?;
    // Elsewhere the addresses of Services lead nowhere.
    let links = if node.egress.way.is_open() {
        node.links.of(pod).await
    } else {
        Vec::new()
    };
    let (node, pod, dir) = (Arc::clone(node), pod.clone(), dir.clone());
    let written =
        tokio::task::spawn_blocking(move || write(&node, &pod, &dir, &objects, &images, &links))
            .await;
    written.unwrap_or_else(|error| Err(interrupted("the pod's folder", error)))
}

/// Brings the volumes of a running pod up to date.
pub(super) async fn volumes(node: &Arc<Node>, pod: &Pod, dir: &PodDir) -> Result<()> {
    let objects = Objects::fetch(&node.client, &node.tokens, pod).await?;
    let (node, pod, dir) = (Arc::clone(node), pod.clone(), dir.clone());
    let written =
        tokio::task::spawn_blocking(move || make_volumes(&node, &pod, &dir, &objects).map(drop))
            .await;
    written.unwrap_or_else(|error| Err(interrupted("volumes", error)))
}

fn interrupted(what: &'static str, error: tokio::task::JoinError) -> Error {
    let source = std::io::Error::other(error);
    Error::Write { what, source }
}

/// Whether a volume of the pod follows an object that may change.
pub(super) fn refers_to_objects(pod: &Pod) -> bool {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| {
        volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some()
    })
}

fn write(
    node: &Node,
    pod: &Pod,
    dir: &PodDir,
    objects: &Objects,
    images: &BTreeMap<String, image::Root>,
    links: &[(String, String)],
) -> Result<()> {
    let failed = |what| move |source| Error::Write { what, source };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir.path())
        .map_err(failed("the pod's folder"))?;
    let host_network = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.host_network)
        .unwrap_or(false);
    let lease = if host_network {
        None
    } else {
        Some(node.lease(pod).ok_or(Error::Addresses)?)
    };
    let volumes = make_volumes(node, pod, dir, objects)?;
    let gpus = gpus(node, pod)?;
    let facts = facts(node, pod);
    let inputs = Inputs {
        facts,
        objects,
        volumes: &volumes,
        images,
        gpus: &gpus,
        lease: lease.as_ref(),
        egress: node.egress.way.is_open(),
        links,
        dir,
        data_dir: &node.options.data_dir,
        relay: node.options.status_relay.is_some(),
        storage: match node.options.pod_storage {
            None => options::storage_share(&node.options.data_dir),
            given => given.filter(|bytes| *bytes > 0),
        },
    };
    let spec = resolve::resolve(pod, &inputs)?;
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).map_err(failed("the pod's files"))
    };
    file("hostname", &format!("{}\n", spec.hostname))?;
    let resolvers = if node.egress.way.is_open() {
        Resolvers::of_host(&node.options.resolvers)
    } else {
        Resolvers::default()
    };
    file("resolv.conf", &resolvers.file())?;
    file(
        "nsswitch.conf",
        &format!(
            "passwd: files\ngroup: files\nshadow: files\n{}\nnetworks: files\nprotocols: files\nservices: files\n",
            resolvers.switch()
        ),
    )?;
    node.write_hosts(dir, &spec.uid)
        .map_err(failed("the hosts file"))?;
    // Last, and not waited for: after a power cut everything is made anew whatever was kept of it.
    let bytes = serde_json::to_vec(&spec).map_err(|error| failed("pod.json")(error.into()))?;
    state::put(&dir.spec(), &bytes, false).map_err(failed("pod.json"))
}

fn make_volumes(
    node: &Node,
    pod: &Pod,
    dir: &PodDir,
    objects: &Objects,
) -> Result<BTreeMap<String, Source>> {
    let volumes = Volumes {
        dir,
        data_dir: &node.options.data_dir,
        snapshots: node.options.snapshots.as_deref(),
        host_folders: &node.host_folders,
        facts: facts(node, pod),
        objects,
    };
    volumes.make()
}

fn facts<'a>(node: &'a Node, pod: &'a Pod) -> Facts<'a> {
    Facts {
        pod,
        node_name: &node.options.node_name,
        host_address: node.facts.host_address,
        address: node.address(pod.metadata.uid.as_deref().unwrap_or_default()),
        allocatable: &node.facts.capacity,
    }
}

/// The root file system of every container.
async fn images(
    node: &Node,
    pod: &Pod,
    objects: &Objects,
    pulling: &watch::Sender<Pulling>,
) -> Result<BTreeMap<String, image::Root>> {
    let mut roots = BTreeMap::new();
    // Cloned, for the compiler cannot see that a future which holds the iterator is `Send`.
    for container in &containers(pod).cloned().collect::<Vec<_>>() {
        let root = if let (Some(images), Images::Pull) = (&node.images, node.options.images) {
            pull(images, container, pod, objects, pulling).await?
        } else {
            let found = node.host_image.get(node.options.python.as_deref()).await;
            found.map_err(Error::HostImage)?.clone()
        };
        roots.insert(container.name.clone(), root);
    }
    Ok(roots)
}

async fn pull(
    images: &image::Images,
    container: &Container,
    pod: &Pod,
    objects: &Objects,
    pulling: &watch::Sender<Pulling>,
) -> Result<image::Root> {
    let name = container.image.clone().unwrap_or_default();
    let tag = name
        .rsplit_once('/')
        .map_or(name.as_str(), |(_, last)| last);
    let latest = !name.contains('@') && (tag.ends_with(":latest") || !tag.contains(':'));
    let policy = match container.image_pull_policy.as_deref() {
        Some("Always") => image::Policy::Always,
        Some("Never") => image::Policy::Never,
        Some("IfNotPresent") => image::Policy::IfNotPresent,
        _ if latest => image::Policy::Always,
        _ => image::Policy::IfNotPresent,
    };
    let mut credentials = image::Credentials::default();
    for reference in pod
        .spec
        .iter()
        .flat_map(|spec| spec.image_pull_secrets.iter().flatten())
    {
        let Ok(Some(data)) = objects.data(Kind::Secret, &reference.name, true) else {
            continue;
        };
        for key in [".dockerconfigjson", ".dockercfg"] {
            if let Some(content) = data.get(key)
                && let Err(error) = credentials.add(content)
            {
                tracing::warn!(secret = %reference.name, %error, "an image pull secret is not understood");
            }
        }
    }
    let problem = |source| Error::Image {
        image: name.clone(),
        source,
    };
    let tell = |progress| drop(pulling.send_replace(Some((name.clone(), progress))));
    images
        .resolve(&name, policy, &credentials, &tell)
        .await
        .map_err(problem)
}

/// The GPUs of every container that asks for some; those that ask for none see none.
fn gpus(node: &Node, pod: &Pod) -> Result<BTreeMap<String, Allocation>> {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let wants = containers(pod).map(|container| {
        let limits = container
            .resources
            .as_ref()
            .and_then(|resources| resources.limits.as_ref());
        let count = limits
            .and_then(|limits| limits.get("nvidia.com/gpu"))
            .and_then(|quantity| quantity.0.parse().ok());
        (container.name.clone(), count.unwrap_or(0))
    });
    node.allocate_gpus(&uid, wants.collect())
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    })
}

/// Writes the hosts file of a pod, or another text where it has no names.
pub(super) fn hosts_file(dir: &PodDir, text: Option<&str>) -> std::io::Result<()> {
    hosts::rewrite(
        &dir.path().join("hosts"),
        text.unwrap_or("127.0.0.1 localhost\n::1 localhost\n"),
    )
}
