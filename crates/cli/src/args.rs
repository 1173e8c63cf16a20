//! The command line, as it is parsed. `--help` is made of the comments here.

mod job;
mod run;
mod server;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use job::{
    Apply, Code, Copy, Delete, Exec, Init, Jobs, Logs, Mcp, Metrics, Named, Namespace,
    NamespaceCommand, PortForward, Shell, Stacks, User, UserCommand,
};
pub(crate) use run::Run;
pub(crate) use server::{
    Controller, ControllersAlone, LogFormat, Logging, NodeAlone, Oidc, Serve, Switch, Tls, Up,
};

use crate::commands::backup::{Backup, Restore};
use crate::commands::migrate::MigrateArgs;
use crate::commands::preview::PreviewArgs;

/// The heading of what every command takes, apart from a command's own.
const GLOBAL: &str = "Global options";

const FIRST_STEPS: &str = "\
First steps:
  astrago doctor            what this machine can do, and what it lacks
  astrago up                start everything here, with a web page
  astrago run train.py      train, in another terminal; --nodes 2 for two nodes
  astrago jobs              what runs, waits and ran";

/// Distributed training from nothing but your training code, on this machine or on a cluster.
#[derive(Debug, Parser)]
#[command(
    name = "astrago",
    version,
    about,
    max_term_width = 100,
    after_help = FIRST_STEPS
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Output format
    #[arg(short, long, global = true, value_enum, help_heading = GLOBAL)]
    pub(crate) output: Option<Format>,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, help_heading = GLOBAL)]
    pub(crate) color: Colour,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the server is and who is asking.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = GLOBAL)]
pub(crate) struct Connection {
    /// Address of the REST API; otherwise this machine's `astrago up`
    #[arg(long, global = true, env = "ASTRAGO_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Token to sign in with
    #[arg(long, global = true, env = "ASTRAGO_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// CA certificate (PEM) to trust, for a server whose certificate no public CA has signed
    #[arg(long, global = true, env = "ASTRAGO_CA_CERT", value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Data folder of this machine's `astrago up`
    #[arg(long, global = true, env = "ASTRAGO_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Namespace to work in; otherwise the one chosen with `astrago namespace use`, or your own
    #[arg(
        short,
        long,
        global = true,
        env = "ASTRAGO_NAMESPACE",
        value_name = "NAME"
    )]
    pub(crate) namespace: Option<String>,
    /// How many seconds to wait for the server's answer
    #[arg(
        long,
        global = true,
        env = "ASTRAGO_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(crate) timeout: u64,
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
    /// Submit a training script or a folder, follow its logs and wait until it ends
    Run(Run),
    /// Write an astrago.yaml beside a training script: `astrago run` then needs no flags
    Init(Init),
    /// Save the code of a job to a folder
    Code(Code),
    /// List jobs
    Jobs(Jobs),
    /// Show one job in full
    Job(Named),
    /// Show a job's logs
    Logs(Logs),
    /// Draw a job's metrics
    Metrics(Metrics),
    /// Show what happened to a job
    Events(Named),
    /// Open a shell in a worker's container
    Shell(Shell),
    /// Run a program in a worker's container, and exit with its exit code
    Exec(Exec),
    /// Copy files and folders into a worker's container, or out of it
    #[command(name = "cp")]
    Copy(Copy),
    /// Forward ports of this machine to a worker, until Ctrl-C
    PortForward(PortForward),
    /// Show what each process of a job is doing, with its Python stack
    Stacks(Stacks),
    /// Delete jobs, their pods and their code
    Delete(Delete),
    /// Suspend a job: its pods end, the job stays
    Suspend(Named),
    /// Resume a suspended job
    Resume(Named),
    /// Start a job again, as a new job with the same code and settings
    Restart(Named),
    /// List, create or choose namespaces
    Namespace(Namespace),
    /// List the machines and what runs on them
    Nodes,
    /// List the runtimes
    Runtimes,
    /// Show what a TrainJob becomes, before it runs
    Preview(PreviewArgs),
    /// Convert jobs of the Training Operator v1 to TrainJobs
    Migrate(MigrateArgs),
    /// Create or change objects from a file of YAML or JSON
    Apply(Apply),
    /// Manage users
    User(User),
    /// Save everything that `astrago up` keeps to one file, even while it runs
    Backup(Backup),
    /// Restore a data folder from a file that `astrago backup` wrote
    Restore(Restore),
    /// Check whether this machine can run pods and whether the data is intact
    Doctor,
    /// Serve jobs to agents: an MCP server on standard input and output
    Mcp(Mcp),
    /// Print the version of this program and of the server
    Version,
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete in
        shell: clap_complete::Shell,
    },
    /// Print the names of jobs, for completion
    #[command(hide = true)]
    JobNames,
    /// Print the manual page
    #[command(hide = true)]
    Man,
}
