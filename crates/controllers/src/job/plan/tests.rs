use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::job::validate::validate;

const START: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

fn job(mut spec: Value, status: impl Into<Value>) -> Job {
    let status = status.into();
    spec["template"] = json!({
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "node" }] },
    });
    serde_json::from_value(json!({
        "metadata": { "name": "demo", "namespace": "ns", "uid": "uid-1", "resourceVersion": "1" },
        "spec": spec,
        "status": status,
    }))
    .expect("a valid job")
}

fn running() -> Value {
    json!({ "startTime": stamp(at(START)) })
}

fn indexed(completions: i32) -> Value {
    json!({ "completionMode": "Indexed", "completions": completions, "parallelism": completions })
}

/// A pod of rank `index` that `phase` says all about; `ended` is when.
fn pod(index: i32, attempt: i32, phase: &str, ended: i64) -> Arc<Pod> {
    let state = match phase {
        "Failed" => json!({ "terminated": { "exitCode": 1, "finishedAt": stamp(at(ended)) } }),
        "Succeeded" => json!({ "terminated": { "exitCode": 0, "finishedAt": stamp(at(ended)) } }),
        _ => json!({}),
    };
    let pod = json!({
        "metadata": {
            "name": format!("demo-{index}-{attempt}"),
            "namespace": "ns",
            "creationTimestamp": stamp(at(START)),
            "annotations": {
                "batch.kubernetes.io/job-completion-index": index.to_string(),
                "astrago.io/attempt": attempt.to_string(),
                "batch.kubernetes.io/job-index-failure-count": attempt.to_string(),
            },
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{
                "name": "node", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state,
            }],
        },
    });
    Arc::new(serde_json::from_value(pod).expect("a valid pod"))
}

fn with(pod: &Arc<Pod>, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut pod = (**pod).clone();
    change(&mut pod);
    Arc::new(pod)
}

fn terminating(pod: &Arc<Pod>) -> Arc<Pod> {
    with(pod, |pod| {
        pod.metadata.deletion_timestamp = Some(stamp(at(START + 1)));
    })
}

fn decide(job: &Job, pods: Vec<Arc<Pod>>, now: i64) -> Plan {
    let valid = validate(Arc::new(job.clone())).expect("a valid job");
    plan(
        &valid,
        &Observed {
            own: pods,
            ..Observed::default()
        },
        at(now),
    )
}

fn created(plan: &Plan) -> Vec<i32> {
    plan.create.iter().filter_map(pod::index).collect()
}

fn conditions(plan: &Plan) -> Vec<(String, String)> {
    let conditions = plan
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .map(|condition| {
            (
                condition.type_.clone(),
                condition.reason.clone().unwrap_or_default(),
            )
        })
        .collect()
}

fn holds(plan: &Plan, kind: &str, reason: &str) -> bool {
    conditions(plan).contains(&(kind.to_string(), reason.to_string()))
}

#[test]
fn a_new_job_gets_a_pod_for_every_index() {
    let plan = decide(&job(indexed(3), Value::Null), vec![], START);
    assert_eq!(created(&plan), [0, 1, 2]);
    let names: BTreeSet<_> = plan.create.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 3);
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("demo-") && name.len() == "demo-0-xxxxx".len())
    );
    let status = plan.status.expect("a status");
    assert_eq!((status.active, status.ready), (Some(3), Some(0)));
    assert_eq!(status.start_time, Some(stamp(at(START))));
}

#[test]
fn a_job_that_wants_nothing_is_complete_at_once_and_took_no_time() {
    let spec = json!({ "completions": 0, "parallelism": 1 });
    let plan = decide(&job(spec, Value::Null), vec![], START);
    assert!(plan.create.is_empty());
    assert!(holds(&plan, "Complete", "CompletionsReached"));
    let status = plan.status.expect("a status");
    let want = Some(stamp(at(START)));
    assert_eq!(
        (&status.start_time, &status.completion_time),
        (&want, &want)
    );
}

