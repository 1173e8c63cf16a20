//! The command line, as it is parsed. `--help` is made of the comments here.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::migrate::MigrateArgs;
use crate::commands::preview::PreviewArgs;

/// Distributed training with only training code: on this machine, or on a cluster.
#[derive(Debug, Parser)]
#[command(name = "astrago", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// How to print answers
    #[arg(short, long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the server is and who is asking.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// Address of the REST API; otherwise this machine's `astrago up`
    #[arg(long, global = true, env = "ASTRAGO_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Token for it
    #[arg(long, global = true, env = "ASTRAGO_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Authority (PEM) to trust when its certificate is not of a public one
    #[arg(long, global = true, env = "ASTRAGO_CA_CERT", value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Data folder of this machine's `astrago up`
    #[arg(long, global = true, env = "ASTRAGO_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Namespace of the job; otherwise your own
    #[arg(
        short,
        long,
        global = true,
        env = "ASTRAGO_NAMESPACE",
        value_name = "NAME"
    )]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Wide,
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything on this machine: API server, controllers, node, REST API, web page
    Up(Up),
    /// Start the REST API and the web page against a cluster
    Serve(Serve),
    /// Start the controllers alone, against the API server of --kubeconfig
    Controllers(ControllersAlone),
    /// Start a node alone, against the API server of --kubeconfig
    Node(NodeAlone),
    /// Submit a training script or a folder, follow its logs and wait for its end
    Run(Run),
    /// Write the code that a job runs or ran into a folder
    Code(Code),
    /// List jobs
    Jobs(Jobs),
    /// Show one job in full
    Job(Named),
    /// Show a job's logs
    Logs(Logs),
    /// Show what happened to a job
    Events(Named),
    /// Delete a job, its pods and its code
    Delete(Named),
    /// Hold a job: its pods go, the job stays
    Suspend(Named),
    /// Let a held job go on
    Resume(Named),
    /// Start a job again, as a new job with the same code and settings
    Restart(Named),
    /// List the machines and what runs on them
    Nodes,
    /// List the runtimes
    Runtimes,
    /// Show what a TrainJob becomes, before it runs
    Preview(PreviewArgs),
    /// Write the TrainJob that does the same as a job of the Training Operator v1
    Migrate(MigrateArgs),
    /// Create or change objects from a file of YAML or JSON
    Apply(Apply),
    /// Manage users
    User(User),
    /// Check whether this machine can run pods, and say what is missing
    Doctor,
    /// Print the version of this program and of the server
    Version,
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete in
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

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
    /// Where containers get their files from: this machine's own, or images from registries
    #[arg(long, value_enum, default_value_t = Images::Host, env = "ASTRAGO_IMAGES")]
    pub(crate) images: Images,
    /// Interpreter whose environment containers see with --images host; otherwise python3 on PATH
    #[arg(long, env = "ASTRAGO_PYTHON", value_name = "PATH", value_parser = interpreter)]
    pub(crate) python: Option<PathBuf>,
    /// What the node offers instead of what it finds, such as cpu=8,memory=32Gi,nvidia.com/gpu=2
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
    /// File to which every write of the Kubernetes API is appended: who, what, when, with which answer
    #[arg(long, env = "ASTRAGO_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Run no pods here: a control plane only
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
    /// End the pods too when stopping
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
    /// File with settings: the flags of this command as keys. Flags and variables win over it
    #[arg(long, env = "ASTRAGO_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How many days records and logs of jobs that are gone are kept
    #[arg(
        id = "history_days",
        long = "history-days",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=36500),
        env = "ASTRAGO_HISTORY_DAYS",
        value_name = "DAYS"
    )]
    pub(crate) days: u32,
    /// How large all logs together may become before the oldest go
    #[arg(
        id = "history_size",
        long = "history-size",
        default_value = "20Gi",
        value_parser = size,
        env = "ASTRAGO_HISTORY_SIZE",
        value_name = "AMOUNT"
    )]
    pub(crate) size: u64,
    /// Let webhooks go to this machine and its private networks
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

#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// Whether pods can reach addresses outside of this machine
    #[arg(long, value_enum, default_value_t = Switch::On, env = "ASTRAGO_EGRESS", value_name = "SWITCH")]
    pub(crate) egress: Switch,
    /// A name server for pods, instead of this machine's; may be given several times
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
    /// Cluster to work with; otherwise KUBECONFIG, or the cluster this runs in
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

