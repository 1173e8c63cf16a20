//! What the long-running commands take: `up`, `serve`, `controllers`, `node`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::run::pair;

#[derive(Debug, Clone, Args)]
pub(crate) struct Up {
    /// Address of the REST API and the web page; port 0 picks a free one
    #[arg(
        long,
        default_value = "127.0.0.1:8000",
        env = "ASTRAGO_LISTEN",
        value_name = "ADDR"
    )]
    pub(crate) listen: SocketAddr,
    /// Address of the Kubernetes API (TLS); port 0 picks a free one
    #[arg(
        long,
        default_value = "127.0.0.1:8443",
        env = "ASTRAGO_KUBE_LISTEN",
        value_name = "ADDR"
    )]
    pub(crate) kube_listen: SocketAddr,
    /// Where containers get their files: from this machine, or from images in registries
    #[arg(long, value_enum, default_value_t = Images::Host, env = "ASTRAGO_IMAGES")]
    pub(crate) images: Images,
    /// Interpreter whose environment containers see with --images host; by default python3 on PATH
    #[arg(long, env = "ASTRAGO_PYTHON", value_name = "PATH", value_parser = interpreter)]
    pub(crate) python: Option<PathBuf>,
    /// What the node offers, instead of what it finds, such as cpu=8,memory=32Gi,nvidia.com/gpu=2
    #[arg(long, value_delimiter = ',', value_parser = amount, env = "ASTRAGO_CAPACITY", value_name = "NAME=AMOUNT")]
    pub(crate) capacity: Vec<(String, String)>,
    /// Host folder that jobs may mount (repeatable)
    #[arg(
        long = "allow-host-path",
        env = "ASTRAGO_ALLOW_HOST_PATH",
        value_delimiter = ',',
        value_name = "DIR"
    )]
    pub(crate) host_paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// Append every write to the Kubernetes API to this file: who, what, when and with what result
    #[arg(long, env = "ASTRAGO_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Run no pods here, only the control plane
    #[arg(long, env = "ASTRAGO_NO_NODE")]
    pub(crate) no_node: bool,
    /// Controllers to run; leave out those that another program brings, such as Kubeflow Trainer
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "train-jobs,job-sets,jobs,legacy-jobs,scheduler,nodes",
        value_name = "NAME"
    )]
    pub(crate) controllers: Vec<Controller>,
    /// Ask for no token: everybody on this machine is the administrator
    #[arg(long, env = "ASTRAGO_NO_AUTH")]
    pub(crate) no_auth: bool,
    /// Also end the pods when stopping
    #[arg(long, env = "ASTRAGO_STOP_PODS")]
    pub(crate) stop_pods: bool,
    #[command(flatten)]
    pub(crate) tls: Tls,
    #[command(flatten)]
    pub(crate) history: History,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Tls {
    /// Certificate chain (PEM) for the REST API and the page; needed beyond loopback
    #[arg(
        long,
        env = "ASTRAGO_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long,
        env = "ASTRAGO_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    pub(crate) tls_key: Option<PathBuf>,
}

/// What is kept and told, on any server.
#[derive(Debug, Clone, Args)]
pub(crate) struct History {
    /// File with settings, whose keys are the flags of this command. Flags and variables take precedence
    #[arg(long, env = "ASTRAGO_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How many days to keep records and logs of deleted jobs
    #[arg(
        id = "history_days",
        long = "history-days",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=36500),
        env = "ASTRAGO_HISTORY_DAYS",
        value_name = "DAYS"
    )]
    pub(crate) days: u32,
    /// How large all logs together may grow before the oldest are deleted
    #[arg(
        id = "history_size",
        long = "history-size",
        default_value = "20Gi",
        value_parser = size,
        env = "ASTRAGO_HISTORY_SIZE",
        value_name = "AMOUNT"
    )]
    pub(crate) size: u64,
    /// Allow webhooks to this machine and to private networks
    #[arg(long, env = "ASTRAGO_ALLOW_PRIVATE_WEBHOOKS")]
    pub(crate) allow_private_webhooks: bool,
    /// Do not limit how many requests a user may send
    #[arg(long, env = "ASTRAGO_NO_RATE_LIMIT")]
    pub(crate) no_rate_limit: bool,
}

impl History {
    /// Puts these settings into those of the REST API.
    pub(crate) fn apply(&self, options: &mut astrago_rest::Options) {
        options.retention = astrago_rest::Retention {
            age: Duration::from_hours(24 * u64::from(self.days)),
            bytes: self.size,
        };
        options.private_webhooks = self.allow_private_webhooks;
        if self.no_rate_limit {
            options.limits = None;
        }
    }
}

