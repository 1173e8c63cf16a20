//! From a pod of the API to the spec of a supervisor. Of files it reads only those in which an image names its
//! users; everything else has been read before.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{
    Container, LifecycleHandler, Pod, PodSpec as KubePodSpec, Probe as KubeProbe, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use nix::sys::signal::Signal;

use super::address::Lease;
use super::environment;
use super::fields::Facts;
use super::hosts;
use super::references::{Error, Objects, Result};
use super::storage;
use super::volumes::Source;
use crate::image;
use crate::layout::{self, PodDir};
use crate::sandbox::identity;
use crate::spec::{
    ContainerSpec, Handler, Limits, Mount, Network, PodSpec, Probe, RestartPolicy, Root,
};

/// Where programs are looked for when an image does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Processes and threads of a container.
const PIDS: u64 = 4096;

/// What a pod needs besides its object.
pub(super) struct Inputs<'a> {
    pub(super) facts: Facts<'a>,
    pub(super) objects: &'a Objects,
    pub(super) volumes: &'a BTreeMap<String, Source>,
    /// By container.
    pub(super) images: &'a BTreeMap<String, image::Root>,
    /// Variables and device files of GPUs, by container.
    pub(super) gpus: &'a BTreeMap<String, crate::gpu::Allocation>,
    pub(super) lease: Option<&'a Lease>,
    /// There is a way out.
    pub(super) egress: bool,
    /// Variables of Services.
    pub(super) links: &'a [(String, String)],
    pub(super) dir: &'a PodDir,
    pub(super) data_dir: &'a Path,
    /// Pods may report progress.
    pub(super) relay: bool,
    /// Bytes of disk for a pod that sets itself no limit.
    pub(super) storage: Option<u64>,
}

/// The spec of a pod's supervisor.
pub(super) fn resolve(pod: &Pod, inputs: &Inputs<'_>) -> Result<PodSpec> {
    let nothing = KubePodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let (namespace, name, uid) = (
        pod.namespace().unwrap_or_default(),
        pod.name_any(),
        pod.uid().unwrap_or_default(),
    );
    let network = match inputs.lease {
        Some(lease) => Network::Bridge {
            bridge: lease.bridge.clone(),
            address: lease.address,
            prefix: lease.prefix,
            gateway: inputs.egress.then_some(lease.gateway),
        },
        None => Network::Host,
    };
    let one = |container: &Container, init: bool| one(spec, container, init, pod, inputs);
    let log_dir = layout::pod_logs(inputs.data_dir, &namespace, &name, &uid);
    Ok(PodSpec {
        hostname: hosts::hostname(pod),
        restart_policy: match spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        },
        grace_seconds: spec
            .termination_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(30),
        active_deadline_seconds: spec
            .active_deadline_seconds
            .and_then(|seconds| u64::try_from(seconds).ok()),
        network,
        limits: Limits::default(),
        init_containers: spec
            .init_containers
            .iter()
            .flatten()
            .map(|container| one(container, true))
            .collect::<Result<_>>()?,
        containers: spec
            .containers
            .iter()
            .map(|container| one(container, false))
            .collect::<Result<_>>()?,
        egress: (inputs.egress && inputs.lease.is_some())
            .then(|| layout::egress_users(&layout::egress(inputs.data_dir))),
        relay: (inputs.relay && inputs.lease.is_some() && hosts::reports(pod))
            .then(|| layout::relay(inputs.data_dir)),
        storage: storage::limits(pod, inputs.dir, &log_dir, inputs.storage),
        gpus: inputs
            .gpus
            .values()
            .flat_map(|allocation| allocation.indices.iter().copied())
            .collect(),
        log_dir,
        uid,
        namespace,
        name,
    })
}

