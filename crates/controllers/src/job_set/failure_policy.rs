//! What becomes of a JobSet of which a Job failed.
//!
//! The first rule that matches one of the failed Jobs decides; without one, the set is started again until its
//! restarts are used up. Restarting a single Job (`RestartJob`) is an alpha feature of JobSet that is off by
//! default there; here it restarts the set, which is right for training: the others lost their peer anyway.
//!
//! A Job that failed because pods were ended on purpose, its own or those of others in the set, is no failure of the
//! training: the set is started again, whatever its policy, and that is not counted.
//!
//! A set that says so ([`labels::RETRY`]) is not started again after a failure that cannot heal. Whoever reads its log
//! tells us; we wait for the word about this attempt, but not for long: nobody may be there to read. One that comes late
//! ends the attempt that has begun meanwhile.

use std::sync::Arc;

use astrago_api::conditions::job as job_condition;
use astrago_api::conditions::job_set as condition;
use astrago_api::{
    FailurePolicyAction, FailurePolicyRule, JobSet, conditions as api_conditions, labels,
};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use regex::Regex;

use super::children::{Children, holds, template_of};
use crate::clock::after;

/// How many seconds a failure waits to be looked at.
const PATIENCE: i64 = 5;

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// The set has failed.
    Fail {
        /// Why, for machines.
        reason: &'static str,
        /// Why, for people.
        message: String,
    },
    /// All Jobs are replaced.
    Restart {
        /// Whether it counts towards the highest number of restarts.
        counts: bool,
        /// Reason of the event.
        reason: &'static str,
        /// Reason of the condition: the rule that says so.
        cause: String,
        /// Text of both.
        message: String,
    },
    /// Somebody looks at why the Jobs failed.
    Wait {
        /// For how long.
        until: Timestamp,
    },
}

/// What is done about the failed Jobs among the `children` of `set` at `now`; nothing if there are none.
pub(crate) fn respond(set: &JobSet, children: &Children, now: Timestamp) -> Option<Response> {
    if let Some(failure) = set.annotations().get(labels::PERMANENT_FAILURE) {
        return Some(Response::Fail {
            reason: condition::REASON_PERMANENT_FAILURE,
            message: failure.clone(),
        });
    }
    let since = disrupted_since(set, children);
    let blameless = |job: &&Arc<Job>| since.is_some_and(|since| failed_at(job) >= Some(since));
    let failed: Vec<_> = children
        .failed
        .iter()
        .filter(|job| !blameless(job))
        .cloned()
        .collect();
    let Some(first) = earliest(failed.iter()) else {
        let disrupted = earliest(children.failed.iter())?;
        return Some(Response::Restart {
            counts: false,
            reason: condition::REASON_RESTART_AFTER_DISRUPTION,
            cause: condition::REASON_RESTART_AFTER_DISRUPTION.into(),
            message: format!(
                "starting again after pods were deleted or evicted; this does not count as a restart (job: {})",
                disrupted.name_any()
            ),
        });
    };
    let Some(policy) = &set.spec.failure_policy else {
        let message = with_job(condition::MESSAGE_FAILED_JOBS, first);
        return Some(Response::Fail {
            reason: condition::REASON_FAILED_JOBS,
            message,
        });
    };
    let matched = policy.rules.iter().find_map(|rule| {
        let culprit = earliest(failed.iter().filter(|job| matches(rule, job)))?;
        let cause = format!("{}{}", condition::REASON_FAILURE_POLICY_RULE, rule.name);
        Some((rule.action, culprit, cause))
    });
    let (action, culprit, cause) = matched.unwrap_or_else(|| {
        let cause = condition::REASON_DEFAULT_FAILURE_POLICY.into();
        (FailurePolicyAction::RestartJobSet, first, cause)
    });
    let counted = set
        .status
        .as_ref()
        .map_or(0, |status| status.restarts_count_towards_max);
    let limit = policy.max_restarts.unwrap_or(0);
    Some(match action {
        FailurePolicyAction::FailJobSet => Response::Fail {
            reason: condition::REASON_FAIL_JOB_SET_ACTION,
            message: with_job(condition::MESSAGE_FAIL_JOB_SET_ACTION, culprit),
        },
        FailurePolicyAction::RestartJobSet | FailurePolicyAction::RestartJob
            if counted >= limit =>
        {
            Response::Fail {
                reason: condition::REASON_REACHED_MAX_RESTARTS,
                message: with_job(condition::MESSAGE_REACHED_MAX_RESTARTS, culprit),
            }
        }
        FailurePolicyAction::RestartJobSet | FailurePolicyAction::RestartJob
            if let Some(until) = judged_until(set, first).filter(|until| *until > now) =>
        {
            Response::Wait { until }
        }
        FailurePolicyAction::RestartJobSet | FailurePolicyAction::RestartJob => Response::Restart {
            counts: true,
            reason: condition::REASON_RESTART_JOB_SET_ACTION,
            cause,
            message: with_job(
                &format!("restarting jobset, restart {} of {limit}", counted + 1),
                culprit,
            ),
        },
        FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts
        | FailurePolicyAction::RestartJobAndIgnoreMaxRestarts => Response::Restart {
            counts: false,
            reason: condition::REASON_RESTART_AND_IGNORE_MAX_RESTARTS_ACTION,
            cause,
            message: with_job("restarting jobset without counting the restart", culprit),
        },
    })
}

