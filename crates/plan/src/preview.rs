//! The merge preview: every object that a TrainJob becomes, before it runs, and where every field of
//! its pods came from.

use astrago_api::TrainJob;
use astrago_patch::keys::Keys;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::error::FieldErrors;
use crate::job::{default_pod, pod_of};
use crate::job_set::{jobs_of, service_of, volume_claims_of};
use crate::provenance::{Origin, Origins};
use crate::runtime::Runtime;
use crate::train_job::{Options, Plan, explain_train_job};

/// The letters that stand for the suffix that a pod's name gets when it is created.
const SUFFIX: &str = "xxxxx";

#[derive(Clone, Debug)]
pub struct Preview {
    pub plan: Plan,
    pub service: Option<Service>,
    pub volume_claims: Vec<PersistentVolumeClaim>,
    pub jobs: Vec<Job>,
    /// All pods of all Jobs, in order.
    pub pods: Vec<PlannedPod>,
}

/// A pod as it will be, and where its fields came from.
#[derive(Clone, Debug)]
pub struct PlannedPod {
    /// The template that it was made of.
    pub replicated_job: String,
    /// Its index, which is the rank of the node.
    pub index: i32,
    pub pod: Pod,
    pub origins: Origins,
}

impl PlannedPod {
    /// The pod as YAML; a comment on every field's line says where it came from.
    pub fn annotated_yaml(&self) -> String {
        crate::yaml::annotated(&value(&self.pod), Keys::builtin("", "Pod"), &self.origins)
    }
}

/// Every field of a planned pod: its path, its value in one line, and where it came from.
pub fn pod_fields(planned: &PlannedPod) -> Vec<(String, String, Option<&Origin>)> {
    let object = value(&planned.pod);
    let fields = planned.origins.fields(&object, Keys::builtin("", "Pod"));
    fields
        .into_iter()
        .map(|field| {
            let text = match field.value {
                Value::String(text) if !text.contains('\n') => text.clone(),
                other => other.to_string(),
            };
            (field.path, text, field.origin)
        })
        .collect()
}

/// Plans a TrainJob down to its pods.
pub fn preview(
    job: &TrainJob,
    runtime: Runtime<'_>,
    options: &Options,
) -> Result<Preview, FieldErrors> {
    let (plan, origins) = explain_train_job(job, runtime, options)?;
    let jobs = jobs_of(&plan.job_set, 0);
    let mut pods = Vec::new();
    for job in &jobs {
        let replicated_job = job
            .labels()
            .get(astrago_api::labels::REPLICATED_JOB_NAME)
            .cloned()
            .unwrap_or_default();
        let template = plan.job_set.replicated_job(&replicated_job);
        let template = template.and_then(|job| job.pod_template());
        let below = origins.below(&format!(
            "replicatedJobs[{replicated_job}].template.spec.template."
        ));
        let history = History::new(below, value(&template));
        let from_job_set = history.then(
            value(&job.spec.as_ref().map(|spec| &spec.template)),
            &Origin::JobSet,
        );
        let count = job
            .spec
            .as_ref()
            .and_then(|spec| spec.completions)
            .unwrap_or(1);
        for index in 0..count {
            pods.push(planned_pod(job, index, &replicated_job, &from_job_set));
        }
    }
    Ok(Preview {
        service: service_of(&plan.job_set),
        volume_claims: volume_claims_of(&plan.job_set),
        plan,
        jobs,
        pods,
    })
}

fn planned_pod(job: &Job, index: i32, replicated_job: &str, template: &History) -> PlannedPod {
    let mut pod = pod_of(job, index, SUFFIX);
    let made = template.then(value(&pod), &Origin::Job);
    default_pod(&mut pod);
    let origins = made.then(value(&pod), &Origin::Default).origins;
    PlannedPod {
        replicated_job: replicated_job.to_owned(),
        index,
        pod,
        origins,
    }
}

/// A pod on its way from the template, as JSON, with the origins of its fields.
struct History {
    origins: Origins,
    last: Value,
}

impl History {
    fn new(origins: Origins, last: Value) -> Self {
        Self { origins, last }
    }

    fn then(&self, next: Value, origin: &Origin) -> Self {
        let keys = Keys::builtin("", "Pod");
        Self {
            origins: self.origins.trace(&self.last, &next, keys, origin),
            last: next,
        }
    }
}

/// Kubernetes' types always have a JSON form.
fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
