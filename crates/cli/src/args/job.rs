//! What the commands about jobs and users take, but for `run`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Args)]
pub(crate) struct Init {
    /// The training script, or its folder; otherwise train.py or main.py here
    pub(crate) path: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long)]
    pub(crate) force: bool,
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
    /// Only jobs with these labels, such as team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// The most jobs to list
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Jobs that are gone, too, as far as their records are kept
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Show it again whenever it changes, until Ctrl-C
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
    /// Do not ask
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
    /// Go on as lines are written, until the job ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One worker only
    #[arg(long, value_name = "N", conflicts_with = "all")]
    pub(crate) worker: Option<i64>,
    /// All workers together, in the order of time; the default
    #[arg(long)]
    pub(crate) all: bool,
    /// The attempt before this one
    #[arg(long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    /// How many lines from the end
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<i64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Shell {
    /// Name of the job
    pub(crate) name: String,
    /// Which worker
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
pub(crate) struct Exec {
    /// Name of the job
    pub(crate) name: String,
    /// Which worker
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
    /// A file or folder of this machine, or JOB:PATH
    pub(crate) from: String,
    /// Where it is to be: JOB:PATH, or a place on this machine. An existing folder takes it in
    pub(crate) to: String,
    /// Which worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PortForward {
    /// Name of the job
    pub(crate) name: String,
    /// Ports, as PORT for the same one here and there, or as HERE:THERE; 0 here picks a free one
    #[arg(required = true, value_parser = ports)]
    pub(crate) ports: Vec<(u16, u16)>,
    /// Which worker
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
        /// May do everything
        #[arg(long)]
        admin: bool,
        /// Give a user that exists a new token, and take the one before it away
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
    /// Make a namespace
    Create {
        /// Its name
        name: String,
    },
    /// Work in this namespace from now on, on this machine and with this server
    Use {
        /// Its name; without one, your own again
        name: Option<String>,
    },
}
