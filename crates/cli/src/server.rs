//! The long-running commands: `up`, `serve`, `controllers`, `node`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_controllers::Election;
use astrago_rest::{Authentication, Cluster, DetectError, OidcOptions, Rest};
use kube::Client;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::args::{
    Connection, Controller, ControllersAlone, LogFormat, Logging, NodeAlone, Oidc, Serve, Switch,
    Up,
};
use crate::exit::Failure;
use crate::output;
use crate::up;
use crate::up::data::{DataDir, random_secret};

/// `astrago up`.
pub(crate) async fn up(connection: &Connection, arguments: &Up) -> Result<()> {
    log(&arguments.logging)?;
    astrago_net::take_descriptors();
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?)?;
    let folder = data.path().to_owned();
    // Signals that come while starting stop it as well.
    let stopped = stop_signal()?;
    let running = tokio::select! {
        running = up::start(arguments, data) => running?,
        () = stopped.cancelled() => return Ok(()),
    };
    let (page, kube) = (&running.endpoints.rest, &running.endpoints.kube);
    output::write(&format!(
        "ready: {page} (Kubernetes API {kube}, data in {})\n",
        folder.display()
    ))?;
    stopped.cancelled().await;
    tracing::info!("stopping; running pods go on unless --stop-pods was given");
    running.stop().await;
    Ok(())
}

/// `astrago serve`.
pub(crate) async fn serve(connection: &Connection, arguments: &Serve) -> Result<()> {
    log(&arguments.logging)?;
    astrago_net::take_descriptors();
    if !arguments.listen.ip().is_loopback() {
        if arguments.no_auth {
            return Err(up::open_to_everybody(arguments.listen).into());
        }
        tracing::warn!("listening beyond loopback without TLS; put a TLS proxy in front of this");
    }
    let config = cluster_config(arguments.kubeconfig.as_deref()).await?;
    let client =
        Client::try_from(config.clone()).context("failed to set up a client for the cluster")?;
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?.join("serve"))?;
    let mut options = astrago_rest::Options::new(client.clone(), data.path().join("history"));
    options.cluster = detect(&client).await?;
    options.manages_users = false;
    options.oidc = provider(&arguments.oidc)?;
    arguments.history.apply(&mut options);
    options.bearer_client = Some(without_credentials(config)?);
    if arguments.no_auth {
        options.authentication = Authentication::Off;
    }
    let stopped = stop_signal()?;
    let listener = up::bind(arguments.listen, "--listen").await?;
    let address = listener.local_addr()?;
    let rest = Rest::start(options, stopped.clone())
        .await
        .context("failed to start the REST API")?;
    output::write(&format!("ready: http://{address}\n"))?;
    let router = rest.router();
    astrago_net::serve(listener, None, move |_| router.clone(), stopped).await;
    Ok(())
}

/// The provider that the flags describe.
fn provider(arguments: &Oidc) -> Result<Option<OidcOptions>> {
    let (Some(issuer), Some(client), Some(url)) = (
        &arguments.issuer,
        &arguments.client_id,
        &arguments.public_url,
    ) else {
        return Ok(None);
    };
    let mut options = OidcOptions::new(issuer, client, url);
    options.client_secret = match &arguments.client_secret_file {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| Failure::unreadable(path))?;
            Some(text.trim().to_owned())
        }
        None => None,
    };
    Ok(Some(options))
}

/// `astrago controllers`.
pub(crate) async fn controllers(arguments: &ControllersAlone) -> Result<()> {
    log(&arguments.alone.logging)?;
    let client = cluster(arguments.alone.kubeconfig.as_deref()).await?;
    let mut options = controller_options(&arguments.controllers);
    if !arguments.no_leader_election {
        options.election = Some(Election {
            // In a cluster that is the namespace of our own pod.
            namespace: client.default_namespace().to_owned(),
            name: "astrago-controllers".to_owned(),
            identity: identity()?,
            duration: LEASE_DURATION,
        });
    }
    let stopped = stop_signal()?;
    if let Some(address) = arguments.health_listen {
        let listener = up::bind(address, "--health-listen").await?;
        output::write(&format!("ready: http://{}\n", listener.local_addr()?))?;
        let router = crate::health::router(client.clone(), Arc::clone(&options.metrics));
        let serving = astrago_net::serve(listener, None, move |_| router.clone(), stopped.clone());
        tokio::spawn(serving);
    }
    astrago_controllers::run(client, options, stopped).await;
    Ok(())
}

/// So long after its last sign of life a copy of the controllers is taken for dead.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A name for this process that no other has: the machine or pod, and something random.
fn identity() -> Result<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = random_secret()?;
    Ok(format!("{}_{}", host.trim(), &random[..8]))
}

