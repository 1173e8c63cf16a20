//! Which templates of a JobSet may have Jobs now: those whose dependencies are far enough, and with the order
//! `InOrder` only up to the first that is not ready.

use astrago_api::{
    DependsOnStatus, JobSet, ReplicatedJob, ReplicatedJobStatus, StartupPolicyOrder,
};

/// Which templates may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Startup {
    /// The names of the templates whose Jobs may be there now.
    pub(crate) allowed: Vec<String>,
    /// With an order: whether all have started. `None` without an order, or while the set is held.
    pub(crate) complete: Option<bool>,
}

/// Which templates of `set` may start, given its Jobs' `counts`.
pub(crate) fn startup(set: &JobSet, counts: &[ReplicatedJobStatus]) -> Startup {
    let policy = set.spec.startup_policy.as_ref();
    let in_order = policy
        .is_some_and(|policy| policy.startup_policy_order == StartupPolicyOrder::InOrder)
        && !set.is_suspended();
    let mut allowed = Vec::new();
    for template in &set.spec.replicated_jobs {
        if !template
            .depends_on
            .iter()
            .all(|wanted| reached(set, counts, &wanted.name, wanted.status))
        {
            continue;
        }
        allowed.push(template.name.clone());
        if in_order && !started(template, counts) {
            return Startup {
                allowed,
                complete: Some(false),
            };
        }
    }
    Startup {
        allowed,
        complete: in_order.then_some(true),
    }
}

fn reached(
    set: &JobSet,
    counts: &[ReplicatedJobStatus],
    name: &str,
    wanted: DependsOnStatus,
) -> bool {
    let (Some(template), Some(counts)) = (set.replicated_job(name), find(counts, name)) else {
        return false;
    };
    match wanted {
        DependsOnStatus::Complete => counts.succeeded >= template.replicas(),
        DependsOnStatus::Ready => {
            counts.ready + counts.succeeded + counts.failed >= template.replicas()
        }
    }
}

fn started(template: &ReplicatedJob, counts: &[ReplicatedJobStatus]) -> bool {
    find(counts, &template.name).is_some_and(|counts| {
        counts.ready + counts.succeeded + counts.failed >= template.replicas()
    })
}

