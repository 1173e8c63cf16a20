//! The Jobs of a JobSet, sorted once into the heaps that the policies ask for.

use std::collections::HashSet;
use std::sync::Arc;

use astrago_api::conditions::job as condition;
use astrago_api::{JobSet, labels};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::ResourceExt;

#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Of this attempt, not finished.
    pub(crate) active: Vec<Arc<Job>>,
    /// Of this attempt, ended well.
    pub(crate) succeeded: Vec<Arc<Job>>,
    /// Of this attempt, ended badly.
    pub(crate) failed: Vec<Arc<Job>>,
    /// Of earlier attempts, or not wanted since the templates changed while the set was held.
    pub(crate) previous: Vec<Arc<Job>>,
    /// Being deleted. Their names are taken until they are gone.
    pub(crate) leaving: Vec<Arc<Job>>,
}

impl Children {
    pub(crate) fn of(set: &JobSet, jobs: Vec<Arc<Job>>) -> Self {
        let mut children = Self::default();
        let restarts = set.restarts();
        for job in jobs {
            let heap = if job.metadata.deletion_timestamp.is_some() {
                &mut children.leaving
            } else if attempt(&job) < restarts || !is_wanted(set, &job) {
                &mut children.previous
            } else if holds(&job, condition::COMPLETE).is_some() {
                &mut children.succeeded
            } else if holds(&job, condition::FAILED).is_some() {
                &mut children.failed
            } else {
                &mut children.active
            };
            heap.push(job);
        }
        children
    }

    /// The Jobs of this attempt.
    pub(crate) fn current(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.active
            .iter()
            .chain(&self.succeeded)
            .chain(&self.failed)
    }

    /// The names that are taken, by Jobs of whatever attempt.
    pub(crate) fn names(&self) -> HashSet<&str> {
        let all = self.current().chain(&self.previous).chain(&self.leaving);
        all.filter_map(|job| job.metadata.name.as_deref()).collect()
    }
}

/// Whether the templates of a set still ask for a Job.
fn is_wanted(set: &JobSet, job: &Job) -> bool {
    set.replicated_job(template_of(job))
        .is_some_and(|template| number(job, labels::JOB_INDEX) < template.replicas())
}

/// The restart that a Job belongs to.
pub(crate) fn attempt(job: &Job) -> i32 {
    number(job, labels::RESTART_ATTEMPT)
}

fn number(job: &Job, label: &str) -> i32 {
    let value = job.labels().get(label);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The template that a Job was made of.
pub(crate) fn template_of(job: &Job) -> &str {
    job.labels()
        .get(labels::REPLICATED_JOB_NAME)
        .map_or("", String::as_str)
}

/// The condition of this type of a Job, if it is true.
pub(crate) fn holds<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let mut conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

pub(crate) fn is_suspended(job: &Job) -> bool {
    job.spec
        .as_ref()
        .and_then(|spec| spec.suspend)
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// A set of two Jobs of `a` that was started again once.
    #[rstest]
    #[case::runs(json!([]), "1", "0", "active")]
    #[case::complete(json!([["Complete", "True"]]), "1", "0", "succeeded")]
    #[case::failed(json!([["Failed", "True"]]), "1", "0", "failed")]
    #[case::held(json!([["Suspended", "True"]]), "1", "0", "active")]
    #[case::is_failing(json!([["FailureTarget", "True"]]), "1", "0", "active")]
    #[case::is_completing(json!([["SuccessCriteriaMet", "True"]]), "1", "0", "active")]
    #[case::did_not_fail(json!([["Failed", "False"]]), "1", "0", "active")]
    #[case::of_an_earlier_attempt(json!([["Failed", "True"]]), "0", "0", "previous")]
    #[case::of_a_later_attempt(json!([]), "2", "0", "active")]
    #[case::no_number(json!([]), "x", "0", "previous")]
    #[case::more_than_are_wanted(json!([["Complete", "True"]]), "1", "2", "previous")]
    fn a_job_is_in_one_heap(
        #[case] conditions: Value,
        #[case] attempt: &str,
        #[case] index: &str,
        #[case] want: &str,
    ) {
        let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": "demo" },
            "spec": { "replicatedJobs": [{ "name": "a", "replicas": 2, "template": {} }] },
            "status": { "restarts": 1 } });
        let mut set: JobSet = serde_json::from_value(set).expect("a valid set");
        let conditions: Vec<_> = conditions
            .as_array()
            .into_iter()
            .flatten()
            .map(|condition| json!({ "type": condition[0], "status": condition[1] }))
            .collect();
        let job = json!({ "metadata": { "name": "demo-a-0", "labels": {
                labels::REPLICATED_JOB_NAME: "a", labels::RESTART_ATTEMPT: attempt, labels::JOB_INDEX: index } },
            "status": { "conditions": conditions } });
        let mut job: Job = serde_json::from_value(job).expect("a valid Job");
        let heaps = |set: &JobSet, job: &Job| {
            let heaps = Children::of(set, vec![Arc::new(job.clone())]);
            assert!(heaps.names().contains("demo-a-0"));
            [
                ("active", heaps.active),
                ("succeeded", heaps.succeeded),
                ("failed", heaps.failed),
                ("previous", heaps.previous),
                ("leaving", heaps.leaving),
            ]
            .into_iter()
            .filter(|(_, jobs)| !jobs.is_empty())
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
        };
        assert_eq!(heaps(&set, &job), [want]);
        // Without its template it goes, whatever it says.
        let templates = std::mem::take(&mut set.spec.replicated_jobs);
        assert_eq!(heaps(&set, &job), ["previous"]);
        set.spec.replicated_jobs = templates;
        job.metadata.deletion_timestamp = Some(crate::clock::stamp(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(heaps(&set, &job), ["leaving"]);
    }
}