fn one(
    spec: &KubePodSpec,
    container: &Container,
    init: bool,
    pod: &Pod,
    inputs: &Inputs<'_>,
) -> Result<ContainerSpec> {
    let refused = |problem: String| Error::Container {
        container: container.name.clone(),
        problem,
    };
    let image = inputs
        .images
        .get(&container.name)
        .ok_or_else(|| refused("it has no image".to_owned()))?;
    let who = who(spec, container, image).map_err(refused)?;
    let (base, root) = image_parts(image);
    let base = defaults(base, who.user, container, pod, inputs);
    let env = environment::resolve(container, &inputs.facts, inputs.objects, &base)?;
    let lookup = |name: &str| {
        env.iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let words = |words: &Option<Vec<String>>| {
        words
            .iter()
            .flatten()
            .map(|word| environment::expand(word, lookup))
            .collect::<Vec<_>>()
    };
    let argv = image
        .config
        .argv(&words(&container.command), &words(&container.args));
    if argv.is_empty() {
        return Err(refused("no command specified".to_owned()));
    }
    let mut mounts = pod_files(inputs);
    for mount in container.volume_mounts.iter().flatten() {
        mounts.push(volume_mount(mount, inputs, lookup).map_err(refused)?);
    }
    // Those that lie in others come after them.
    mounts.sort_by_key(|mount| target(mount).components().count());
    let own = inputs
        .facts
        .address
        .unwrap_or(Ipv4Addr::LOCALHOST)
        .to_string();
    let probe = |given: &Option<KubeProbe>| probe(given.as_ref()?, container, &own);
    let hooks = container.lifecycle.clone().unwrap_or_default();
    let hook = |given: &Option<LifecycleHandler>| lifecycle(given.as_ref()?, container, &own);
    let context = container.security_context.clone().unwrap_or_default();
    let capabilities = context.capabilities.unwrap_or_default();
    let message_path = container.termination_message_path.as_deref();
    let message_policy = container.termination_message_policy.as_deref();
    Ok(ContainerSpec {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: image.id(),
        working_dir: working_dir(container, image, &root),
        root,
        argv,
        user: who.user,
        group: who.group,
        groups: who.groups,
        mounts,
        limits: limits(container),
        sidecar: init && container.restart_policy.as_deref() == Some("Always"),
        read_only_root: context.read_only_root_filesystem.unwrap_or(false),
        devices: inputs
            .gpus
            .get(&container.name)
            .map(|allocation| allocation.devices.clone())
            .unwrap_or_default(),
        capabilities_add: capabilities.add.unwrap_or_default(),
        capabilities_drop: capabilities.drop.unwrap_or_default(),
        termination_message_path: Some(message_path.unwrap_or("/dev/termination-log").into()),
        termination_message_from_logs: message_policy == Some("FallbackToLogsOnError"),
        startup_probe: probe(&container.startup_probe),
        readiness_probe: probe(&container.readiness_probe),
        liveness_probe: probe(&container.liveness_probe),
        post_start: hook(&hooks.post_start),
        pre_stop: hook(&hooks.pre_stop),
        stop_signal: stop_signal(container, image)?,
        env,
    })
}

/// Whom a container runs as.
struct Who {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

fn who(spec: &KubePodSpec, container: &Container, image: &image::Root) -> Result<Who, String> {
    let of_pod = spec.security_context.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let user = identity::given("runAsUser", own.run_as_user.or(of_pod.run_as_user))?;
    let group = identity::given("runAsGroup", own.run_as_group.or(of_pod.run_as_group))?;
    let of_image = match user {
        // Only the group is left to be said by the image, if it can.
        Some(user) => (user, image.user().map_or(0, |(_, group)| group)),
        None => image.user()?,
    };
    let (user, group) = (of_image.0, group.unwrap_or(of_image.1));
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) && user == 0 {
        return Err("container has runAsNonRoot and image will run as root".to_owned());
    }
    if own.privileged == Some(true) {
        return Err("privileged containers are not run on this node".to_owned());
    }
    let mut groups = Vec::new();
    for group in of_pod.supplemental_groups.iter().flatten() {
        groups.extend(identity::given("supplementalGroups", Some(*group))?);
    }
    groups.extend(identity::given("fsGroup", of_pod.fs_group)?);
    Ok(Who {
        user,
        group,
        groups,
    })
}

/// The image's variables with those that every container has.
fn defaults(
    mut base: Vec<(String, String)>,
    user: u32,
    container: &Container,
    pod: &Pod,
    inputs: &Inputs<'_>,
) -> Vec<(String, String)> {
    let home = if user == 0 { "/root" } else { "/tmp" };
    for (name, value) in [("PATH", PATH), ("HOME", home)] {
        if !base.iter().any(|(known, _)| known == name) {
            base.push((name.to_owned(), value.to_owned()));
        }
    }
    base.push(("HOSTNAME".to_owned(), hosts::hostname(pod)));
    let gpus = inputs.gpus.get(&container.name);
    base.extend(gpus.into_iter().flat_map(|gpus| gpus.env.iter().cloned()));
    base.extend_from_slice(inputs.links);
    base
}

fn working_dir(container: &Container, image: &image::Root, root: &Root) -> PathBuf {
    let given = [&container.working_dir, &image.config.working_dir];
    let given = given.into_iter().flatten().find(|path| !path.is_empty());
    let default = match root {
        Root::Host { .. } => "/workspace",
        Root::Layers { .. } => "/",
    };
    PathBuf::from(given.map_or(default, String::as_str))
}

/// What asks a container to end, if not SIGTERM. An image's signal that this node does not know is as good as
/// none; the pod's own has to be right.
fn stop_signal(container: &Container, image: &image::Root) -> Result<Option<String>> {
    let Some(given) = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.stop_signal.as_ref())
    else {
        return Ok(image.config.stop_signal());
    };
    Signal::from_str(given).map_err(|_| Error::Container {
        container: container.name.clone(),
        problem: format!("lifecycle.stopSignal {given:?} is not a signal"),
    })?;
    Ok(Some(given.clone()))
}