#[test]
fn the_same_world_gives_the_same_names() {
    let new = job(indexed(2), Value::Null);
    let names = |plan: Plan| {
        plan.create
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(decide(&new, vec![], START)),
        names(decide(&new, vec![], START + 5))
    );
    let mut again = new.clone();
    again.metadata.uid = Some("uid-2".into());
    assert_ne!(
        names(decide(&new, vec![], START)),
        names(decide(&again, vec![], START))
    );
}

#[test]
fn all_succeeded_is_complete() {
    let pods = vec![
        pod(0, 0, "Succeeded", START + 5),
        pod(1, 0, "Succeeded", START + 6),
    ];
    let plan = decide(&job(indexed(2), running()), pods, START + 7);
    assert!(holds(&plan, "SuccessCriteriaMet", "CompletionsReached"));
    assert!(holds(&plan, "Complete", "CompletionsReached"));
    let status = plan.status.expect("a status");
    assert_eq!(status.completed_indexes.as_deref(), Some("0,1"));
    assert_eq!(status.succeeded, Some(2));
    assert_eq!(status.completion_time, Some(stamp(at(START + 7))));
}

#[test]
fn an_index_that_completed_stays_completed_when_its_pod_is_deleted() {
    let status = json!({ "startTime": stamp(at(START)), "completedIndexes": "0", "succeeded": 1 });
    let plan = decide(
        &job(indexed(2), status),
        vec![pod(1, 0, "Running", 0)],
        START + 9,
    );
    assert!(plan.create.is_empty());
    assert_eq!(
        plan.status.expect("a status").completed_indexes.as_deref(),
        Some("0")
    );
}

#[test]
fn a_failed_pod_is_replaced_after_the_back_off() {
    let job = job(indexed(1), running());
    let pods = vec![pod(0, 0, "Failed", START + 5)];
    let waiting = decide(&job, pods.clone(), START + 6);
    assert!(waiting.create.is_empty());
    assert_eq!(waiting.next, Some(at(START + 15)));
    assert_eq!(waiting.status.expect("a status").failed, Some(1));
    let after = decide(&job, pods, START + 15);
    assert_eq!(pod::count(&after.create[0], pod::ATTEMPT), 1);
    assert_eq!(pod::count(&after.create[0], pod::FAILURES), 1);
}

#[rstest]
#[case::below(0, 1, false)]
#[case::above(1, 1, true)]
#[case::no_retries(0, 0, true)]
fn the_job_fails_above_the_back_off_limit(
    #[case] attempt: i32,
    #[case] limit: i32,
    #[case] want: bool,
) {
    let mut spec = indexed(2);
    spec["backoffLimit"] = json!(limit);
    let failed = decide(
        &job(spec, running()),
        vec![pod(0, attempt, "Failed", START + 1)],
        START + 2,
    );
    assert_eq!(holds(&failed, "Failed", "BackoffLimitExceeded"), want);
}

#[test]
fn the_job_fails_only_when_nothing_runs_any_more() {
    let mut spec = indexed(2);
    spec["backoffLimit"] = json!(0);
    let survivor = pod(1, 0, "Running", 0);
    let pods = vec![pod(0, 0, "Failed", START + 1), Arc::clone(&survivor)];
    let first = decide(&job(spec.clone(), running()), pods, START + 2);
    assert!(holds(&first, "FailureTarget", "BackoffLimitExceeded"));
    assert!(!holds(&first, "Failed", "BackoffLimitExceeded"));
    assert_eq!(first.delete, std::slice::from_ref(&survivor));
    // The verdict stands even if the failed pod is gone by now.
    let status = serde_json::to_value(first.status).expect("a status");
    let second = decide(
        &job(spec.clone(), status.clone()),
        vec![terminating(&survivor)],
        START + 3,
    );
    assert!(!holds(&second, "Failed", "BackoffLimitExceeded"));
    assert!(second.delete.is_empty());
    let last = decide(&job(spec, status), vec![], START + 4);
    assert!(holds(&last, "Failed", "BackoffLimitExceeded"));
    assert!(last.create.is_empty());
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let mut job = job(indexed(1), running());
    let spec = job.spec.as_mut().expect("a spec");
    spec.backoff_limit = Some(2);
    spec.template.spec.as_mut().expect("a pod").restart_policy = Some("OnFailure".into());
    let restarted = |count: i32| {
        with(&pod(0, 0, "Running", 0), |pod| {
            let status = pod.status.as_mut().expect("a status");
            status.container_statuses.as_mut().expect("containers")[0].restart_count = count;
        })
    };
    let fails = |count| {
        let plan = decide(&job, vec![restarted(count)], START + 1);
        holds(&plan, "FailureTarget", "BackoffLimitExceeded")
    };
    assert!(!fails(1));
    assert!(fails(2));
}