/// Until when the failure of this attempt waits to be looked at, if it is to be and was not.
fn judged_until(set: &JobSet, first: &Job) -> Option<Timestamp> {
    let annotations = set.annotations();
    let judged = annotations.get(labels::JUDGED_ATTEMPT);
    let judges = annotations.get(labels::RETRY).map(String::as_str);
    if judges != Some(labels::retry::TRANSIENT)
        || judged.is_some_and(|attempt| *attempt == set.restarts().to_string())
    {
        return None;
    }
    Some(after(failed_at(first)?, PATIENCE))
}

/// Since when pods of the set are ended on purpose: it is held, or a Job says so.
fn disrupted_since(set: &JobSet, children: &Children) -> Option<Timestamp> {
    let held = api_conditions::find(set.conditions(), condition::SUSPENDED)
        .filter(|held| held.status == "True")
        .map(|held| held.last_transition_time.0);
    let told = children.current().filter_map(|job| {
        let target = holds(job, job_condition::FAILURE_TARGET)?;
        let disrupted = target.reason.as_deref() == Some(job_condition::REASON_PODS_DISRUPTED);
        let time = target.last_transition_time.as_ref();
        disrupted.then_some(time.map_or(Timestamp::MIN, |time| time.0))
    });
    told.chain(held).min()
}

/// When the failure of a Job was decided; its pods may have taken longer to end.
fn failed_at(job: &Job) -> Option<Timestamp> {
    let decided =
        holds(job, job_condition::FAILURE_TARGET).or_else(|| holds(job, job_condition::FAILED))?;
    decided.last_transition_time.as_ref().map(|time| time.0)
}

fn with_job(message: &str, job: &Job) -> String {
    format!("{message} (first failed job: {})", job.name_any())
}

/// The one that failed first; names break ties, so that every look gives the same answer.
fn earliest<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>) -> Option<&'a Arc<Job>> {
    jobs.min_by_key(|job| {
        let failed = holds(job, job_condition::FAILED);
        let time = failed
            .and_then(|failed| failed.last_transition_time.as_ref())
            .map(|time| time.0);
        (time, job.name_any())
    })
}

