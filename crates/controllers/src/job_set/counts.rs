//! `status.replicatedJobsStatus`: the Jobs of each template, counted by their state.

use astrago_api::{JobSet, ReplicatedJobStatus};
use k8s_openapi::api::batch::v1::Job;

use super::children::{Children, is_suspended, template_of};

/// The counts, in descending order of names, as JobSet has them.
pub(crate) fn counts(set: &JobSet, children: &Children) -> Vec<ReplicatedJobStatus> {
    let mut all: Vec<_> = set
        .spec
        .replicated_jobs
        .iter()
        .map(|template| count(&template.name, children))
        .collect();
    all.sort_by(|a, b| b.name.cmp(&a.name));
    all
}

fn count(name: &str, children: &Children) -> ReplicatedJobStatus {
    let mut counts = ReplicatedJobStatus {
        name: name.to_string(),
        ..ReplicatedJobStatus::default()
    };
    let ours = |job: &&std::sync::Arc<Job>| template_of(job) == name;
    for job in children.active.iter().filter(ours) {
        counts.ready += i32::from(is_ready(job));
        counts.active += i32::from(runs(job));
        counts.suspended += i32::from(is_suspended(job));
    }
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    counts.succeeded = number(children.succeeded.iter().filter(ours).count());
    counts.failed = number(children.failed.iter().filter(ours).count());
    counts
}

/// Whether pods of a Job run, those on their way out among them: a held set with active Jobs is still stopping.
fn runs(job: &Job) -> bool {
    let status = job.status.as_ref();
    let count = |pods: Option<i32>| pods.unwrap_or(0) > 0;
    status.is_some_and(|status| count(status.active) || count(status.terminating))
}

/// Whether all pods of a Job that run at once are ready or done.
fn is_ready(job: &Job) -> bool {
    let (Some(spec), Some(status)) = (&job.spec, &job.status) else {
        return false;
    };
    let parallelism = spec.parallelism.unwrap_or(1);
    let pods = spec
        .completions
        .map_or(parallelism, |completions| completions.min(parallelism));
    status
        .ready
        .unwrap_or(0)
        .saturating_add(status.succeeded.unwrap_or(0))
        >= pods
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn job(template: &str, spec: &Value, status: &Value) -> Arc<Job> {
        let labels = json!({ "jobset.sigs.k8s.io/replicatedjob-name": template });
        let job = json!({ "metadata": { "labels": labels }, "spec": spec, "status": status });
        Arc::new(serde_json::from_value(job).expect("a valid Job"))
    }

    /// Of a template with one Job that has not ended: ready, active, suspended.
    #[rstest]
    #[case::nothing_runs(json!({ "parallelism": 1 }), json!({}), [0, 0, 0])]
    #[case::it_runs(json!({ "parallelism": 5 }), json!({ "active": 1 }), [0, 1, 0])]
    #[case::all_ready(json!({ "parallelism": 2 }), json!({ "active": 2, "ready": 2 }), [1, 1, 0])]
    #[case::all_but_one(json!({ "parallelism": 3 }), json!({ "active": 3, "ready": 1, "succeeded": 1 }), [0, 1, 0])]
    #[case::ready_or_done(json!({ "parallelism": 5 }), json!({ "active": 2, "ready": 2, "succeeded": 3 }), [1, 1, 0])]
    #[case::fewer_completions_than_places(json!({ "parallelism": 3, "completions": 2 }),
        json!({ "active": 1, "ready": 1, "succeeded": 1 }), [1, 1, 0])]
    #[case::fewer_places_than_completions(json!({ "parallelism": 1, "completions": 2 }),
        json!({ "active": 1, "ready": 1 }), [1, 1, 0])]
    #[case::held(json!({ "parallelism": 5, "suspend": true }), json!({}), [0, 0, 1])]
    #[case::still_stopping(json!({ "parallelism": 5, "suspend": true }), json!({ "terminating": 1 }), [0, 1, 1])]
    fn a_job_that_has_not_ended_counts_by_its_pods(
        #[case] spec: Value,
        #[case] status: Value,
        #[case] want: [i32; 3],
    ) {
        let children = Children {
            active: vec![job("a", &spec, &status)],
            ..Children::default()
        };
        let counts = count("a", &children);
        assert_eq!([counts.ready, counts.active, counts.suspended], want);
        assert_eq!([counts.succeeded, counts.failed], [0, 0]);
        // It counts for its own template only.
        let other = ReplicatedJobStatus {
            name: "b".into(),
            ..ReplicatedJobStatus::default()
        };
        assert_eq!(count("b", &children), other);
    }

    #[test]
    fn jobs_that_ended_count_by_how_and_every_template_has_its_line() {
        let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": "demo" },
            "spec": { "replicatedJobs": [
                { "name": "a", "replicas": 3, "template": {} }, { "name": "b", "template": {} },
                { "name": "c", "template": {} },
            ] } });
        let set: JobSet = serde_json::from_value(set).expect("a valid set");
        let ended = |templates: &[&str]| -> Vec<_> {
            templates
                .iter()
                .map(|name| job(name, &json!({}), &json!({})))
                .collect()
        };
        let children = Children {
            succeeded: ended(&["b", "a"]),
            failed: ended(&["a", "a"]),
            // Those that are to go do not count.
            previous: ended(&["c"]),
            leaving: ended(&["c"]),
            ..Children::default()
        };
        let counts: Vec<_> = counts(&set, &children)
            .into_iter()
            .map(|counts| (counts.name, counts.succeeded, counts.failed, counts.ready))
            .collect();
        let want = [("c", 0, 0, 0), ("b", 1, 0, 0), ("a", 1, 2, 0)];
        assert_eq!(
            counts,
            want.map(|(name, a, b, c)| (name.to_owned(), a, b, c))
        );
    }
}
