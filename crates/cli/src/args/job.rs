//! What the commands about jobs and users take, but for `run`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Args)]
pub(crate) struct Init {
    /// The training script, or its folder; by default train.py or main.py here
    pub(crate) path: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Code {
    /// Name of the job
    pub(crate) name: String,
    /// Folder to create; by default one with the job's name
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Jobs {
    /// List the jobs of every namespace that you may see
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only jobs in this state
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only jobs with these labels, such as team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// List at most this many jobs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        allow_negative_numbers = true
    )]
    pub(crate) limit: i64,
    /// Include deleted jobs, for as long as their records are kept
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Print the list again whenever it changes, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Delete {
    /// Names of the jobs
    #[arg(required_unless_present_any = ["all", "selector"], conflicts_with_all = ["all", "selector"])]
    pub(crate) names: Vec<String>,
    /// All jobs of the namespace
    #[arg(long)]
    pub(crate) all: bool,
    /// All jobs with these labels, such as team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// With --all or --selector: only those in this state
    #[arg(long, conflicts_with = "names")]
    pub(crate) state: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// Name of the job
    pub(crate) name: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Metrics {
    /// Name of the job
    pub(crate) name: String,
    /// Only these metrics
    pub(crate) metrics: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Logs {
    /// Name of the job
    pub(crate) name: String,
    /// Keep printing new lines until the job ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only this worker
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "all",
        allow_negative_numbers = true
    )]
    pub(crate) worker: Option<i64>,
    /// All workers together, in order of time (the default)
    #[arg(long)]
    pub(crate) all: bool,
    /// Show the previous attempt instead of the last one
    #[arg(long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    /// Only this many lines from the end
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tail: Option<i64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Shell {
    /// Name of the job
    pub(crate) name: String,
    /// Number of the worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Stacks {
    /// Name of the job
    pub(crate) name: String,
    /// One worker only
    #[arg(long, value_name = "N")]
    pub(crate) worker: Option<u32>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Mcp {
    /// Also offer tools that submit, suspend, resume, restart and delete jobs
    #[arg(long)]
    pub(crate) allow_changes: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Exec {
    /// Name of the job
    pub(crate) name: String,
    /// Number of the worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
    /// Give the program a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// The program and its arguments, after --
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Copy {
    /// A file or folder on this machine, or JOB:PATH
    pub(crate) from: String,
    /// Where to put it: JOB:PATH, or a path on this machine. If that is an existing folder, it is put into it
    pub(crate) to: String,
    /// Number of the worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PortForward {
    /// Name of the job
    pub(crate) name: String,
    /// Ports: PORT for the same one on both sides, or LOCAL:REMOTE; LOCAL 0 picks a free one
    #[arg(required = true, value_parser = ports)]
    pub(crate) ports: Vec<(u16, u16)>,
    /// Number of the worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    match (here.parse(), there.parse()) {
        (Ok(here), Ok(there)) if there > 0 => Ok((here, there)),
        _ => Err("ports are numbers from 1 to 65535, such as 6006 or 8080:6006".to_owned()),
    }
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
        /// Make them an administrator, who may do everything
        #[arg(long)]
        admin: bool,
        /// Give an existing user a new token and revoke the old one
        #[arg(long)]
        rotate: bool,
    },
    /// List the users
    List,
    /// Remove a user's token; their namespace and jobs stay
    Remove {
        /// Name of the user
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Namespace {
    #[command(subcommand)]
    pub(crate) command: NamespaceCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// List the namespaces that you may see
    List,
    /// Create a namespace
    Create {
        /// Its name
        name: String,
    },
    /// Work in this namespace from now on, on this machine and with this server
    Use {
        /// Its name; without it, your own again
        name: Option<String>,
    },
}
