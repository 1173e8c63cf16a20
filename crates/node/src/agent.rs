//! The agent: a client of the Kubernetes API that runs the pods bound to its node.
//!
//! Tasks, all of which end with the token:
//!
//! | task | reads | writes |
//! |---|---|---|
//! | heartbeat | – | the Node's status and lease |
//! | pods | pods with `spec.nodeName` = this node | one worker per pod |
//! | services | Services | the names and variables that pods know |
//! | endpoints | Services, EndpointSlices | where the addresses of Services lead |
//! | names | the names that changed | hosts files |
//! | claims | persistent volume claims | the folders of deleted ones |
//! | worker, one per pod | the pod, its folder, its supervisor's state | folder, supervisor, pod status |
//!
//! Pods go on when the agent ends, unless [`Options::stop_pods`] says otherwise; the next agent finds
//! them by their folders.

mod address;
mod admission;
pub(crate) mod claims;
mod environment;
mod events;
mod fields;
mod hosts;
mod links;
mod node;
mod prepare;
mod references;
mod register;
mod resolve;
mod services;
mod snapshots;
mod status;
mod storage;
mod tokens;
mod volumes;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use astrago_api::Readable;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::address::Addresses;
use self::events::Events;
use self::node::{HostImage, Node, Shared, Tasks};
use self::register::NodeFacts;
use self::worker::Worker;
use crate::egress::{self, Egress, Way};
use crate::housekeeping;
use crate::image::{self, HostError};
use crate::launch::{self, Bridges, Launcher};
use crate::layout::{self, PodDir};
use crate::metrics::Collector;
use crate::options::{Images, Options};
use crate::relay;
use crate::server;
use crate::spec::PodSpec;
use crate::state::State;

/// Annotation on a pod that only shows what runs without one; it is not the agent's to run.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Unpacked image layers may take this much of the disk.
const IMAGE_QUOTA: u64 = 100 << 30;

/// Runs a node until the token is cancelled.
///
/// # Errors
/// When the machine allows no sandboxes, or the data folder or the kubelet's address cannot be used.
pub fn run(
    client: Client,
    options: Options,
    token: CancellationToken,
) -> BoxFuture<'static, Result<()>> {
    // Boxed: it is large, and callers hold it in futures of their own.
    Box::pin(work(client, options, token))
}

