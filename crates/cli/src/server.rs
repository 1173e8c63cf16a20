//! The long-running commands: `up`, `serve`, `controllers`, `node`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use astrago_rest::{Dialect, OidcOptions, Rest};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::args::{Alone, Connection, LogFormat, Logging, NodeAlone, Oidc, Serve, Switch, Up};
use crate::exit::Failure;
use crate::output;
use crate::up::data::DataDir;
use crate::up::{self, chain};

/// `astrago up`.
pub(crate) async fn up(connection: &Connection, arguments: &Up) -> Result<()> {
    log(&arguments.logging)?;
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
    if !arguments.listen.ip().is_loopback() {
        tracing::warn!("listening beyond loopback without TLS; put a TLS proxy before this");
    }
    let client = cluster(arguments.kubeconfig.as_deref()).await?;
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?.join("serve"))?;
    let mut options = astrago_rest::Options::new(client.clone(), data.path().join("history"));
    options.dialect = dialect(&client).await?;
    options.manages_users = false;
    options.oidc = provider(&arguments.oidc)?;
    arguments.history.apply(&mut options);
    let stopped = stop_signal()?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("failed to listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let rest = Rest::start(options, stopped.clone())
        .await
        .context("failed to start the REST API")?;
    output::write(&format!("ready: http://{address}\n"))?;
    axum::serve(listener, rest.router())
        .with_graceful_shutdown(stopped.cancelled_owned())
        .await
        .context("the REST API stopped")?;
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
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            Some(text.trim().to_owned())
        }
        None => None,
    };
    options.username_claim.clone_from(&arguments.username_claim);
    options.groups_claim.clone_from(&arguments.groups_claim);
    options.prefix.clone_from(&arguments.prefix);
    options.admin_group.clone_from(&arguments.admin_group);
    Ok(Some(options))
}

/// `astrago controllers`.
pub(crate) async fn controllers(arguments: &Alone) -> Result<()> {
    log(&arguments.logging)?;
    let client = cluster(arguments.kubeconfig.as_deref()).await?;
    let stopped = stop_signal()?;
    astrago_controllers::run(client, astrago_controllers::Options::embedded(), stopped).await;
    Ok(())
}

/// `astrago node`.
pub(crate) async fn node(connection: &Connection, arguments: &NodeAlone) -> Result<()> {
    log(&arguments.alone.logging)?;
    let client = cluster(arguments.alone.kubeconfig.as_deref()).await?;
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?.join("node-alone"))?;
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
    options.kubelet_token = match &arguments.kubelet_token_file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("failed to read {}", path.display()))?
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
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(anyhow::Error::from)
        }
        None => kube::Config::infer().await.map_err(anyhow::Error::from),
    };
    let config = config.map_err(|error| {
        error.context(
            Failure::theirs("there is no cluster to work with")
                .hint("name a kubeconfig with --kubeconfig FILE or KUBECONFIG"),
        )
    })?;
    Client::try_from(config).context("failed to set up a client for the cluster")
}

/// Which dialect the cluster's TrainJobs speak, from their schema.
async fn dialect(client: &Client) -> Result<Dialect> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = crds
        .get("trainjobs.trainer.kubeflow.org")
        .await
        .map_err(|error| {
            let text = chain(&error);
            anyhow::Error::from(error).context(
                Failure::theirs(format!("this cluster has no TrainJobs: {text}"))
                    .hint("install Kubeflow Trainer, or run `astrago up`"),
            )
        })?;
    let patches = crd.spec.versions.iter().any(|version| {
        let schema = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
        spec.and_then(|spec| spec.properties.as_ref())
            .is_some_and(|spec| spec.contains_key("runtimePatches"))
    });
    Ok(if patches {
        Dialect::RuntimePatches
    } else {
        Dialect::PodTemplateOverrides
    })
}
