//! `astrago preview`: what a TrainJob becomes, before it runs. Needs no server.

mod input;
mod output;

use std::io::Write;
use std::path::PathBuf;

use astrago_plan::{Options, Runtime, built_in_runtime, built_in_runtimes, preview};
use clap::Args;

use input::{Document, Documents};

use crate::args::Format;
use crate::exit::Failure;

/// Show what a TrainJob, its runtime and its overrides become, before it runs
#[derive(Args, Clone, Debug)]
pub(crate) struct PreviewArgs {
    /// File with the TrainJob, and with its runtime if that is not built in; - reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,

    /// File with the runtime, in place of the built-in one of that name
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,

    /// Say of every field of the pods where it came from
    #[arg(long)]
    origin: bool,
}

/// Form of the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Yaml,
    Json,
    Table,
}

impl From<Option<Format>> for Form {
    /// YAML unless something else was asked for: it is what people compare.
    fn from(format: Option<Format>) -> Self {
        match format {
            None | Some(Format::Yaml) => Self::Yaml,
            Some(Format::Json) => Self::Json,
            Some(Format::Table | Format::Wide) => Self::Table,
        }
    }
}

/// Reads the files, plans the jobs, writes the answer. Warnings go to `err`, so that what reads the answer gets nothing
/// else.
pub(crate) fn run(
    args: &PreviewArgs,
    form: Form,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    let mut documents = Documents::read(&args.file)?;
    if let Some(file) = &args.runtime {
        documents.add(file)?;
    }
    let jobs = documents.train_jobs()?;
    if jobs.is_empty() {
        return Err(Error::NoTrainJob {
            file: args.file.clone(),
        });
    }
    let mut previews = Vec::new();
    for (document, job) in &jobs {
        let reference = &job.spec.runtime_ref;
        let from_file = documents.runtime(&reference.name, reference.kind())?;
        let runtime = match &from_file {
            Some(runtime) => runtime.view(),
            None => built_in_runtime(&reference.name)
                .map(Runtime::from)
                .ok_or_else(|| unknown_runtime(document, reference.kind(), &reference.name))?,
        };
        let preview = preview(job, runtime, &Options::default()).map_err(|errors| {
            document.invalid(errors.iter().map(|e| (&*e.field, e.to_string())))
        })?;
        for warning in &preview.plan.warnings {
            writeln!(err, "warning: {warning}")?;
        }
        previews.push(preview);
    }
    output::write(&previews, form, args.origin, out)
}

fn unknown_runtime(document: &Document, kind: &str, name: &str) -> Error {
    let known = built_in_runtimes()
        .iter()
        .filter_map(|runtime| runtime.metadata.name.as_deref());
    let known: Vec<&str> = known.collect();
    let message = format!(
        "spec.runtimeRef.name: no {kind} is called {name:?}; give its file with --runtime, or use one \
         of {}",
        known.join(", ")
    );
    document.invalid([("spec.runtimeRef.name", message)].into_iter())
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to read {}", file.display())]
    Read {
        file: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not valid YAML\n{message}", file.display())]
    Yaml { file: PathBuf, message: String },
    #[error("there is no TrainJob in {}", file.display())]
    NoTrainJob { file: PathBuf },
    /// Each line names the file, the line in it, the field and what is wrong.
    #[error("{}", problems.join("\n"))]
    Invalid { problems: Vec<String> },
    #[error("failed to write the answer")]
    Write(#[from] std::io::Error),
    #[error("failed to print an object")]
    Print(#[from] serde_json::Error),
}

impl Error {
    /// All of it is about files of the user.
    pub(crate) fn into_failure(self) -> anyhow::Error {
        let failure = Failure::theirs(self.to_string());
        match self {
            Self::Read { source, .. } => anyhow::Error::from(source).context(failure),
            _ => failure.into(),
        }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests;
