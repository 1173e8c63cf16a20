//! What the commands about jobs and users take.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::pair;

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