#[test]
fn a_rank_is_not_filled_while_its_pod_is_on_the_way_out() {
    let job = job(indexed(1), running());
    let plan = decide(&job, vec![terminating(&pod(0, 0, "Running", 0))], START + 2);
    assert!(plan.create.is_empty());
    assert_eq!(
        plan.status.as_ref().and_then(|status| status.terminating),
        Some(1)
    );
    assert_eq!(plan.status.and_then(|status| status.failed), None);
}

#[test]
fn a_failure_stays_on_record_when_its_pod_is_gone() {
    let status = json!({ "startTime": stamp(at(START)), "failed": 2 });
    let plan = decide(&job(indexed(1), status), vec![], START + 2);
    assert_eq!(pod::count(&plan.create[0], pod::FAILURES), 2);
    assert_eq!(plan.status.and_then(|status| status.failed), Some(2));
}

#[test]
fn a_pod_of_a_deleted_job_of_the_same_name_blocks_its_rank() {
    let valid = validate(Arc::new(job(indexed(2), running()))).expect("a valid job");
    let observed = Observed {
        strangers: vec![pod(1, 0, "Running", 0)],
        ..Observed::default()
    };
    assert_eq!(created(&plan(&valid, &observed, at(START))), [0]);
    let ended = Observed {
        strangers: vec![pod(1, 0, "Failed", START)],
        ..Observed::default()
    };
    assert_eq!(created(&plan(&valid, &ended, at(START))), [0, 1]);
}

#[test]
fn a_suspended_job_loses_its_pods_and_no_failure_is_counted() {
    let mut spec = indexed(1);
    spec["suspend"] = json!(true);
    let live = pod(0, 0, "Running", 0);
    let held = decide(
        &job(spec.clone(), running()),
        vec![Arc::clone(&live)],
        START + 1,
    );
    assert_eq!(held.delete, std::slice::from_ref(&live));
    assert!(holds(&held, "Suspended", "JobSuspended"));
    let status = held.status.expect("a status");
    assert_eq!((status.start_time.clone(), status.failed), (None, None));
    // Let go while the old pod is still on its way out: it is held until that is gone.
    let status = serde_json::to_value(status).expect("a status");
    let leaving = decide(
        &job(indexed(1), status.clone()),
        vec![terminating(&live)],
        START + 5,
    );
    assert!(leaving.create.is_empty());
    assert!(holds(&leaving, "Suspended", "JobSuspended"));
    let resumed = decide(&job(indexed(1), status), vec![], START + 6);
    assert_eq!(created(&resumed), [0]);
    assert!(holds(&resumed, "Suspended", "JobResumed"));
    let status = resumed.status.expect("a status");
    assert_eq!(
        (status.start_time, status.failed),
        (Some(stamp(at(START + 6))), None)
    );
}

fn evicted(pod: &Arc<Pod>) -> Arc<Pod> {
    disrupted(pod, "EvictionByEvictionAPI")
}

fn disrupted(pod: &Arc<Pod>, reason: &str) -> Arc<Pod> {
    with(pod, |pod| {
        let target = json!([{ "type": "DisruptionTarget", "status": "True", "reason": reason }]);
        let status = pod.status.as_mut().expect("a status");
        status.conditions = serde_json::from_value(target).expect("conditions");
    })
}

