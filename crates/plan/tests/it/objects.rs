//! Reading objects for tests, and looking into planned ones.

use std::path::{Path, PathBuf};

use astrago_api::{TrainJob, TrainingRuntime};
use astrago_plan::{FieldErrors, Options, PlannedPod, Preview, Runtime, built_in_runtime, preview};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use serde::de::DeserializeOwned;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn parse<T: DeserializeOwned>(yaml: &str) -> T {
    astrago_plan::yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

/// A plan with a runtime of the catalogue.
pub(crate) fn plan_with_built_in(job: &TrainJob) -> Result<Preview, FieldErrors> {
    let name = &job.spec.runtime_ref.name;
    let runtime = built_in_runtime(name).unwrap_or_else(|| panic!("no runtime {name}"));
    preview(job, Runtime::from(runtime), &Options::default())
}

/// A plan with a runtime of the test's own.
pub(crate) fn plan_with(job: &TrainJob, runtime: &TrainingRuntime) -> Result<Preview, FieldErrors> {
    preview(job, Runtime::from(runtime), &Options::default())
}

pub(crate) fn training_pods(preview: &Preview) -> Vec<&PlannedPod> {
    preview
        .pods
        .iter()
        .filter(|pod| pod.replicated_job == "node")
        .collect()
}

pub(crate) fn container<'a>(pod: &'a Pod, name: &str) -> &'a Container {
    let spec = pod
        .spec
        .as_ref()
        .expect("a planned pod has a specification");
    let mut all = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    all.find(|container| container.name == name)
        .unwrap_or_else(|| panic!("no container {name}"))
}

pub(crate) fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a EnvVar> {
    container
        .env
        .iter()
        .flatten()
        .find(|variable| variable.name == name)
}

pub(crate) fn value<'a>(container: &'a Container, name: &str) -> &'a str {
    let variable = variable(container, name).unwrap_or_else(|| panic!("no variable {name}"));
    variable.value.as_deref().unwrap_or_default()
}