fn find<'a>(counts: &'a [ReplicatedJobStatus], name: &str) -> Option<&'a ReplicatedJobStatus> {
    counts.iter().find(|counts| counts.name == name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn set(templates: &Value, order: &str, suspend: bool) -> JobSet {
        serde_json::from_value(json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": { "name": "demo" },
            "spec": {
                "replicatedJobs": templates,
                "startupPolicy": { "startupPolicyOrder": order },
                "suspend": suspend,
            },
        }))
        .expect("a valid set")
    }

    fn counts(name: &str, ready: i32, succeeded: i32) -> ReplicatedJobStatus {
        ReplicatedJobStatus {
            name: name.into(),
            ready,
            succeeded,
            ..ReplicatedJobStatus::default()
        }
    }

    fn pipeline() -> Value {
        json!([
            { "name": "data", "template": {} },
            { "name": "model", "template": {} },
            { "name": "node", "template": {}, "dependsOn": [
                { "name": "data", "status": "Complete" },
                { "name": "model", "status": "Complete" },
            ] },
        ])
    }

    #[rstest]
    #[case::nothing_done(vec![], &["data", "model"])]
    #[case::one_done(vec![counts("data", 0, 1), counts("model", 1, 0)], &["data", "model"])]
    #[case::both_done(vec![counts("data", 0, 1), counts("model", 0, 1)], &["data", "model", "node"])]
    fn a_template_waits_for_its_dependencies(
        #[case] counts: Vec<ReplicatedJobStatus>,
        #[case] want: &[&str],
    ) {
        let startup = startup(&set(&pipeline(), "AnyOrder", false), &counts);
        assert_eq!(startup.allowed, want);
        assert_eq!(startup.complete, None);
    }

    #[rstest]
    #[case::not_ready(0, 0, false)]
    #[case::ready(1, 0, true)]
    #[case::already_over(0, 1, true)]
    fn a_launcher_waits_until_the_nodes_are_ready(
        #[case] ready: i32,
        #[case] succeeded: i32,
        #[case] want: bool,
    ) {
        let templates = json!([{ "name": "node", "template": {} }, { "name": "launcher", "template": {}, "dependsOn": [{ "name": "node", "status": "Ready" }] }]);
        let startup = startup(
            &set(&templates, "AnyOrder", false),
            &[counts("node", ready, succeeded)],
        );
        assert_eq!(startup.allowed.contains(&"launcher".to_string()), want);
    }

    fn all(
        name: &str,
        ready: i32,
        active: i32,
        succeeded: i32,
        failed: i32,
    ) -> ReplicatedJobStatus {
        ReplicatedJobStatus {
            active,
            failed,
            ..counts(name, ready, succeeded)
        }
    }

    /// `c` depends on `a`, of four Jobs, and `b`, of one.
    #[rstest]
    #[case::nothing_is_known("Ready", vec![], false)]
    #[case::one_is_not_known("Ready", vec![all("a", 4, 4, 0, 0)], false)]
    #[case::both_ready("Ready", vec![all("a", 4, 4, 0, 0), all("b", 1, 1, 0, 0)], true)]
    #[case::ready_or_over("Ready", vec![all("a", 2, 2, 1, 1), all("b", 0, 0, 1, 0)], true)]
    #[case::one_is_not_ready("Ready", vec![all("a", 3, 4, 0, 0), all("b", 1, 1, 0, 0)], false)]
    #[case::neither_is_ready("Ready", vec![all("a", 0, 4, 0, 0), all("b", 0, 1, 0, 0)], false)]
    #[case::ready_is_not_complete("Complete", vec![all("a", 4, 4, 0, 0), all("b", 1, 1, 0, 0)], false)]
    #[case::both_complete("Complete", vec![all("a", 0, 0, 4, 0), all("b", 0, 0, 1, 0)], true)]
    #[case::one_is_not_complete("Complete", vec![all("a", 1, 1, 3, 0), all("b", 0, 0, 1, 0)], false)]
    #[case::neither_is_complete("Complete", vec![all("a", 0, 0, 3, 1), all("b", 1, 1, 0, 0)], false)]
    fn all_that_a_template_depends_on_must_be_far_enough(
        #[case] status: &str,
        #[case] counts: Vec<ReplicatedJobStatus>,
        #[case] want: bool,
    ) {
        let depends = ["a", "b"].map(|name| json!({ "name": name, "status": status }));
        let templates = json!([
            { "name": "a", "replicas": 4, "template": {} }, { "name": "b", "template": {} },
            { "name": "c", "template": {}, "dependsOn": depends },
        ]);
        for suspend in [false, true] {
            let startup = startup(&set(&templates, "AnyOrder", suspend), &counts);
            assert_eq!(startup.allowed.contains(&"c".to_owned()), want);
        }
    }

    #[rstest]
    #[case::nothing_is_known(vec![], false)]
    #[case::all_ready(vec![all("a", 4, 4, 0, 0)], true)]
    #[case::ready_failed_and_succeeded(vec![all("a", 1, 1, 1, 2)], true)]
    #[case::all_active_and_not_ready(vec![all("a", 0, 4, 0, 0)], false)]
    #[case::one_is_missing(vec![all("a", 2, 3, 1, 0)], false)]
    fn the_next_in_order_waits_until_all_of_the_one_before_started(
        #[case] counts: Vec<ReplicatedJobStatus>,
        #[case] want: bool,
    ) {
        let templates = json!([{ "name": "a", "replicas": 4, "template": {} }, { "name": "b", "template": {} }]);
        let startup = startup(&set(&templates, "InOrder", false), &counts);
        assert_eq!(startup.allowed.contains(&"b".to_owned()), want);
        assert_eq!(startup.complete, Some(false));
    }

    #[rstest]
    #[case::first(vec![], false, &["a"], Some(false))]
    #[case::second(vec![counts("a", 1, 0)], false, &["a", "b"], Some(false))]
    #[case::all(vec![counts("a", 1, 0), counts("b", 1, 0)], false, &["a", "b"], Some(true))]
    #[case::held(vec![], true, &["a", "b"], None)]
    fn templates_start_in_order(
        #[case] counts: Vec<ReplicatedJobStatus>,
        #[case] suspend: bool,
        #[case] want: &[&str],
        #[case] complete: Option<bool>,
    ) {
        let templates = json!([{ "name": "a", "template": {} }, { "name": "b", "template": {} }]);
        let startup = startup(&set(&templates, "InOrder", suspend), &counts);
        assert_eq!(startup.allowed, want);
        assert_eq!(startup.complete, complete);
    }
}
