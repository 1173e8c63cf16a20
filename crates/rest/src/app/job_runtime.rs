//! What a job says of its own restarts and its own time, where the Trainer does not know such words.
//!
//! Kubeflow Trainer takes both from the runtime only. So a job that says something else than its
//! runtime gets a TrainingRuntime of its own in its namespace: a copy that says it. It is labelled and
//! owned like the job's other belongings, and goes with the job.

use astrago_api::{ClusterTrainingRuntime, TrainJob, TrainingRuntime};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::names;

/// The runtime that the job needs for itself, and the job that refers to it; `None` where the shared
/// one does.
pub(crate) fn own(
    train_job: &Value,
    shared: &ClusterTrainingRuntime,
) -> Option<(TrainingRuntime, Value)> {
    let job: TrainJob = serde_json::from_value(train_job.clone()).ok()?;
    let spec = astrago_plan::runtime_of_one_job(&job, &shared.spec.0)?;
    let name = job.name_any();
    let mut labels = shared.labels().clone();
    labels.insert(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned());
    labels.insert(names::JOB.to_owned(), name.clone());
    let runtime = TrainingRuntime {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: job.namespace(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec,
    };
    let mut changed = train_job.clone();
    changed["spec"]["runtimeRef"] = json!({
        "apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name,
    });
    Some((runtime, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(annotations: &Value) -> Value {
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": { "name": "job", "namespace": "team", "annotations": annotations },
            "spec": { "runtimeRef": { "name": "pytorch-simple" } },
        })
    }

    #[test]
    fn only_a_job_with_its_own_wishes_gets_a_runtime_of_its_own() {
        let shared = astrago_plan::built_in_runtime("pytorch-simple").unwrap();
        assert!(own(&job(&json!({})), shared).is_none());

        let wishes = json!({ "astrago.io/max-restarts": "2", "astrago.io/ttl-seconds-after-finished": "60" });
        let (runtime, changed) = own(&job(&wishes), shared).unwrap();
        assert_eq!(runtime.labels()[names::JOB], "job");
        assert_eq!(runtime.labels()["trainer.kubeflow.org/framework"], "torch");
        let set = &runtime.spec.template.spec;
        assert_eq!(set.failure_policy.as_ref().unwrap().max_restarts, Some(2));
        assert_eq!(set.ttl_seconds_after_finished, Some(60));
        assert_eq!(changed["spec"]["runtimeRef"]["kind"], "TrainingRuntime");
        assert_eq!(changed["spec"]["runtimeRef"]["name"], "job");
    }
}
