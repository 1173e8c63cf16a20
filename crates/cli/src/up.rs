//! `astrago up`: everything on this machine, in one process.
//!
//! # Flow
//!
//! Start: data folder, API server, then kinds and runtimes beside the node, then controllers and REST API. Each
//! part only needs those before it. Stop is the other way round: the REST API finishes what it has
//! begun, controllers and node stop, and the store is closed last, so that nothing that was
//! acknowledged is lost. Pods are processes of their own supervisors and go on.

pub(crate) mod data;
mod install;
mod stand_ins;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_apiserver::{ExtraGroup, Identity, Server};
use astrago_mirror::Mirrors;
use astrago_node::metrics::{self, Collector};
use astrago_node::relay;
use astrago_rest::{Authentication, Cluster, Policy, Rest};
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::data::{DataDir, Endpoints};
use crate::args::{Controller, Switch, Up};
use crate::exit::Failure;
use crate::tls;

/// How long each part has to stop in good order before it is left behind.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// So much of the disk is held back, twice, so that it can be tidied when it is full.
const RESERVE: u64 = 16 << 20;

pub(crate) struct Running {
    pub(crate) endpoints: Endpoints,
    pub(crate) admin_token: String,
    data: DataDir,
    server: Server,
    rest: Rest,
    stop: Stages,
    tasks: TaskTracker,
}

/// One token per stage of stopping, in the order in which they are cancelled.
struct Stages {
    requests: CancellationToken,
    workers: CancellationToken,
}

/// Starts everything and returns when it serves.
pub(crate) async fn start(arguments: &Up, data: DataDir) -> Result<Running> {
    let tls = tls::config(&arguments.tls)?;
    check(arguments, tls.is_some())?;
    data.stay_out_of(&arguments.host_paths)?;
    let rest_listener = bind(arguments.listen, "--listen").await?;
    let kube_listener = bind(arguments.kube_listen, "--kube-listen").await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let endpoints = Endpoints {
        rest: url(scheme, rest_listener.local_addr()?),
        kube: url("https", kube_listener.local_addr()?),
    };
    let admin_token = data.secret("admin.token")?;
    let kubelet_token = data.secret("kubelet.token")?;

    let reports_listener = bind((Ipv4Addr::LOCALHOST, 0).into(), "--listen").await?;
    let mut node =
        (!arguments.no_node).then(|| node_options(arguments, &data, kubelet_token.clone()));
    if let Some(node) = &mut node {
        node.status_relay = Some(relay::Target::Tcp(reports_listener.local_addr()?));
    }
    let mut options = api_options(arguments, &data, node.as_ref());
    options.admin_tokens = vec![admin_token.clone()];
    options.kubelet_token = kubelet_token;
    let server = Server::open(options)
        .await
        .context("failed to start the API server")?;
    let kubeconfig = server.kubeconfig(&endpoints.kube, "admin", &admin_token, "default");
    data.write_if_possible("kubeconfig", kubeconfig.as_bytes());

    let client = Client::new(server.local(Identity::component("astrago")), "default");
    let runs_train_jobs = arguments.controllers.contains(&Controller::TrainJobs);
    let stop = Stages {
        requests: CancellationToken::new(),
        workers: CancellationToken::new(),
    };
    let tasks = TaskTracker::new();
    let named = node.as_ref().map(|options| options.node_name.clone());
    // One waits for the disk most of the time, the other for processes, and neither for the other.
    let install = install::install(&client, runs_train_jobs);
    let start_node = async {
        match node {
            Some(options) => {
                let stop = stop.workers.clone();
                Ok(start_node(&server, options, &tasks, stop).await?)
            }
            None => Ok(()),
        }
    };
    tokio::try_join!(install, start_node)?;
    let plan = plan_options(&server);
    // The process holds each object once: the controllers and the REST API read the same copies.
    let mirrors = Mirrors::default();
    let mut options = crate::server::controller_options(&arguments.controllers);
    options.plan = plan.clone();
    options.mirrors = Some(mirrors.clone());
    let controllers = Client::new(server.local(Identity::component("controllers")), "default");
    let run = astrago_controllers::run(controllers, options, stop.workers.clone());
    tasks.spawn(run);
    if let Some(name) = named.filter(|_| runs_train_jobs) {
        tasks.spawn(stand_ins::keep(client.clone(), name, stop.workers.clone()));
    }
    // Only now, so that whoever finds it ready finds the node.
    let workers = stop.workers.clone();
    tasks.spawn(serve_kubernetes(server.clone(), kube_listener, workers));

    let mut cluster = Cluster::detect(&client)
        .await
        .context("failed to ask our own API server what it serves")?;
    // Where somebody else runs the jobs, what they lack is done by the REST API.
    cluster.extended = runs_train_jobs;
    let mut options = rest_options(arguments, client, &data);
    options.cluster = cluster;
    options.plan = plan;
    options.mirrors = mirrors;
    let rest = Rest::start(options, stop.workers.clone())
        .await
        .context("failed to start the REST API")?;
    let workers = stop.workers.clone();
    let reports = serve_reports(server.clone(), &rest, reports_listener, workers);
    tasks.spawn(reports);
    let router = rest.router();
    tasks.spawn(astrago_net::serve(
        rest_listener,
        tls,
        move |_| router.clone(),
        stop.requests.clone(),
    ));
    data.write_if_possible(Endpoints::FILE, &serde_json::to_vec(&endpoints)?);
    Ok(Running {
        endpoints,
        admin_token,
        data,
        server,
        rest,
        stop,
        tasks,
    })
}

