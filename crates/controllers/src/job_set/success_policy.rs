//! When a JobSet has succeeded: all, or any, of the Jobs that count.

use std::sync::Arc;

use astrago_api::{JobSet, SuccessPolicyOperator};
use k8s_openapi::api::batch::v1::Job;

use super::children::template_of;

/// Whether the `succeeded` Jobs are enough for `set`.
pub(crate) fn met(set: &JobSet, succeeded: &[Arc<Job>]) -> bool {
    let policy = set.spec.success_policy.clone().unwrap_or_default();
    let targets = &policy.target_replicated_jobs;
    let counts = |name: &str| targets.is_empty() || targets.iter().any(|target| target == name);
    let ended = succeeded
        .iter()
        .filter(|job| counts(template_of(job)))
        .count();
    match policy.operator {
        SuccessPolicyOperator::Any => ended > 0,
        SuccessPolicyOperator::All => {
            let templates = set
                .spec
                .replicated_jobs
                .iter()
                .filter(|template| counts(&template.name));
            let wanted: i32 = templates.map(astrago_api::ReplicatedJob::replicas).sum();
            usize::try_from(wanted).is_ok_and(|wanted| wanted > 0 && ended >= wanted)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn job(template: &str) -> Arc<Job> {
        let labels = json!({ "jobset.sigs.k8s.io/replicatedjob-name": template });
        Arc::new(
            serde_json::from_value(json!({ "metadata": { "labels": labels } }))
                .expect("a valid job"),
        )
    }

    #[rstest]
    #[case::all_of_all(json!({"operator": "All"}), &["a", "b", "b"], true)]
    #[case::one_missing(json!({"operator": "All"}), &["a", "b"], false)]
    #[case::no_policy_means_all(Value::Null, &["a", "b"], false)]
    #[case::all_of_the_targets(json!({"operator": "All", "targetReplicatedJobs": ["a"]}), &["a"], true)]
    #[case::not_a_target(json!({"operator": "All", "targetReplicatedJobs": ["a"]}), &["b", "b"], false)]
    #[case::any(json!({"operator": "Any"}), &["b"], true)]
    #[case::any_of_the_targets(json!({"operator": "Any", "targetReplicatedJobs": ["a"]}), &["b"], false)]
    #[case::nothing(json!({"operator": "Any"}), &[], false)]
    fn the_policy_decides(#[case] policy: Value, #[case] succeeded: &[&str], #[case] want: bool) {
        let set: JobSet = serde_json::from_value(json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": { "name": "demo" },
            "spec": {
                "replicatedJobs": [{ "name": "a", "replicas": 1, "template": {} }, { "name": "b", "replicas": 2, "template": {} }],
                "successPolicy": policy,
            },
        }))
        .expect("a valid set");
        let succeeded: Vec<_> = succeeded.iter().map(|template| job(template)).collect();
        assert_eq!(met(&set, &succeeded), want);
    }
}