async fn work(client: Client, options: Options, token: CancellationToken) -> Result<()> {
    let collector = options
        .collector
        .clone()
        .unwrap_or_else(|| Collector::new(&options.data_dir, &options.node_name));
    collector.connect(client.clone());
    let listener = TcpListener::bind(options.kubelet_listen)
        .await
        .map_err(|source| Error::Listen {
            address: options.kubelet_listen,
            source,
        })?;
    let address = listener.local_addr().map_err(|source| Error::Listen {
        address: options.kubelet_listen,
        source,
    })?;
    let tasks = Tasks::under(&token);
    // Workers end with this function, whichever way it ends.
    let _guard = tasks.guard();
    let node = Arc::new(open(client, options, address, tasks).await?);
    let endpoints = serve(&node, listener, collector.clone(), token.clone());
    let known = loop {
        match register::register(&node.client, &node.options, &node.facts).await {
            Ok(known) => break known,
            Err(error) => {
                tracing::warn!(%error, "the node could not be registered");
                tokio::select! {
                    () = token.cancelled() => return Ok(()),
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
        }
    };
    let heart = heartbeat(Arc::clone(&node), known);
    let services = services(Arc::clone(&node));
    let endpoints_of_services = services::follow(Arc::clone(&node));
    let names = Arc::clone(&node).publish_hosts();
    let pods = pods(Arc::clone(&node));
    let claims = claims::follow(Arc::clone(&node));
    let cleaning = housekeeping::run(node.options.data_dir.clone(), node.images.clone());
    let reports = reports(&node.options);
    node.options.registered.notify_one();
    tokio::select! {
        () = token.cancelled() => {}
        () = reports => {}
        () = heart => {}
        () = services => {}
        () = endpoints_of_services => {}
        () = names => {}
        () = pods => {}
        () = claims => {}
        () = cleaning => {}
        () = collector.run(token.clone()) => {}
        () = endpoints => {}
    }
    node.tasks.end().await;
    if node.options.stop_pods {
        stop_all(&node).await;
    }
    if local_pods(&node.options).is_empty() {
        launch::remove_empty_cgroups();
    }
    Ok(())
}

/// Prepares the machine.
async fn open(client: Client, options: Options, kubelet: SocketAddr, tasks: Tasks) -> Result<Node> {
    let host_image = Arc::new(HostImage::default());
    let look = look_at_python(Arc::clone(&host_image), &options, &tasks);
    let prepare = move || -> Result<_> {
        let failed = |path: std::path::PathBuf| move |source| Error::DataDir { path, source };
        let pods = layout::pods(&options.data_dir);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&pods)
            .map_err(failed(pods.clone()))?;
        let mut shared = Shared {
            addresses: Addresses::new(options.pod_network),
            leases: BTreeMap::new(),
            names: hosts::Names::new(options.status_relay.is_some()),
            stale: hosts::Stale::new(),
            gpus: BTreeMap::new(),
            claims: BTreeMap::new(),
        };
        let dirs = find_pods(&options, &mut shared);
        let bridges = Bridges::obtain(&options.supervisor, &dirs).map_err(Error::Bridges)?;
        let wanted = egress::Wanted {
            on: options.egress,
            network: options.pod_network,
            resolvers: &options.resolvers,
        };
        let egress = Egress::open(&options.supervisor, &options.data_dir, &bridges, &wanted);
        if egress.way.is_open() {
            shared.names.lead();
        }
        match &egress.way {
            Way::Missing { .. } => tracing::warn!("{}", egress.way.describe()),
            way => tracing::info!("{}", way.describe()),
        }
        let images = match options.images {
            Images::Host => None,
            Images::Pull => {
                let private = options.private_registries;
                let opened = image::Images::open(&options.data_dir, IMAGE_QUOTA, private);
                Some(opened.map_err(Error::Images)?)
            }
        };
        let gpus = gpus(&options);
        let launcher = Launcher::new(&options.supervisor, bridges);
        let parts = (launcher, egress, images);
        Ok((options, shared, parts, gpus))
    };
    // Beside the rest, which starts processes as well.
    let (prepared, found) = tokio::join!(tokio::task::spawn_blocking(prepare), look);
    found.map_err(Error::HostImage)?;
    let prepared = prepared.map_err(|_| Error::Interrupted)?;
    let (options, shared, (launcher, egress, images), gpus) = prepared?;
    let host_address = host_address(kubelet);
    let certificate = server::Certificate::generate(
        &options.node_name,
        &[host_address],
        options.kubelet_client_ca.as_deref(),
    )
    .map_err(Error::Endpoints)?;
    let facts = NodeFacts {
        capacity: register::capacity(&options, &gpus),
        host_address,
        certificate: certificate.fingerprint().to_owned(),
        hostname: options.node_name.clone(),
        kubelet_port: Some(kubelet.port()),
        egress: egress.way.clone(),
        disk: register::Disk(options.data_dir.clone()),
        gpus,
    };
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(Node {
        events: Events::new(client.clone(), &options.node_name),
        tokens: tokens::Tokens::default(),
        certificate,
        client,
        facts,
        launcher,
        egress,
        host_image,
        images,
        tasks,
        launches: Semaphore::new(cpus * 4),
        host_folders: volumes::host_folders(&options.host_paths),
        shared: Mutex::new(shared),
        names_changed: tokio::sync::Notify::new(),
        links: links::Links::default(),
        options,
    })
}

/// Asks Python about itself. One that was named must answer before anything starts; whatever else is there may take its
/// time, and is the matter of the pods that want it.
fn look_at_python(
    image: Arc<HostImage>,
    options: &Options,
    tasks: &Tasks,
) -> impl Future<Output = Result<(), HostError>> + use<> {
    let python = options.python.clone();
    if python.is_none() && options.images == Images::Host {
        let image = Arc::clone(&image);
        tasks.spawn(async move {
            if let Err(error) = image.get(None).await {
                tracing::warn!(error = %crate::sandbox::process::chain(&error), "Python could not be looked at");
            }
        });
    }
    async move {
        match python {
            Some(python) => image.get(Some(&python)).await.map(drop),
            None => Ok(()),
        }
    }
}

/// Finds the pods that an earlier agent left, and takes note of what they have.
fn find_pods(options: &Options, shared: &mut Shared) -> Vec<PodDir> {
    let mut dirs = Vec::new();
    for (uid, dir) in local_pods(options) {
        let spec = std::fs::read(dir.spec())
            .ok()
            .and_then(|bytes| serde_json::from_slice::<PodSpec>(&bytes).ok());
        let finished = State::read(&dir.state())
            .ok()
            .flatten()
            .is_some_and(|state| state.phase.is_finished());
        if let Some(spec) = spec.filter(|_| !finished) {
            Node::restore(shared, &spec);
        }
        tracing::info!(
            uid,
            supervised = launch::is_supervised(&dir),
            "found a pod of an earlier agent"
        );
        dirs.push(dir);
    }
    dirs
}

/// The address that the Node carries: the one at which its endpoints can be reached.
fn host_address(kubelet: SocketAddr) -> IpAddr {
    if kubelet.ip().is_unspecified() {
        register::host_address()
    } else {
        kubelet.ip()
    }
}

/// The kubelet's endpoints: logs, exec, stats.
fn serve(
    node: &Node,
    listener: TcpListener,
    collector: Collector,
    token: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let router = server::router(server::Options {
        data_dir: node.options.data_dir.clone(),
        node_name: node.options.node_name.clone(),
        token: node.options.kubelet_token.clone(),
        collector,
    });
    server::serve(listener, node.certificate.clone(), router, token)
}

/// The GPUs of this machine, or as many pretended ones as the administrator says.
fn gpus(options: &Options) -> Vec<crate::gpu::Gpu> {
    let found = crate::gpu::inventory();
    match options
        .capacity
        .get("nvidia.com/gpu")
        .and_then(|count| count.parse::<u32>().ok())
    {
        Some(count) if found.len() != count as usize => crate::gpu::simulated(count),
        _ => found,
    }
}

/// The pods' road to the server of their reports, if there is one.
async fn reports(options: &Options) {
    match &options.status_relay {
        Some(target) => relay::serve(options.data_dir.clone(), target.clone()).await,
        None => std::future::pending().await,
    }
}

async fn heartbeat(node: Arc<Node>, known: k8s_openapi::api::core::v1::Node) {
    let mut turn = 0_u32;
    loop {
        if let Err(error) = register::renew(&node.client, &known).await {
            tracing::warn!(%error, "the node's lease could not be renewed");
        }
        tokio::time::sleep(register::HEARTBEAT).await;
        turn += 1;
        if turn.is_multiple_of(6) {
            // Also brings back a Node that somebody deleted.
            if let Err(error) = register::register(&node.client, &node.options, &node.facts).await {
                tracing::warn!(%error, "the node's status could not be written");
            }
        }
    }
}

async fn services(node: Arc<Node>) {
    let api: Api<Readable<Service>> = Api::all(node.client.clone());
    let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = Vec::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(service))) => listed.extend(service.0),
            Ok(Some(watcher::Event::InitDone)) => node.services(&std::mem::take(&mut listed)),
            Ok(Some(watcher::Event::Apply(service))) => {
                if let Ok(service) = service.0 {
                    node.service(&service, true);
                }
            }
            Ok(Some(watcher::Event::Delete(service))) => {
                if let Ok(service) = service.0 {
                    node.service(&service, false);
                }
            }
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "services could not be watched"),
        }
    }
}