/// The provider that people sign in with.
#[derive(Debug, Clone, Args)]
pub(crate) struct Oidc {
    /// OpenID Connect provider to sign in with, as it stands in its tokens
    #[arg(id = "oidc_issuer", long = "oidc-issuer", env = "ASTRAGO_OIDC_ISSUER", value_name = "URL",
          requires_all = ["oidc_client_id", "public_url"])]
    pub(crate) issuer: Option<String>,
    /// Our name at the provider
    #[arg(
        id = "oidc_client_id",
        long = "oidc-client-id",
        env = "ASTRAGO_OIDC_CLIENT_ID",
        value_name = "ID"
    )]
    pub(crate) client_id: Option<String>,
    /// File with our secret at the provider, where it gave us one
    #[arg(
        id = "oidc_client_secret_file",
        long = "oidc-client-secret-file",
        env = "ASTRAGO_OIDC_CLIENT_SECRET_FILE",
        value_name = "FILE"
    )]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Claim that becomes the user's name
    #[arg(
        id = "oidc_username_claim",
        long = "oidc-username-claim",
        default_value = "email",
        env = "ASTRAGO_OIDC_USERNAME_CLAIM",
        value_name = "NAME"
    )]
    pub(crate) username_claim: String,
    /// Claim that becomes the user's groups
    #[arg(
        id = "oidc_groups_claim",
        long = "oidc-groups-claim",
        default_value = "groups",
        env = "ASTRAGO_OIDC_GROUPS_CLAIM",
        value_name = "NAME"
    )]
    pub(crate) groups_claim: String,
    /// Put before the names of users and groups
    #[arg(
        id = "oidc_prefix",
        long = "oidc-prefix",
        default_value = "",
        env = "ASTRAGO_OIDC_PREFIX",
        value_name = "TEXT"
    )]
    pub(crate) prefix: String,
    /// Group whose members are administrators
    #[arg(
        id = "oidc_admin_group",
        long = "oidc-admin-group",
        env = "ASTRAGO_OIDC_ADMIN_GROUP",
        value_name = "NAME"
    )]
    pub(crate) admin_group: Option<String>,
    /// Where browsers reach this server
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
    /// Do not ask for the lease that keeps several copies from working at once
    #[arg(long)]
    pub(crate) no_leader_election: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Alone {
    /// API server to work with; otherwise KUBECONFIG, or the cluster this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct NodeAlone {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Name of the Node object; otherwise this machine's host name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Address at which the API server reaches this node's logs
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) kubelet_listen: SocketAddr,
    /// File with the token that the API server presents for that
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_token_file: Option<PathBuf>,
    /// File with the authority that signed the API server's certificate for kubelets. Whoever has one of
    /// its certificates reads logs and runs commands in pods here: it must not sign for users
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_client_ca: Option<PathBuf>,
    /// Host folder that pods may mount (repeatable)
    #[arg(long = "allow-host-path", value_delimiter = ',', value_name = "DIR")]
    pub(crate) host_paths: Vec<PathBuf>,
    /// End the pods too when stopping
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
    /// What the node offers instead of what it finds
    #[arg(long, value_delimiter = ',', value_parser = amount, value_name = "NAME=AMOUNT")]
    pub(crate) capacity: Vec<(String, String)>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The training script, or a folder with it: all its files but those that .gitignore names
    pub(crate) path: PathBuf,
    /// The script of the folder to start; otherwise train.py or main.py
    #[arg(long, value_name = "FILE")]
    pub(crate) entry: Option<String>,
    /// How many nodes train together
    #[arg(long, visible_alias = "nnodes", default_value_t = 1, value_name = "N")]
    pub(crate) nodes: i64,
    /// Start so many processes on each node, with torchrun; otherwise one, with python
    #[arg(long, visible_alias = "nproc", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) nproc_per_node: Option<u16>,
    /// pytorch, tensorflow, horovod, deepspeed, jax, xgboost or mlx; otherwise guessed from the imports
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// A runtime other than the framework's own
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Container image
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// GPUs per node
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<i64>,
    /// Cores per node, such as 4 or 500m
    #[arg(long, value_name = "CORES")]
    pub(crate) cpu: Option<String>,
    /// Memory per node, such as 16Gi
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) memory: Option<String>,
    /// Cores of the launcher, with --framework horovod
    #[arg(long, value_name = "CORES")]
    pub(crate) launcher_cpu: Option<String>,
    /// Memory of the launcher, with --framework horovod
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) launcher_memory: Option<String>,
    /// Environment variable of the script (repeatable)
    #[arg(long = "env", short = 'e', value_parser = pair, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<(String, String)>,
    /// How often the whole job may be restarted
    #[arg(long, value_name = "N")]
    pub(crate) max_restarts: Option<i64>,
    /// Keep a folder over restarts, named to the script as CHECKPOINT_DIR; it goes with the job
    #[arg(long)]
    pub(crate) checkpoint: bool,
    /// Name of the job; otherwise made of user and time
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Submit and return at once
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Arguments of the script
    #[arg(last = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Code {
    /// Name of the job
    pub(crate) name: String,
    /// Folder to write to, which must not exist yet; otherwise one with the job's name
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Jobs {
    /// All namespaces that you may see
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only jobs in this state
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// Name of the job
    pub(crate) name: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Logs {
    /// Name of the job
    pub(crate) name: String,
    /// Go on as lines are written, until the job ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One worker only
    #[arg(long, value_name = "N", conflicts_with = "all")]
    pub(crate) worker: Option<i64>,
    /// All workers, in the order of time (the default)
    #[arg(long)]
    pub(crate) all: bool,
    /// The attempt before this one
    #[arg(long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    /// Only so many lines from the end
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<i64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Apply {
    /// The file; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct User {
    #[command(subcommand)]
    pub(crate) command: UserCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user and print their token
    Add {
        /// Name of the user
        name: String,
        /// May do everything
        #[arg(long)]
        admin: bool,
    },
    /// List the users
    List,
    /// Remove a user's token; their namespace and jobs stay
    Remove {
        /// Name of the user
        name: String,
    },
}

fn size(text: &str) -> Result<u64, String> {
    let amount: astrago_api::quantity::Amount = text
        .parse()
        .map_err(|error: astrago_api::quantity::Error| error.to_string())?;
    u64::try_from(amount.units_up()).map_err(|_| "must not be negative".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} must have the form NAME=VALUE")),
    }
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
