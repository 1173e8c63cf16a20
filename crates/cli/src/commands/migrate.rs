//! `astrago migrate`: the TrainJob that does the same as a job of the Training Operator v1. Needs no server.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use astrago_api::legacy::{JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};
use astrago_plan::legacy::{LegacyKind, TrainingJob};
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;

/// Write the TrainJob that does the same as a job of the Training Operator v1
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateArgs {
    /// File with PyTorchJobs, TFJobs and their like; - reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
}

/// Writes what every job of the file becomes; what is no v1 job stays as it is.
pub(crate) fn run(arguments: &MigrateArgs) -> Result<()> {
    let text = read(&arguments.file)?;
    let documents: Vec<Value> = astrago_plan::yaml::all_from_str(&text)
        .map_err(|error| Failure::theirs(format!("{}: {error}", arguments.file.display())))?;
    let mut objects = Vec::new();
    let mut found = false;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let kind = document["kind"].as_str().unwrap_or_default();
        let is_legacy = document["apiVersion"] == "kubeflow.org/v1";
        let job = match kind {
            _ if !is_legacy => None,
            "PyTorchJob" => Some(parse::<PyTorchJob>(&document)?),
            "TFJob" => Some(parse::<TFJob>(&document)?),
            "MPIJob" => Some(parse::<MPIJob>(&document)?),
            "XGBoostJob" => Some(parse::<XGBoostJob>(&document)?),
            "PaddleJob" => Some(parse::<PaddleJob>(&document)?),
            "MXJob" => Some(parse::<MXJob>(&document)?),
            "JAXJob" => Some(parse::<JAXJob>(&document)?),
            _ => None,
        };
        let Some(job) = job else {
            objects.push(document);
            continue;
        };
        found = true;
        let migration = job
            .migrate()
            .map_err(|error| Failure::theirs(error.to_string()))?;
        for note in &migration.notes {
            output::say(&format!(
                "note: {} {}: {note}\n",
                job.framework.kind, job.name
            ));
        }
        objects.extend(migration.objects);
    }
    if !found {
        let message = format!("{} has no job of kubeflow.org/v1", arguments.file.display());
        return Err(Failure::theirs(message).into());
    }
    let documents: Result<Vec<String>, _> = objects.iter().map(serde_saphyr::to_string).collect();
    output::write(&documents.context("failed to write YAML")?.join("---\n"))
}

fn parse<K: LegacyKind + DeserializeOwned>(document: &Value) -> Result<TrainingJob> {
    let kind = K::framework().kind;
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let job: K = serde_json::from_value(document.clone())
        .map_err(|error| Failure::theirs(format!("{kind} {name}: {error}")))?;
    let job = TrainingJob::of(&job);
    Ok(job.map_err(|errors| Failure::theirs(format!("{kind} {name} is invalid: {errors}")))?)
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::theirs(format!("failed to read {}: {error}", file.display())))?;
    Ok(text)
}