/// Keeps a worker for every pod that is bound here.
async fn pods(node: Arc<Node>) {
    let api: Api<Readable<Pod>> = Api::all(node.client.clone());
    let selector = format!("spec.nodeName={}", node.options.node_name);
    let mut events =
        Box::pin(watcher(api, watcher::Config::default().fields(&selector)).default_backoff());
    let mut workers: BTreeMap<String, watch::Sender<Arc<Pod>>> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(pod))) => {
                if let Some(pod) = readable(pod) {
                    listed.insert(pod.uid().unwrap_or_default());
                    employ(&node, &mut workers, pod);
                }
            }
            Ok(Some(watcher::Event::Apply(pod))) => {
                if let Some(pod) = readable(pod) {
                    employ(&node, &mut workers, pod);
                }
            }
            Ok(Some(watcher::Event::Delete(pod))) => {
                if let Some(pod) = readable(pod) {
                    dismiss(&node, &mut workers, &pod.uid().unwrap_or_default());
                }
            }
            Ok(Some(watcher::Event::InitDone)) => {
                let known: BTreeSet<_> = workers
                    .keys()
                    .cloned()
                    .chain(local_pods(&node.options).into_iter().map(|(uid, _)| uid))
                    .collect();
                for uid in known.difference(&listed) {
                    dismiss(&node, &mut workers, uid);
                }
            }
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "pods could not be watched"),
        }
    }
}