async fn serve_kubernetes(server: Server, listener: TcpListener, stop: CancellationToken) {
    if let Err(error) = server.serve(listener, stop).await {
        tracing::error!(error = %astrago_net::chain(&error), "the Kubernetes API stopped");
    }
}

/// Takes reports of progress from pods, until it is told to stop.
fn serve_reports(
    server: Server,
    rest: &Rest,
    listener: TcpListener,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let reports = rest.reports();
    let names = [
        relay::HOST.to_owned(),
        format!("{}.cluster.local", relay::HOST),
    ];
    async move {
        if let Err(error) = server.serve_beside(reports, &names, listener, stop).await {
            tracing::error!(error = %astrago_net::chain(&error), "reports of progress are no longer taken");
        }
    }
}

/// Starts the node, and returns when it is registered and answers.
async fn start_node(
    server: &Server,
    options: astrago_node::Options,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let client = Client::new(server.local(Identity::component("node")), "default");
    let registered = Arc::clone(&options.registered);
    let mut running = astrago_node::run(client, options, stop);
    let early = tokio::select! {
        () = registered.notified() => None,
        ended = &mut running => Some(ended),
    };
    let complain = |error: &astrago_node::Error| {
        tracing::error!(error = %astrago_net::chain(error), "the node stopped; no pods run here");
    };
    match early {
        // Of use all the same: for looking at jobs, and for nodes elsewhere.
        Some(Err(error @ astrago_node::Error::Bridges(_))) => complain(&error),
        Some(Err(error)) => {
            let problem = format!("the node cannot start: {}", astrago_net::chain(&error));
            return Err(Failure::theirs(problem).hint("--no-node starts everything but the node"));
        }
        Some(Ok(())) => {}
        None => drop(tasks.spawn(async move {
            if let Err(error) = running.await {
                complain(&error);
            }
        })),
    }
    Ok(())
}

impl Running {
    /// Stops everything in order. Pods go on, unless `--stop-pods` was given to the node.
    pub(crate) async fn stop(self) {
        self.data.remove(Endpoints::FILE);
        self.stop.requests.cancel();
        // Streams never end by themselves, so the workers are told at once too.
        self.stop.workers.cancel();
        self.tasks.close();
        let orderly = async {
            self.tasks.wait().await;
            self.rest.stopped().await;
        };
        if tokio::time::timeout(STOP_TIMEOUT, orderly).await.is_err() {
            tracing::warn!("some tasks did not stop in time and are left behind");
        }
        self.server.close().await;
    }
}