/// One pod, no retries; the policy may have its own mind about evictions.
#[rstest]
#[case::evicted(evicted(&pod(0, 0, "Failed", START + 5)), json!([]), None)]
#[case::deleted(terminating(&pod(0, 0, "Failed", START + 5)), json!([]), None)]
#[case::ended_well_when_told(terminating(&pod(0, 0, "Succeeded", START + 5)), json!([]), None)]
#[case::still_ends(terminating(&evicted(&pod(0, 0, "Running", 0))), json!([]), None)]
#[case::node_shut_down_and_it_ended_well(disrupted(&pod(0, 0, "Succeeded", START + 5), "TerminationByKubelet"),
    json!([]), None)]
#[case::chosen_and_never_told(evicted(&pod(0, 0, "Succeeded", START + 5)), json!([]), Some("CompletionsReached"))]
#[case::had_failed_before(terminating(&pod(0, 0, "Failed", START)), json!([]), Some("BackoffLimitExceeded"))]
#[case::had_succeeded_before(terminating(&pod(0, 0, "Succeeded", START)), json!([]), Some("CompletionsReached"))]
#[case::ignored_by_a_rule(evicted(&pod(0, 0, "Failed", START + 5)), json!([
    { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] }]), None)]
#[case::fatal_by_a_rule(terminating(&evicted(&pod(0, 0, "Running", 0))), json!([
    { "action": "FailJob", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] }]),
    Some("PodFailurePolicy"))]
#[case::its_exit_code_says_nothing(terminating(&pod(0, 0, "Failed", START + 5)), json!([
    { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [1] } }]), None)]
fn a_pod_that_is_ended_on_purpose_is_no_verdict(
    #[case] pod: Arc<Pod>,
    #[case] rules: Value,
    #[case] want: Option<&str>,
) {
    let mut spec = indexed(1);
    spec["backoffLimit"] = json!(0);
    spec["podFailurePolicy"] = json!({ "rules": rules });
    let plan = decide(&job(spec, running()), vec![pod], START + 20);
    let told = conditions(&plan);
    assert_eq!(told.first().map(|(_, reason)| reason.as_str()), want);
    if want.is_none() {
        assert_eq!(plan.status.and_then(|status| status.failed), None);
    }
}

#[test]
fn a_job_beyond_the_limits_has_failed_with_the_field() {
    let mut spec = indexed(1);
    spec["parallelism"] = json!(i32::MAX);
    let error = validate(Arc::new(job(spec.clone(), running()))).expect_err("too many");
    let plan = refuse(&job(spec, running()), &error.to_string(), at(START));
    assert!(holds(&plan, "Failed", "InvalidJob"));
    let status = plan.status.expect("a status");
    let told = &status.conditions.expect("conditions")[0].message;
    let want = "spec.parallelism must be from 0 to 2000";
    assert_eq!(told.as_deref(), Some(want));
}

#[test]
fn pods_are_made_some_at_a_time() {
    let plan = decide(&job(indexed(2_000), Value::Null), vec![], START);
    assert_eq!(plan.create.len(), MOST_AT_ONCE);
}

#[test]
fn the_deadline_ends_the_job() {
    let mut spec = indexed(1);
    spec["activeDeadlineSeconds"] = json!(60);
    let job = job(spec, running());
    let before = decide(&job, vec![pod(0, 0, "Running", 0)], START + 59);
    assert_eq!(before.next, Some(at(START + 60)));
    let after = decide(&job, vec![pod(0, 0, "Running", 0)], START + 60);
    assert!(holds(&after, "FailureTarget", "DeadlineExceeded"));
    assert_eq!(after.delete.len(), 1);
}