/// Environment and root of an image.
fn image_parts(image: &image::Root) -> (Vec<(String, String)>, Root) {
    let mut env = image.config.env.clone();
    let root = match &image.source {
        image::Source::Host { python } => {
            if let Some(python) = python {
                let path = format!("{}:{PATH}", python.bin.display());
                env.push(("PATH".to_owned(), path));
                if python.prefix != python.base_prefix {
                    env.push((
                        "VIRTUAL_ENV".to_owned(),
                        python.prefix.display().to_string(),
                    ));
                }
            }
            Root::Host {
                read_only: python
                    .as_ref()
                    .map(image::Python::directories)
                    .unwrap_or_default(),
            }
        }
        image::Source::Image { .. } => Root::Layers {
            lower: image.lowers.clone(),
        },
    };
    (env, root)
}

/// The files that the node keeps for every pod.
fn pod_files(inputs: &Inputs<'_>) -> Vec<Mount> {
    if inputs.lease.is_none() {
        return Vec::new();
    }
    let file = |name: &str| Mount::Bind {
        source: inputs.dir.path().join(name),
        host: None,
        sub_path: None,
        target: Path::new("/etc").join(name),
        read_only: name != "hosts",
    };
    ["hosts", "hostname", "resolv.conf", "nsswitch.conf"]
        .map(file)
        .to_vec()
}

fn volume_mount<'a>(
    mount: &VolumeMount,
    inputs: &Inputs<'_>,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<Mount, String> {
    let source = inputs.volumes.get(&mount.name).ok_or_else(|| {
        format!(
            "volumeMounts name volume {:?}, which the pod does not have",
            mount.name
        )
    })?;
    let target = PathBuf::from(&mount.mount_path);
    let wanted = mount.read_only.unwrap_or(false);
    let part = mount
        .sub_path_expr
        .as_deref()
        .map(|text| environment::expand(text, lookup))
        .or_else(|| mount.sub_path.clone());
    let part = part.filter(|part| !part.is_empty()).map(PathBuf::from);
    if part.as_ref().is_some_and(|part| {
        part.is_absolute()
            || part
                .components()
                .any(|component| component == std::path::Component::ParentDir)
    }) {
        return Err(format!(
            "subPath of volumeMount {:?} must be relative and without \"..\"",
            mount.name
        ));
    }
    Ok(match source {
        Source::Path { path, read_only } => Mount::Bind {
            source: path.clone(),
            host: None,
            sub_path: part,
            target,
            read_only: wanted || *read_only,
        },
        Source::Host { folder, inside } => Mount::Bind {
            source: folder.clone(),
            host: Some(inside.clone()),
            sub_path: part,
            target,
            read_only: wanted,
        },
        Source::Memory { size } => Mount::Memory {
            key: mount.name.clone(),
            sub_path: part,
            target,
            size: *size,
            read_only: wanted,
        },
    })
}