/// The chosen controllers, and no others.
pub(crate) fn controller_options(chosen: &[Controller]) -> astrago_controllers::Options {
    let has = |controller| chosen.contains(&controller);
    astrago_controllers::Options {
        train_jobs: has(Controller::TrainJobs),
        job_sets: has(Controller::JobSets),
        jobs: has(Controller::Jobs),
        legacy_jobs: has(Controller::LegacyJobs),
        scheduler: has(Controller::Scheduler),
        nodes: has(Controller::Nodes),
        ..astrago_controllers::Options::embedded()
    }
}

/// `astrago node`.
pub(crate) async fn node(connection: &Connection, arguments: &NodeAlone) -> Result<()> {
    log(&arguments.alone.logging)?;
    let client = cluster(arguments.alone.kubeconfig.as_deref()).await?;
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?.join("node-alone"))?;
    data.stay_out_of(&arguments.host_paths)?;
    let mut options = astrago_node::Options::new(data.path());
    if let Some(name) = &arguments.name {
        options.node_name.clone_from(name);
    }
    options.images = arguments.images.into();
    options.python.clone_from(&arguments.python);
    options.capacity = arguments
        .capacity
        .iter()
        .cloned()
        .collect::<BTreeMap<_, _>>();
    options.kubelet_listen = arguments.kubelet_listen;
    options.egress = arguments.network.egress == Switch::On;
    options.resolvers.clone_from(&arguments.network.dns);
    options
        .kubelet_client_ca
        .clone_from(&arguments.kubelet_client_ca);
    options.host_paths.clone_from(&arguments.host_paths);
    options.pod_storage = arguments.bounds.pod_disk;
    options.private_registries = arguments.bounds.allow_private_registries;
    options.stop_pods = arguments.stop_pods;
    options.kubelet_token = match &arguments.kubelet_token_file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| Failure::unreadable(path))?
            .trim()
            .to_owned(),
        None => data.secret("kubelet.token")?,
    };
    let stopped = stop_signal()?;
    astrago_node::run(client, options, stopped)
        .await
        .context("the node stopped")?;
    Ok(())
}

/// Sets up logging on stderr, so that stdout has only the ready line.
fn log(logging: &Logging) -> Result<()> {
    let filter = EnvFilter::try_new(&logging.log)
        .map_err(|error| Failure::theirs(format!("--log {}: {error}", logging.log)))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It would tell of a log that cannot be written on stderr, and panic where that is the log.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let installed = match logging.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    installed
        .map_err(|error| anyhow::anyhow!(error))
        .context("failed to set up logging")
}

/// Cancelled at the first SIGTERM or Ctrl-C; the second one ends the process at once.
fn stop_signal() -> Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let stop = token.clone();
    tokio::spawn(async move {
        for turn in 0.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if turn > 0 {
                #[expect(clippy::exit, reason = "the user insists")]
                std::process::exit(130);
            }
            stop.cancel();
        }
    });
    Ok(token)
}

/// A client for the cluster of a kubeconfig, of KUBECONFIG, or the one this runs in.
async fn cluster(kubeconfig: Option<&Path>) -> Result<Client> {
    Client::try_from(cluster_config(kubeconfig).await?)
        .context("failed to set up a client for the cluster")
}

async fn cluster_config(kubeconfig: Option<&Path>) -> Result<kube::Config> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).with_context(|| Failure::unreadable(path))?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(anyhow::Error::from)
        }
        None => kube::Config::infer().await.map_err(anyhow::Error::from),
    };
    config.map_err(|error| {
        error.context(
            Failure::theirs("there is no cluster to work with")
                .hint("name a kubeconfig with --kubeconfig FILE or KUBECONFIG"),
        )
    })
}

/// A client for the same cluster that brings no credentials of its own.
fn without_credentials(mut config: kube::Config) -> Result<Client> {
    config.auth_info = AuthInfo::default();
    Client::try_from(config).context("failed to set up a client for the cluster")
}

/// What the cluster is, or why nothing can be done with it.
async fn detect(client: &Client) -> Result<Cluster> {
    Cluster::detect(client).await.map_err(|error| {
        let failure = match &error {
            DetectError::Ask(_) => Failure::ours("the cluster cannot be reached"),
            DetectError::NoTrainer => Failure::theirs("this cluster has no TrainJobs").hint(
                "install Kubeflow Trainer, or let `astrago controllers` do its work: kubectl apply --server-side -k deploy/kustomize/overlays/standalone",
            ),
        };
        anyhow::Error::from(error).context(failure)
    })
}