#[test]
fn a_finished_job_is_deleted_when_its_time_is_up_and_never_runs_again() {
    let mut spec = indexed(1);
    spec["ttlSecondsAfterFinished"] = json!(30);
    let condition =
        json!({ "type": "Complete", "status": "True", "lastTransitionTime": stamp(at(START)) });
    let job = job(spec, json!({ "conditions": [condition] }));
    let before = decide(&job, vec![], START + 29);
    assert!(!before.expired && before.create.is_empty() && before.status.is_none());
    assert_eq!(before.next, Some(at(START + 30)));
    assert!(decide(&job, vec![], START + 500).expired);
}

#[test]
fn a_limit_per_index_lets_the_others_finish() {
    let mut spec = indexed(2);
    spec["backoffLimitPerIndex"] = json!(0);
    let job = job(spec, running());
    let going = decide(
        &job,
        vec![pod(0, 0, "Failed", START), pod(1, 0, "Running", 0)],
        START + 60,
    );
    assert!(going.create.is_empty() && going.delete.is_empty());
    assert_eq!(
        going
            .status
            .and_then(|status| status.failed_indexes)
            .as_deref(),
        Some("0")
    );
    let done = decide(
        &job,
        vec![pod(0, 0, "Failed", START), pod(1, 0, "Succeeded", START)],
        START + 60,
    );
    assert!(holds(&done, "Failed", "FailedIndexes"));
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let mut spec = indexed(3);
    spec["backoffLimitPerIndex"] = json!(0);
    spec["maxFailedIndexes"] = json!(0);
    let pods = vec![pod(0, 0, "Failed", START), pod(1, 0, "Running", 0)];
    let plan = decide(&job(spec, running()), pods, START + 60);
    assert!(holds(&plan, "FailureTarget", "MaxFailedIndexesExceeded"));
}

#[test]
fn a_success_policy_ends_the_job_early() {
    let mut spec = indexed(3);
    spec["successPolicy"] = json!({ "rules": [{ "succeededIndexes": "0", "succeededCount": 1 }] });
    let pods = vec![pod(0, 0, "Succeeded", START), pod(1, 0, "Running", 0)];
    let plan = decide(&job(spec, running()), pods, START + 1);
    assert!(holds(&plan, "SuccessCriteriaMet", "SuccessPolicy"));
    assert_eq!(plan.delete.len(), 1);
    assert!(plan.create.is_empty());
}

#[test]
fn parallelism_limits_and_is_refilled() {
    let mut spec = indexed(4);
    spec["parallelism"] = json!(2);
    let job = job(spec, running());
    assert_eq!(created(&decide(&job, vec![], START)), [0, 1]);
    let pods = vec![pod(0, 0, "Succeeded", START), pod(1, 0, "Running", 0)];
    assert_eq!(created(&decide(&job, pods, START)), [2]);
}

#[test]
fn a_plain_job_needs_so_many_successes_of_any_pod() {
    let job = job(json!({ "completions": 3, "parallelism": 2 }), running());
    let plan = decide(&job, vec![], START);
    assert_eq!(plan.create.len(), 2);
    assert!(plan.create.iter().all(|pod| pod::index(pod).is_none()));
    let ended = |attempt, phase| {
        with(&pod(0, attempt, phase, START), |pod| {
            pod.annotations_mut()
                .remove("batch.kubernetes.io/job-completion-index");
        })
    };
    let next = decide(
        &job,
        vec![ended(0, "Succeeded"), ended(1, "Succeeded")],
        START + 1,
    );
    assert_eq!(next.create.len(), 1);
    assert_eq!(pod::count(&next.create[0], pod::ATTEMPT), 2);
    let all = vec![
        ended(0, "Succeeded"),
        ended(1, "Succeeded"),
        ended(2, "Succeeded"),
    ];
    assert!(holds(
        &decide(&job, all, START + 2),
        "Complete",
        "CompletionsReached"
    ));
}

#[test]
fn a_job_that_is_being_deleted_is_left_alone() {
    let mut job = job(indexed(2), running());
    job.metadata.deletion_timestamp = Some(stamp(at(START)));
    let plan = decide(&job, vec![], START);
    assert!(plan.create.is_empty() && plan.status.is_none());
}