fn target(mount: &Mount) -> &Path {
    match mount {
        Mount::Bind { target, .. } | Mount::Memory { target, .. } => target,
    }
}

fn limits(container: &Container) -> Limits {
    let resources = container.resources.clone().unwrap_or_default();
    let amount = |map: &Option<BTreeMap<String, Quantity>>, name: &str| {
        map.as_ref()
            .and_then(|map| map.get(name))
            .and_then(|quantity| Amount::try_from(quantity).ok())
            .filter(|amount| amount.is_positive())
    };
    let millis = |amount: Amount| u64::try_from(amount.millis_up()).unwrap_or(0);
    let cpu_limit = amount(&resources.limits, "cpu").map(millis);
    Limits {
        cpu_limit,
        cpu_request: amount(&resources.requests, "cpu").map(millis).or(cpu_limit),
        memory: amount(&resources.limits, "memory")
            .and_then(|amount| u64::try_from(amount.units_up()).ok()),
        pids: Some(PIDS),
    }
}

fn probe(probe: &KubeProbe, container: &Container, own: &str) -> Option<Probe> {
    let handler = if let Some(exec) = &probe.exec {
        Handler::Exec {
            argv: exec.command.clone().unwrap_or_default(),
        }
    } else if let Some(tcp) = &probe.tcp_socket {
        Handler::Tcp {
            host: host(tcp.host.as_ref(), own),
            port: port(&tcp.port, container),
        }
    } else if let Some(http) = &probe.http_get {
        http_get(http, container, own)
    } else if let Some(grpc) = &probe.grpc {
        Handler::Grpc {
            host: own.to_owned(),
            port: u16::try_from(grpc.port).unwrap_or(0),
            service: grpc.service.clone().unwrap_or_default(),
        }
    } else {
        return None;
    };
    let number = |value: Option<i32>, default: u64| {
        value
            .and_then(|value| u64::try_from(value).ok())
            .unwrap_or(default)
    };
    let count = |value: Option<i32>, default: u32| {
        value
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(default)
    };
    Some(Probe {
        handler,
        initial_delay_seconds: number(probe.initial_delay_seconds, 0),
        period_seconds: number(probe.period_seconds, 10),
        timeout_seconds: number(probe.timeout_seconds, 1),
        success_threshold: count(probe.success_threshold, 1),
        failure_threshold: count(probe.failure_threshold, 3),
        grace_seconds: probe
            .termination_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok()),
    })
}

fn lifecycle(handler: &LifecycleHandler, container: &Container, own: &str) -> Option<Handler> {
    if let Some(exec) = &handler.exec {
        return Some(Handler::Exec {
            argv: exec.command.clone().unwrap_or_default(),
        });
    }
    if let Some(sleep) = &handler.sleep {
        return Some(Handler::Sleep {
            seconds: u64::try_from(sleep.seconds).unwrap_or(0),
        });
    }
    let http = handler.http_get.as_ref()?;
    Some(http_get(http, container, own))
}

fn http_get(
    http: &k8s_openapi::api::core::v1::HTTPGetAction,
    container: &Container,
    own: &str,
) -> Handler {
    let headers = http
        .http_headers
        .iter()
        .flatten()
        .map(|header| (header.name.clone(), header.value.clone()));
    Handler::Http {
        host: host(http.host.as_ref(), own),
        port: port(&http.port, container),
        path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
        headers: headers.collect(),
    }
}

/// Whom to ask: the pod itself unless it says otherwise.
fn host(given: Option<&String>, own: &str) -> String {
    given
        .cloned()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| own.to_owned())
}

/// The number of a port. One that the container does not have is 0, where nobody can listen: what asks there fails.
fn port(port: &IntOrString, container: &Container) -> u16 {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => name.parse().ok().or_else(|| {
            let mut ports = container.ports.iter().flatten();
            let found = ports.find(|port| port.name.as_ref() == Some(name))?;
            Some(found.container_port)
        }),
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .unwrap_or(0)
}