/// Gives a pod's worker the newest object; a pod without a worker gets one.
fn employ(
    node: &Arc<Node>,
    workers: &mut BTreeMap<String, watch::Sender<Arc<Pod>>>,
    pod: Arc<Pod>,
) {
    let uid = pod.uid().unwrap_or_default();
    let finished = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
    let host_network = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.host_network)
        .unwrap_or(false);
    if !finished && !host_network {
        // As early as can be: its peers look for its name as soon as they run.
        node.lease(&pod);
    }
    if let Some(worker) = workers.get(&uid)
        && worker.send(Arc::clone(&pod)).is_ok()
    {
        return;
    }
    let refusal = if finished { None } else { node.claim(&pod) };
    let (sender, receiver) = watch::channel(pod);
    workers.insert(uid, sender);
    node.tasks
        .spawn(Worker::new(Arc::clone(node), receiver, refusal).run());
}

/// Ends a pod that the API no longer has.
fn dismiss(node: &Arc<Node>, workers: &mut BTreeMap<String, watch::Sender<Arc<Pod>>>, uid: &str) {
    workers.remove(uid);
    node.unclaim(uid);
    let dir = PodDir::new(&node.options.data_dir, uid);
    node.tasks
        .spawn(worker::bury(Arc::clone(node), dir, uid.to_owned()));
}

fn readable(pod: Readable<Pod>) -> Option<Arc<Pod>> {
    match pod.0 {
        Ok(pod) if pod.annotations().contains_key(MIRROR) => None,
        Ok(pod) => Some(Arc::new(pod)),
        Err(error) => {
            tracing::warn!(pod = ?error.metadata.name, error = error.error, "a pod is not understood");
            None
        }
    }
}

/// The pods that have a folder here.
fn local_pods(options: &Options) -> Vec<(String, PodDir)> {
    let entries = std::fs::read_dir(layout::pods(&options.data_dir))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .map(|uid| (uid.clone(), PodDir::new(&options.data_dir, &uid)))
        .collect()
}

async fn stop_all(node: &Arc<Node>) {
    let stop = |dir: PodDir| async move {
        let asked = dir.clone();
        let stop = move || launch::shut_down(&asked).or_else(|_| launch::kill(&asked));
        let _ = tokio::task::spawn_blocking(stop).await;
        while launch::is_supervised(&dir) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    futures::future::join_all(
        local_pods(&node.options)
            .into_iter()
            .map(|(_, dir)| stop(dir)),
    )
    .await;
}

/// Why a node cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("failed to create {}", path.display())]
    DataDir {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("this machine allows no sandboxes; `astrago doctor` says what is missing")]
    Bridges(#[source] launch::Error),
    #[error("failed to look at the Python environment")]
    HostImage(#[source] image::HostError),
    #[error("failed to open the image store")]
    Images(#[source] image::Error),
    #[error("failed to listen on {address} for the kubelet's endpoints")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("failed to serve the kubelet's endpoints")]
    Endpoints(#[source] server::tls::Error),
    #[error("the node was interrupted while it started")]
    Interrupted,
}

type Result<T, E = Error> = std::result::Result<T, E>;
