//! Overrides and patches, merged into the runtime's template as Kubernetes merges: lists by key,
//! maps by key, everything else replaced. An entry cannot remove anything.

use astrago_api::{JobSetSpec, PodTemplateOverride, RuntimePatch, TemplateMetadata, TrainJob};
use astrago_patch::keys::Keys;
use astrago_patch::strategic;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::draft::Draft;
use crate::error::FieldError;
use crate::provenance::Origin;

/// Applies all overrides, then all patches, each in order.
pub(crate) fn apply(draft: &mut Draft, job: &TrainJob) -> Result<(), FieldError> {
    draft.labels.extend(job.spec.labels.clone());
    draft.annotations.extend(job.spec.annotations.clone());
    for (index, entry) in job.spec.pod_template_overrides.iter().enumerate() {
        let merged = with_override(draft.spec(), entry)
            .map_err(|error| unmergeable("spec.podTemplateOverrides", index, &error))?;
        draft.stage(&Origin::Override { index }, |spec| *spec = merged);
    }
    for (index, entry) in job.spec.runtime_patches.iter().enumerate() {
        if let Some(metadata) = entry
            .template()
            .and_then(|template| template.metadata.as_ref())
        {
            draft.labels.extend(metadata.labels.clone());
            draft.annotations.extend(metadata.annotations.clone());
        }
        let merged = with_patch(draft.spec(), entry)
            .map_err(|error| unmergeable("spec.runtimePatches", index, &error))?;
        let origin = Origin::Patch {
            index,
            manager: entry.manager.clone(),
        };
        draft.stage(&origin, |spec| *spec = merged);
    }
    Ok(())
}

/// The template with one override merged into the pods of its target jobs.
pub(crate) fn with_override(
    spec: &JobSetSpec,
    entry: &PodTemplateOverride,
) -> Result<JobSetSpec, Error> {
    let metadata = metadata_patch(entry.metadata.as_ref());
    let pod = pod_patch(&entry.spec)?;
    let jobs: Vec<Value> = entry
        .target_jobs
        .iter()
        .map(|target| {
            let template = json!({"metadata": metadata, "spec": pod});
            json!({"name": target.name, "template": {"spec": {"template": template}}})
        })
        .map(without_nothing)
        .collect();
    merge_jobs(spec, jobs)
}

/// The template with one runtime patch merged into it.
pub(crate) fn with_patch(spec: &JobSetSpec, entry: &RuntimePatch) -> Result<JobSetSpec, Error> {
    let mut jobs = Vec::new();
    for job in entry.replicated_jobs() {
        let pod_template = job.pod_template();
        let pod_metadata = pod_template.and_then(|template| template.metadata.as_ref());
        let pod = pod_patch(&job.pod_spec())?;
        let job_metadata = job
            .template
            .as_ref()
            .and_then(|template| template.metadata.as_ref());
        jobs.push(without_nothing(json!({
            "name": job.name,
            "template": {
                "metadata": metadata_patch(job_metadata),
                "spec": {"template": {"metadata": metadata_patch(pod_metadata), "spec": pod}},
            },
        })));
    }
    merge_jobs(spec, jobs)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Merge(#[from] strategic::Error),
    #[error("does not fit the pod template: {0}")]
    Shape(#[from] serde_json::Error),
}

fn unmergeable(list: &str, index: usize, error: &Error) -> FieldError {
    FieldError::invalid(format!("{list}[{index}]"), error.to_string())
}

/// Merges changes to jobs, each of which names one of the template's, and keeps the jobs in the
/// template's order: merging moves what the patch names.
fn merge_jobs(spec: &JobSetSpec, jobs: Vec<Value>) -> Result<JobSetSpec, Error> {
    let order: Vec<&str> = spec
        .replicated_jobs
        .iter()
        .map(|job| job.name.as_str())
        .collect();
    let base = serde_json::to_value(spec)?;
    let mut merged = base;
    // One at a time: a job may be named twice, and a patch lists every key once.
    for job in jobs {
        let known = job["name"]
            .as_str()
            .is_some_and(|name| order.contains(&name));
        if known {
            let patch = json!({"replicatedJobs": [job]});
            merged = strategic::merge(&merged, &patch, Keys::job_set_spec())?;
        }
    }
    let mut merged: JobSetSpec = serde_json::from_value(merged)?;
    merged
        .replicated_jobs
        .sort_by_key(|job| order.iter().position(|name| *name == job.name));
    Ok(merged)
}

/// A change to a job without the levels in which nothing is said: merged, they would leave empty
/// objects behind. What a field's own value is (an `emptyDir: {}`) lies deeper and stays.
fn without_nothing(mut job: Value) -> Value {
    let levels = ["/template/spec/template", "/template/spec", "/template", ""];
    for level in levels {
        if let Some(Value::Object(level)) = job.pointer_mut(level) {
            level.retain(|_, part| part.as_object().is_none_or(|part| !part.is_empty()));
        }
    }
    job
}

/// The labels and annotations of an entry; nothing else of its metadata counts.
fn metadata_patch(metadata: Option<&TemplateMetadata>) -> Value {
    let mut patch = Map::new();
    if let Some(metadata) = metadata {
        for (name, entries) in [
            ("labels", &metadata.labels),
            ("annotations", &metadata.annotations),
        ] {
            if !entries.is_empty() {
                patch.insert(name.into(), json!(entries));
            }
        }
    }
    Value::Object(patch)
}

/// The pod fields of an entry as a patch. A volume that is named again with another source replaces
/// the first; merged, it would have two sources, which Kubernetes refuses.
fn pod_patch(spec: &impl Serialize) -> Result<Value, Error> {
    let mut patch = match serde_json::to_value(spec)? {
        Value::Null => json!({}),
        patch => patch,
    };
    for volume in patch
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Value::Object(volume) = volume {
            let fields: Vec<Value> = volume.keys().map(|name| json!(name)).collect();
            volume.insert("$retainKeys".into(), Value::Array(fields));
        }
    }
    Ok(patch)
}