/// Where the REST API keeps what remains of jobs.
fn history(data: &DataDir) -> PathBuf {
    data.path().join("history")
}

/// Pods report their progress through the relay of their node.
fn plan_options(server: &Server) -> astrago_plan::Options {
    astrago_plan::Options {
        status_server: Some(astrago_plan::StatusServer {
            url: format!("https://{}:{}", relay::HOST, relay::PORT),
            ca: server.ca_pem().to_owned(),
        }),
    }
}

fn api_options(
    arguments: &Up,
    data: &DataDir,
    node: Option<&astrago_node::Options>,
) -> astrago_apiserver::Options {
    let mut options = astrago_apiserver::Options::new(data.path().join("apiserver"));
    options.reserve = RESERVE;
    options.audit_log.clone_from(&arguments.audit_log);
    if !arguments.kube_listen.ip().is_loopback() {
        let host = arguments.kube_listen.ip().to_string();
        options.host_names.push(host);
    }
    if let Some(collector) = node.and_then(|node| node.collector.clone()) {
        options.extra_groups.push(ExtraGroup {
            group: metrics::GROUP.to_owned(),
            version: metrics::VERSION.to_owned(),
            resources: metrics::resources(),
            router: metrics::router(collector),
        });
    }
    options
}

fn rest_options(arguments: &Up, client: Client, data: &DataDir) -> astrago_rest::Options {
    let mut options = astrago_rest::Options::new(client, history(data));
    // Without a node of its own this is a control plane for others', which do not see this disk.
    options.mounts_snapshots = !arguments.no_node;
    if arguments.no_auth {
        options.authentication = Authentication::Off;
    }
    arguments.history.apply(&mut options);
    options.secure = arguments.tls.tls_cert.is_some();
    options.policy = Policy {
        host_paths: arguments
            .host_paths
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        ..Policy::default()
    };
    options
}

fn node_options(arguments: &Up, data: &DataDir, kubelet_token: String) -> astrago_node::Options {
    let mut options = astrago_node::Options::new(data.path().join("node"));
    options.images = arguments.images.into();
    options.python.clone_from(&arguments.python);
    options.capacity = arguments
        .capacity
        .iter()
        .cloned()
        .collect::<BTreeMap<_, _>>();
    options.kubelet_token = kubelet_token;
    options.host_paths.clone_from(&arguments.host_paths);
    options.pod_storage = arguments.bounds.pod_disk;
    options.private_registries = arguments.bounds.allow_private_registries;
    options.snapshots = Some(astrago_rest::snapshots_folder(&history(data)));
    options.stop_pods = arguments.stop_pods;
    options.egress = arguments.network.egress == Switch::On;
    options.resolvers.clone_from(&arguments.network.dns);
    options.collector = Some(Collector::new(&options.data_dir, &options.node_name));
    options
}

/// Refuses what would be unsafe.
fn check(arguments: &Up, is_encrypted: bool) -> Result<(), Failure> {
    let outside = !arguments.listen.ip().is_loopback();
    if arguments.no_auth && outside {
        return Err(open_to_everybody(arguments.listen));
    }
    if outside && !is_encrypted {
        return Err(Failure::theirs(format!(
            "{} can be reached from other machines, and tokens would travel in the clear",
            arguments.listen
        ))
        .hint("give a certificate with --tls-cert and --tls-key, or listen on 127.0.0.1 and put a TLS proxy in front of it"));
    }
    Ok(())
}

/// Why --no-auth goes with loopback only.
pub(crate) fn open_to_everybody(listen: SocketAddr) -> Failure {
    Failure::theirs(format!(
        "--no-auth makes everybody the administrator, and {listen} can be reached from other machines"
    ))
    .hint("listen on 127.0.0.1, or leave out --no-auth")
}

pub(crate) async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::theirs(format!("failed to listen on {address}")).hint(format!(
            "choose another address with {flag}; port 0 picks a free one"
        ));
        anyhow::Error::from(error).context(failure)
    })
}

/// The address under which clients on this machine reach a listener.
fn url(scheme: &str, mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("{scheme}://{address}")
}
