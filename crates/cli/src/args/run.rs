//! What `astrago run` takes, and so what `astrago.yaml` may say.
//!
//! xtask reads this file, too, and makes the schema for editors of it: it needs nothing else of this crate.

use std::path::PathBuf;

use astrago_rest::model::{EnvVar, VolumeRequest};
use clap::Args;

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The training script, or a folder that contains it: all its files are sent, except those that .gitignore names.
    /// By default this folder. Flags that are not given are taken from the folder's astrago.yaml
    pub(crate) path: Option<PathBuf>,
    /// Run the code of a git repository, at a branch, tag or commit; PATH is then a path within it
    #[arg(long, value_name = "URL[@REF]")]
    pub(crate) git: Option<String>,
    /// Which script of the folder to start; by default train.py or main.py
    #[arg(long, value_name = "FILE")]
    pub(crate) entry: Option<String>,
    /// How many nodes train together
    #[arg(
        long,
        visible_alias = "nnodes",
        default_value_t = 1,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub(crate) nodes: i64,
    /// How many processes torchrun starts on each node; by default python starts one
    #[arg(long, visible_alias = "nproc", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) nproc_per_node: Option<u16>,
    /// pytorch, tensorflow, horovod or another that `astrago runtimes` shows; by default guessed from the imports
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// A runtime other than the framework's own
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Container image
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// GPUs per node
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) gpus: Option<i64>,
    /// Cores per node, such as 4 or 500m
    #[arg(long, value_name = "CORES")]
    pub(crate) cpu: Option<String>,
    /// Memory per node, such as 16Gi
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) memory: Option<String>,
    /// Cores of the launcher, where there is one that does not train (horovod)
    #[arg(long, value_name = "CORES")]
    pub(crate) launcher_cpu: Option<String>,
    /// Memory of that launcher
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) launcher_memory: Option<String>,
    /// Environment variable for the script (repeatable)
    #[arg(long = "env", short = 'e', value_parser = variable, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<EnvVar>,
    /// How often the whole job may be restarted
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_restarts: Option<i64>,
    /// Restart after every failure, or only after those that another attempt may cure: not after a missing module
    #[arg(long, value_name = "WHICH", value_parser = ["transient", "all"])]
    pub(crate) retry: Option<String>,
    /// Give the script a folder that survives restarts, in CHECKPOINT_DIR; it is deleted with the job
    #[arg(long)]
    pub(crate) checkpoint: bool,
    /// Fail the job after this time, such as 90m, 12h or a number of seconds
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    pub(crate) deadline: Option<i64>,
    /// Higher goes first in the queue
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Mount a volume claim of the namespace (repeatable)
    #[arg(long = "volume", alias = "volumes", value_parser = volume, value_name = "CLAIM:PATH[:ro]")]
    pub(crate) volumes: Vec<VolumeRequest>,
    /// Any other field of POST /api/trainjob/create (repeatable)
    #[arg(long = "set", value_parser = pair, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<(String, String)>,
    /// Name of the job; by default your name and the time
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Create the namespace if it does not exist
    #[arg(long)]
    pub(crate) create_namespace: bool,
    /// Submit and return at once
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Arguments for the script
    #[arg(last = true)]
    pub(crate) arguments: Vec<String>,
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} must have the form NAME=VALUE")),
    }
}

fn variable(text: &str) -> Result<EnvVar, String> {
    let (name, value) = pair(text)?;
    Ok(EnvVar { name, value })
}

/// A volume claim and where it appears.
fn volume(text: &str) -> Result<VolumeRequest, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (claim, path, read_only) = match parts[..] {
        [claim, path] | [claim, path, "rw"] => (claim, path, false),
        [claim, path, "ro"] => (claim, path, true),
        _ => ("", "", false),
    };
    if claim.is_empty() || !path.starts_with('/') {
        return Err("must have the form CLAIM:/PATH or CLAIM:/PATH:ro".to_owned());
    }
    Ok(VolumeRequest {
        pvc: Some(claim.to_owned()),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeRequest::default()
    })
}

/// A time as people write it, in seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} must be a time such as 90m, 12h or 3600");
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Some(span.as_secs())
        .filter(|seconds| *seconds > 0)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_volumes_are_read_as_people_write_them() {
        assert_eq!(seconds("90m"), Ok(5_400));
        assert_eq!(seconds("1h 30m"), Ok(5_400));
        assert_eq!(seconds("3600"), Ok(3_600));
        assert!(seconds("soon").is_err());
        let read = |text: &str| volume(text).map(|it| (it.pvc, it.mount_path, it.read_only));
        let want = |read_only| Ok((Some("data".to_owned()), "/data".to_owned(), read_only));
        assert_eq!(read("data:/data"), want(false));
        assert_eq!(read("data:/data:ro"), want(true));
        for wrong in ["data", "data:relative", ":/data", "data:/data:xx"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