fn matches(rule: &FailurePolicyRule, job: &Job) -> bool {
    let Some(failed) = holds(job, job_condition::FAILED) else {
        return false;
    };
    let reason = failed.reason.as_deref().unwrap_or_default();
    let message = failed.message.as_deref().unwrap_or_default();
    let targets = &rule.target_replicated_jobs;
    let reasons = &rule.on_job_failure_reasons;
    let patterns = &rule.on_job_failure_message_patterns;
    (targets.is_empty() || targets.iter().any(|target| target == template_of(job)))
        && (reasons.is_empty() || reasons.iter().any(|wanted| wanted == reason))
        // A pattern that is no pattern matches nothing; admission refuses it.
        && (patterns.is_empty()
            || patterns.iter().any(|pattern| Regex::new(pattern).is_ok_and(|regex| regex.is_match(message))))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn set(policy: &Value, counted: i32) -> JobSet {
        serde_json::from_value(json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": { "name": "demo" },
            "spec": { "replicatedJobs": [], "failurePolicy": policy },
            "status": { "restarts": counted, "restartsCountTowardsMax": counted },
        }))
        .expect("a valid set")
    }

    fn failed(name: &str, template: &str, reason: &str, second: i64) -> Arc<Job> {
        let time = crate::clock::stamp(jiff::Timestamp::from_second(second).expect("a moment"));
        let job = json!({
            "metadata": { "name": name, "labels": { "jobset.sigs.k8s.io/replicatedjob-name": template } },
            "status": { "conditions": [{
                "type": "Failed", "status": "True", "reason": reason,
                "message": "Container node failed with exit code 137", "lastTransitionTime": time,
            }] },
        });
        Arc::new(serde_json::from_value(job).expect("a valid job"))
    }

    fn jobs() -> Children {
        Children {
            failed: vec![
                failed("demo-node-0", "node", "BackoffLimitExceeded", 20),
                failed("demo-data-0", "data", "DeadlineExceeded", 10),
            ],
            ..Children::default()
        }
    }

    /// A Job whose pods are being ended since `second` because some of them were deleted.
    fn disrupted(second: i64) -> Arc<Job> {
        let mut job = (*failed("demo-other-0", "other", "PodsDisrupted", second)).clone();
        let conditions = job
            .status
            .as_mut()
            .and_then(|status| status.conditions.as_mut());
        conditions.expect("conditions")[0].type_ = "FailureTarget".into();
        Arc::new(job)
    }

    #[rstest]
    #[case::nothing(None, None, "ReachedMaxRestarts")]
    #[case::held_before(Some(10), None, "RestartAfterDisruption")]
    #[case::held_after_the_first_failed(Some(11), None, "ReachedMaxRestarts")]
    #[case::another_was_disrupted_before(None, Some(9), "RestartAfterDisruption")]
    #[case::another_was_disrupted_later(None, Some(15), "ReachedMaxRestarts")]
    fn what_ends_on_purpose_is_no_failure(
        #[case] held: Option<i64>,
        #[case] other: Option<i64>,
        #[case] want: &str,
    ) {
        let mut set = set(&json!({}), 0);
        let held = held.map(|second| {
            let time = crate::clock::stamp(Timestamp::from_second(second).expect("a moment"));
            json!({ "type": "Suspended", "status": "True", "reason": "x", "message": "", "lastTransitionTime": time })
        });
        let status = json!({ "conditions": held.into_iter().collect::<Vec<_>>() });
        set.status = Some(serde_json::from_value(status).expect("a status"));
        let mut children = jobs();
        children.active.extend(other.map(disrupted));
        let response = respond(&set, &children, Timestamp::MAX).expect("a response");
        assert_eq!(outcome(&response).0, want);
        let free = want == "RestartAfterDisruption";
        assert_eq!(
            free,
            matches!(response, Response::Restart { counts: false, .. })
        );
    }

    fn outcome(response: &Response) -> (&'static str, &str) {
        match response {
            Response::Fail { reason, message }
            | Response::Restart {
                reason, message, ..
            } => (reason, message),
            Response::Wait { .. } => ("", ""),
        }
    }

    #[rstest]
    #[case::says_nothing(json!({}), 11, "RestartJobSetFailurePolicyAction")]
    #[case::wants_all(json!({ "astrago.io/retry": "all" }), 11, "RestartJobSetFailurePolicyAction")]
    #[case::not_looked_at_yet(json!({ "astrago.io/retry": "transient" }), 14, "")]
    #[case::only_the_one_before_was(json!({ "astrago.io/retry": "transient", "astrago.io/judged-attempt": "1" }), 14, "")]
    #[case::may_heal(json!({ "astrago.io/retry": "transient", "astrago.io/judged-attempt": "2" }), 11,
        "RestartJobSetFailurePolicyAction")]
    #[case::nobody_looks(json!({ "astrago.io/retry": "transient" }), 15, "RestartJobSetFailurePolicyAction")]
    #[case::hopeless(json!({ "astrago.io/retry": "transient", "astrago.io/permanent-failure": "no module" }), 11,
        "PermanentFailure")]
    fn a_failure_that_cannot_heal_is_not_tried_again(
        #[case] annotations: Value,
        #[case] second: i64,
        #[case] want: &str,
    ) {
        let mut set = set(&json!({ "maxRestarts": 6 }), 2);
        set.metadata.annotations = serde_json::from_value(annotations).expect("annotations");
        let now = Timestamp::from_second(second).expect("a moment");
        let response = respond(&set, &jobs(), now).expect("a response");
        assert_eq!(outcome(&response).0, want);
        // The attempt that began before the verdict came is ended by it.
        let later = respond(&set, &Children::default(), now);
        assert_eq!(later.is_some(), want == "PermanentFailure");
    }

    #[test]
    fn without_failures_there_is_nothing_to_do() {
        let none = Children::default();
        assert_eq!(
            respond(&set(&json!({ "maxRestarts": 1 }), 0), &none, Timestamp::MAX),
            None
        );
    }

    #[rstest]
    #[case::no_policy(json!(null), 0, "FailedJobs")]
    #[case::no_restarts_allowed(json!({}), 0, "ReachedMaxRestarts")]
    #[case::a_restart_is_left(json!({ "maxRestarts": 2 }), 1, "RestartJobSetFailurePolicyAction")]
    #[case::none_is_left(json!({ "maxRestarts": 2 }), 2, "ReachedMaxRestarts")]
    #[case::rule_fails(json!({ "maxRestarts": 2, "rules": [{ "name": "a", "action": "FailJobSet" }] }), 0,
        "FailJobSetFailurePolicyAction")]
    #[case::rule_ignores_the_limit(json!({ "rules": [
        { "name": "a", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["DeadlineExceeded"] },
    ] }), 9, "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction")]
    #[case::reason_does_not_match(json!({ "maxRestarts": 1, "rules": [
        { "name": "a", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"] },
    ] }), 0, "RestartJobSetFailurePolicyAction")]
    #[case::target_does_not_match(json!({ "maxRestarts": 1, "rules": [
        { "name": "a", "action": "FailJobSet", "targetReplicatedJobs": ["launcher"] },
    ] }), 0, "RestartJobSetFailurePolicyAction")]
    #[case::message_matches(json!({ "maxRestarts": 1, "rules": [
        { "name": "a", "action": "FailJobSet", "onJobFailureMessagePatterns": ["exit code 13[67]$"] },
    ] }), 0, "FailJobSetFailurePolicyAction")]
    #[case::first_rule_decides(json!({ "rules": [
        { "name": "a", "action": "RestartJobSetAndIgnoreMaxRestarts" },
        { "name": "b", "action": "FailJobSet" },
    ] }), 0, "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction")]
    fn the_policy_decides(#[case] policy: Value, #[case] counted: i32, #[case] want: &str) {
        let response =
            respond(&set(&policy, counted), &jobs(), Timestamp::MAX).expect("a response");
        assert_eq!(outcome(&response).0, want);
    }

    /// What a rule can ask for, and whether a Job of `node` that failed with `BackoffLimitExceeded` has it.
    #[test]
    fn a_rule_is_for_the_jobs_that_have_all_it_asks_for() {
        let targets = [
            (json!([]), true),
            (json!(["data", "node"]), true),
            (json!(["data"]), false),
        ];
        let reasons = [
            (json!([]), true),
            (json!(["BackoffLimitExceeded"]), true),
            (json!(["PodFailurePolicy"]), false),
        ];
        let patterns = [
            (json!([]), true),
            (json!(["no", "code 13[67]$"]), true),
            (json!(["code 1$"]), false),
            (json!(["("]), false),
            (json!(["(", "exit code"]), true),
        ];
        let job = failed("demo-node-0", "node", "BackoffLimitExceeded", 5);
        let mut running = (*job).clone();
        running.status = None;
        for (target, of_target) in &targets {
            for (reason, of_reason) in &reasons {
                for (pattern, of_pattern) in &patterns {
                    let rule = json!({ "name": "a", "action": "FailJobSet", "targetReplicatedJobs": target,
                        "onJobFailureReasons": reason, "onJobFailureMessagePatterns": pattern });
                    let asked: FailurePolicyRule =
                        serde_json::from_value(rule.clone()).expect("a valid rule");
                    let want = *of_target && *of_reason && *of_pattern;
                    assert_eq!(matches(&asked, &job), want, "{rule}");
                    assert!(!matches(&asked, &running), "{rule}");
                }
            }
        }
    }

    /// `data` failed before `node`; rules by the template that they are for, in their order.
    #[rstest]
    #[case::no_rules(&[], "DefaultFailurePolicy", "demo-data-0")]
    #[case::for_none_of_them(&["other"], "DefaultFailurePolicy", "demo-data-0")]
    #[case::for_both(&[""], "FailurePolicy_rule-0", "demo-data-0")]
    #[case::for_the_later_one(&["node"], "FailurePolicy_rule-0", "demo-node-0")]
    #[case::the_first_rule_wins_though_its_job_failed_later(&["node", "data"], "FailurePolicy_rule-0", "demo-node-0")]
    #[case::the_second_rule(&["other", "node", ""], "FailurePolicy_rule-1", "demo-node-0")]
    #[case::the_third_rule(&["other", "other", ""], "FailurePolicy_rule-2", "demo-data-0")]
    fn the_first_rule_that_is_for_a_job_decides(
        #[case] targets: &[&str],
        #[case] want: &str,
        #[case] named: &str,
    ) {
        let rules = targets.iter().enumerate().map(|(index, target)| {
            let targets: Vec<_> = Some(target).filter(|target| !target.is_empty()).into_iter().collect();
            json!({ "name": format!("rule-{index}"), "action": "RestartJobSet", "targetReplicatedJobs": targets })
        });
        let policy = json!({ "maxRestarts": 1, "rules": rules.collect::<Vec<_>>() });
        let response = respond(&set(&policy, 0), &jobs(), Timestamp::MAX);
        let Some(Response::Restart {
            cause,
            message,
            counts: true,
            ..
        }) = response
        else {
            panic!("{response:?}")
        };
        assert_eq!(cause, want);
        assert!(
            message.ends_with(&format!("(first failed job: {named})")),
            "{message}"
        );
    }

    #[rstest]
    #[case::below(1, json!([]), Some(true))]
    #[case::reached(2, json!([]), None)]
    #[case::not_counted_below(1, json!([{ "name": "a", "action": "RestartJobSetAndIgnoreMaxRestarts" }]), Some(false))]
    #[case::not_counted_beyond(2, json!([{ "name": "a", "action": "RestartJobSetAndIgnoreMaxRestarts" }]), Some(false))]
    fn only_restarts_that_count_use_the_limit_up(
        #[case] counted: i32,
        #[case] rules: Value,
        #[case] want: Option<bool>,
    ) {
        let mut set = set(&json!({ "maxRestarts": 2, "rules": rules }), counted);
        // Others were not counted.
        set.status.as_mut().expect("a status").restarts = 9;
        let counts = match respond(&set, &jobs(), Timestamp::MAX) {
            Some(Response::Restart { counts, .. }) => Some(counts),
            _ => None,
        };
        assert_eq!(counts, want);
    }

    #[test]
    fn the_first_failed_job_is_named() {
        let response = respond(&set(&Value::Null, 0), &jobs(), Timestamp::MAX).expect("a response");
        let want = "jobset failed due to one or more job failures (first failed job: demo-data-0)";
        assert_eq!(outcome(&response).1, want);
    }

    #[test]
    fn the_job_that_a_rule_matched_is_named() {
        let policy = json!({ "rules": [{ "name": "a", "action": "FailJobSet", "targetReplicatedJobs": ["node"] }] });
        let response = respond(&set(&policy, 0), &jobs(), Timestamp::MAX).expect("a response");
        let want = "applying FailJobSet failure policy action (first failed job: demo-node-0)";
        assert_eq!(outcome(&response).1, want);
    }
}
