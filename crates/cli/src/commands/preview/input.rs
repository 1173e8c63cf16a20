//! Files with objects: read, checked against their definitions as the API server would, and every
//! mistake named with its file, line and field.

use std::io::Read;
use std::path::{Path, PathBuf};

use astrago_api::{ClusterTrainingRuntime, TrainJob, TrainingRuntime};
use astrago_apiserver::Structural;
use astrago_plan::Runtime;
use astrago_plan::yaml::{self, Lines};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, Result};
use crate::definitions;

/// The objects of some files.
pub(super) struct Documents(Vec<Document>);

/// One object, and where its fields stand.
pub(super) struct Document {
    file: PathBuf,
    object: Value,
    lines: Lines,
}

/// A runtime of either kind.
pub(super) enum RuntimeObject {
    Cluster(Box<ClusterTrainingRuntime>),
    Namespaced(Box<TrainingRuntime>),
}

impl RuntimeObject {
    pub(super) fn view(&self) -> Runtime<'_> {
        match self {
            Self::Cluster(runtime) => Runtime::from(&**runtime),
            Self::Namespaced(runtime) => Runtime::from(&**runtime),
        }
    }
}

impl Documents {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let mut documents = Self(Vec::new());
        documents.add(file)?;
        Ok(documents)
    }

    pub(super) fn add(&mut self, file: &Path) -> Result<()> {
        let text = read(file).map_err(|source| Error::Read {
            file: file.to_owned(),
            source,
        })?;
        let broken = |error: &yaml::Error| Error::Yaml {
            file: file.to_owned(),
            message: error.to_string(),
        };
        let objects: Vec<Value> = yaml::all_from_str(&text).map_err(|error| broken(&error))?;
        let lines = Lines::of(&text).map_err(|error| broken(&error))?;
        let documents = objects
            .into_iter()
            .zip(lines)
            .filter(|(object, _)| !object.is_null());
        self.0.extend(documents.map(|(object, lines)| Document {
            file: file.to_owned(),
            object,
            lines,
        }));
        Ok(())
    }

    pub(super) fn train_jobs(&self) -> Result<Vec<(&Document, TrainJob)>> {
        let jobs = self
            .0
            .iter()
            .filter(|document| document.kind() == "TrainJob");
        jobs.map(|document| Ok((document, document.typed()?)))
            .collect()
    }

    /// The runtime of this name and kind, if one of the files has it; the last one wins.
    pub(super) fn runtime(&self, name: &str, kind: &str) -> Result<Option<RuntimeObject>> {
        let mut documents = self.0.iter().rev();
        let document = documents.find(|document| {
            document.kind() == kind && document.object["metadata"]["name"].as_str() == Some(name)
        });
        Ok(match document {
            None => None,
            Some(document) if kind == "TrainingRuntime" => {
                Some(RuntimeObject::Namespaced(Box::new(document.typed()?)))
            }
            Some(document) => Some(RuntimeObject::Cluster(Box::new(document.typed()?))),
        })
    }
}

impl Document {
    fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The object as its type, with its defaults, after the checks of the API server.
    fn typed<T: DeserializeOwned>(&self) -> Result<T> {
        let mut object = self.object.clone();
        let mut problems = Vec::new();
        if let Some(schema) = schema_of(self.kind()) {
            let unknown = schema.prune(&mut object);
            problems.extend(unknown.into_iter().map(|field| {
                let message = format!("unknown field {field:?}");
                (field, message)
            }));
            schema.default(&mut object);
            problems.extend(schema.validate(&object, None).into_iter().map(|error| {
                let message = format!("{}: {}", error.field, error.body);
                (error.field, message)
            }));
        }
        if !problems.is_empty() {
            return Err(self.invalid(
                problems
                    .iter()
                    .map(|(field, text)| (&**field, text.clone())),
            ));
        }
        serde_json::from_value(object)
            .map_err(|error| self.invalid([("", format!("{}: {error}", self.kind()))].into_iter()))
    }

    /// An error that points at fields of this object.
    pub(super) fn invalid<'a>(&self, problems: impl Iterator<Item = (&'a str, String)>) -> Error {
        let file = self.file.display();
        let mut problems: Vec<(u64, String)> = problems
            .map(|(field, message)| (self.lines.line(field), message))
            .collect();
        problems.sort();
        Error::Invalid {
            problems: problems
                .iter()
                .map(|(line, text)| format!("{file}:{line}: {text}"))
                .collect(),
        }
    }
}

/// The compiled definition of one of our kinds.
fn schema_of(kind: &str) -> Option<Structural> {
    let text = definitions::unpack();
    let mut definitions = definitions::each(&text)
        .filter_map(|definition| serde_json::from_str::<Value>(definition.json).ok());
    let definition = definitions.find(|one| one["spec"]["names"]["kind"] == kind)?;
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Structural::compile(schema).ok()
}

fn read(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}