/// What pods may take and images may reach.
#[derive(Debug, Clone, Args)]
pub(crate) struct Bounds {
    /// Disk space for a pod that sets no limit itself, such as 50Gi; 0 for no limit [default: half of what is free]
    #[arg(long, value_parser = size, env = "ASTRAGO_POD_DISK", value_name = "SIZE")]
    pub(crate) pod_disk: Option<u64>,
    /// Allow images from registries on this machine and in private networks
    #[arg(long, env = "ASTRAGO_ALLOW_PRIVATE_REGISTRIES")]
    pub(crate) allow_private_registries: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// Whether pods can reach addresses outside of this machine
    #[arg(long, value_enum, default_value_t = Switch::On, env = "ASTRAGO_EGRESS", value_name = "SWITCH")]
    pub(crate) egress: Switch,
    /// Name server for pods, instead of this machine's (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) dns: Vec<Ipv4Addr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Logging {
    /// What the server logs, such as `info` or `astrago_rest=debug`
    #[arg(
        long,
        default_value = "info",
        env = "ASTRAGO_LOG",
        value_name = "FILTER"
    )]
    pub(crate) log: String,
    /// How the server logs
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "ASTRAGO_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Controller {
    /// TrainJob to JobSet: what Kubeflow Trainer does
    TrainJobs,
    /// JobSet to Jobs: what the JobSet controller does
    JobSets,
    /// Job to Pods: what kube-controller-manager does
    Jobs,
    /// `PyTorchJob` and its siblings to Pods: what the Training Operator v1 does
    LegacyJobs,
    /// Pods to nodes: what kube-scheduler does
    Scheduler,
    /// Fails the pods of nodes that are gone: what kube-controller-manager does
    Nodes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Images {
    Host,
    Pull,
}

impl From<Images> for astrago_node::Images {
    fn from(images: Images) -> Self {
        match images {
            Images::Host => Self::Host,
            Images::Pull => Self::Pull,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Address of the REST API and the web page
    #[arg(
        long,
        default_value = "127.0.0.1:8000",
        env = "ASTRAGO_LISTEN",
        value_name = "ADDR"
    )]
    pub(crate) listen: SocketAddr,
    /// Cluster to work with; by default KUBECONFIG, or the cluster this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Ask for no token: everybody on this machine is the administrator
    #[arg(long, env = "ASTRAGO_NO_AUTH")]
    pub(crate) no_auth: bool,
    #[command(flatten)]
    pub(crate) oidc: Oidc,
    #[command(flatten)]
    pub(crate) history: History,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

/// The provider that browsers sign in with.
#[derive(Debug, Clone, Args)]
pub(crate) struct Oidc {
    /// OpenID Connect provider for signing in with a browser: the one whose tokens the cluster's API server accepts
    #[arg(id = "oidc_issuer", long = "oidc-issuer", env = "ASTRAGO_OIDC_ISSUER", value_name = "URL",
          requires_all = ["oidc_client_id", "public_url"])]
    pub(crate) issuer: Option<String>,
    /// Client ID at the provider
    #[arg(
        id = "oidc_client_id",
        long = "oidc-client-id",
        env = "ASTRAGO_OIDC_CLIENT_ID",
        value_name = "ID"
    )]
    pub(crate) client_id: Option<String>,
    /// File with the client secret, if the provider has issued one
    #[arg(
        id = "oidc_client_secret_file",
        long = "oidc-client-secret-file",
        env = "ASTRAGO_OIDC_CLIENT_SECRET_FILE",
        value_name = "FILE"
    )]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Address at which browsers reach this server
    #[arg(long, env = "ASTRAGO_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ControllersAlone {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Controllers to run; leave out those that the cluster already has
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "train-jobs,job-sets",
        value_name = "NAME"
    )]
    pub(crate) controllers: Vec<Controller>,
    /// Do not take the lease that keeps several copies from working at once
    #[arg(long)]
    pub(crate) no_leader_election: bool,
    /// Address for /healthz, /readyz and /metrics, without TLS or tokens; there is none by default
    #[arg(long, env = "ASTRAGO_HEALTH_LISTEN", value_name = "ADDR")]
    pub(crate) health_listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Alone {
    /// API server to work with; by default KUBECONFIG, or the cluster this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct NodeAlone {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Name of the Node object; by default this machine's host name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Address at which the API server reaches this node's logs
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) kubelet_listen: SocketAddr,
    /// File with the token that the API server presents for that
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_token_file: Option<PathBuf>,
    /// File with the CA that signed the certificate by which the API server shows itself to kubelets. Whoever has a
    /// certificate of this CA can read logs and run commands in pods here, so it must not sign for users
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_client_ca: Option<PathBuf>,
    /// Host folder that pods may mount (repeatable)
    #[arg(long = "allow-host-path", value_delimiter = ',', value_name = "DIR")]
    pub(crate) host_paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// Also end the pods when stopping
    #[arg(long)]
    pub(crate) stop_pods: bool,
    /// Where containers get their files from
    #[arg(long, value_enum, default_value_t = Images::Host)]
    pub(crate) images: Images,
    /// Interpreter whose environment containers see with --images host
    #[arg(long, value_name = "PATH", value_parser = interpreter)]
    pub(crate) python: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) network: Network,
    /// What the node offers, instead of what it finds
    #[arg(long, value_delimiter = ',', value_parser = amount, value_name = "NAME=AMOUNT")]
    pub(crate) capacity: Vec<(String, String)>,
}

fn size(text: &str) -> Result<u64, String> {
    let amount: astrago_api::quantity::Amount = text
        .parse()
        .map_err(|error: astrago_api::quantity::Error| error.to_string())?;
    u64::try_from(amount.units_up()).map_err(|_| "must not be negative".to_owned())
}

/// A resource and how much of it, such as `memory=32Gi`.
fn amount(text: &str) -> Result<(String, String), String> {
    let (name, amount) = pair(text)?;
    amount
        .parse::<astrago_api::quantity::Amount>()
        .map_err(|error| format!("{name}: {error}"))?;
    Ok((name, amount))
}

fn interpreter(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() {
        Ok(path)
    } else {
        Err("there is no Python interpreter".to_owned())
    }
}
