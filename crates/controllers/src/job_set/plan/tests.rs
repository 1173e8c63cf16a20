use serde_json::json;

use super::*;
use crate::clock::stamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

/// A set of `data` and then `node`, which may be started again once.
fn job_set(change: impl FnOnce(&mut Value)) -> JobSet {
    let pod = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "node" }] } } } });
    let mut value = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": "demo", "namespace": "ns", "uid": "set-1", "generation": 1 },
        "spec": {
            "failurePolicy": { "maxRestarts": 1 },
            "replicatedJobs": [
                { "name": "data", "template": pod },
                { "name": "node", "template": pod, "dependsOn": [{ "name": "data", "status": "Complete" }] },
            ],
        },
    });
    change(&mut value);
    let mut set = serde_json::from_value(value).expect("a valid set");
    astrago_plan::default_job_set(&mut set);
    set
}

/// The Job of a template, with a true condition of this type if it is not empty.
fn job(set: &JobSet, template: &str, attempt: i32, condition: &str) -> Arc<Job> {
    let mut jobs = jobs_of(set, attempt).into_iter();
    let mut job = jobs
        .find(|job| template_of(job) == template)
        .expect("a job of the template");
    let conditions = if condition.is_empty() {
        json!([])
    } else {
        json!([{ "type": condition, "status": "True", "reason": "BackoffLimitExceeded",
                 "lastTransitionTime": stamp(at(5)) }])
    };
    job.status =
        serde_json::from_value(json!({ "conditions": conditions })).expect("a valid status");
    Arc::new(job)
}

fn observed(jobs: Vec<Arc<Job>>) -> Observed {
    Observed {
        jobs,
        has_service: true,
    }
}

fn created(plan: &Plan) -> Vec<String> {
    plan.create.iter().map(ResourceExt::name_any).collect()
}

fn ended(plan: &Plan) -> Option<(&str, &str)> {
    let conditions = &plan.status.as_ref()?.conditions;
    let end = conditions
        .iter()
        .find(|condition| ["Completed", "Failed"].contains(&condition.type_.as_str()))?;
    Some((end.type_.as_str(), end.reason.as_str()))
}

#[test]
fn a_new_set_gets_a_service_and_the_jobs_that_wait_for_nothing() {
    let plan = plan(&job_set(|_| {}), &Observed::default(), at(10));
    assert_eq!(
        plan.service.map(|service| service.name_any()).as_deref(),
        Some("demo")
    );
    assert_eq!(
        created(&Plan {
            create: plan.create,
            ..Plan::default()
        }),
        ["demo-data-0"]
    );
}

#[test]
fn a_job_is_created_when_what_it_waits_for_is_complete() {
    let set = job_set(|_| {});
    let waiting = plan(&set, &observed(vec![job(&set, "data", 0, "")]), at(10));
    assert!(waiting.create.is_empty());
    let going = plan(
        &set,
        &observed(vec![job(&set, "data", 0, "Complete")]),
        at(10),
    );
    assert_eq!(created(&going), ["demo-node-0"]);
}

#[test]
fn a_set_is_complete_when_all_its_jobs_are() {
    let set = job_set(|_| {});
    let jobs = vec![
        job(&set, "data", 0, "Complete"),
        job(&set, "node", 0, "Complete"),
    ];
    let plan = plan(&set, &observed(jobs), at(10));
    assert_eq!(ended(&plan), Some(("Completed", "AllJobsCompleted")));
    assert_eq!(
        plan.status
            .and_then(|status| status.terminal_state)
            .as_deref(),
        Some("Completed")
    );
}

#[test]
fn a_failure_restarts_the_set_as_a_whole_and_only_so_often() {
    let set = job_set(|_| {});
    let jobs = vec![
        job(&set, "data", 0, "Complete"),
        job(&set, "node", 0, "Failed"),
    ];
    let first = plan(&set, &observed(jobs.clone()), at(10));
    assert!(first.delete.is_empty() && first.create.is_empty() && ended(&first).is_none());
    let status = first.status.expect("a status");
    assert_eq!((status.restarts, status.restarts_count_towards_max), (1, 1));
    // Now that it is on record, the Jobs of the first attempt go, and their names stay taken until then.
    let mut set = set;
    set.status = Some(status);
    let second = plan(&set, &observed(jobs), at(11));
    assert_eq!(second.delete.len(), 2);
    assert!(second.create.is_empty());
    let third = plan(&set, &observed(vec![]), at(12));
    assert_eq!(created(&third), ["demo-data-0"]);
    assert_eq!(super::super::children::attempt(&third.create[0]), 1);
    // The second attempt fails too, and no restart is left.
    let jobs = vec![
        job(&set, "data", 1, "Complete"),
        job(&set, "node", 1, "Failed"),
    ];
    assert_eq!(
        ended(&plan(&set, &observed(jobs), at(13))),
        Some(("Failed", "ReachedMaxRestarts"))
    );
}

#[test]
fn a_job_of_an_earlier_attempt_that_shows_up_late_restarts_nothing() {
    let mut set = job_set(|_| {});
    set.status = Some(JobSetStatus {
        restarts: 1,
        restarts_count_towards_max: 1,
        ..JobSetStatus::default()
    });
    let jobs = vec![job(&set, "node", 0, "Failed"), job(&set, "data", 1, "")];
    let plan = plan(&set, &observed(jobs), at(10));
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(plan.status.map(|status| status.restarts), Some(1));
}

#[test]
fn a_finished_set_stops_what_still_runs_and_goes_when_its_time_is_up() {
    let condition = json!({ "type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "",
                            "lastTransitionTime": stamp(at(10)) });
    let set = job_set(|set| {
        set["spec"]["ttlSecondsAfterFinished"] = json!(60);
        set["status"] = json!({ "conditions": [condition] });
    });
    let jobs = vec![job(&set, "data", 0, "Complete"), job(&set, "node", 0, "")];
    let before = plan(&set, &observed(jobs.clone()), at(20));
    assert_eq!(before.delete.len(), 1);
    assert_eq!(template_of(&before.delete[0]), "node");
    assert_eq!(before.next, Some(at(70)));
    assert_eq!(before.status, set.status);
    assert!(plan(&set, &observed(jobs), at(70)).expired);
}

#[test]
fn a_job_whose_pods_changed_while_it_was_held_is_made_anew() {
    let mut set = job_set(|_| {});
    let suspended = json!({ "type": "Suspended", "status": "True", "reason": "x", "message": "",
                            "lastTransitionTime": stamp(at(10)) });
    let made = plan(&set, &observed(vec![]), at(5)).create.remove(0);
    let mut held = (*job(
        &job_set(|set| set["spec"]["suspend"] = json!(true)),
        "data",
        0,
        "Suspended",
    ))
    .clone();
    held.metadata.annotations = made.metadata.annotations;
    set.status = serde_json::from_value(json!({ "conditions": [suspended] })).expect("a status");
    let same = plan(&set, &observed(vec![Arc::new(held.clone())]), at(20));
    assert_eq!((same.patch.len(), same.delete.len()), (1, 0));
    let template = set.spec.replicated_jobs[0]
        .template
        .spec
        .as_mut()
        .expect("a job");
    let pod = template.template.spec.get_or_insert_default();
    pod.service_account_name = Some("other".into());
    let changed = plan(&set, &observed(vec![Arc::new(held)]), at(20));
    assert_eq!((changed.patch.len(), changed.delete.len()), (0, 1));
}

#[test]
fn the_counts_of_a_finished_set_are_those_of_its_end_and_nothing_is_active() {
    let condition = json!({ "type": "Completed", "status": "True", "reason": "x", "message": "",
                            "lastTransitionTime": stamp(at(10)) });
    let count = |name: &str, succeeded: i32, active: i32| json!({ "name": name, "ready": active, "succeeded": succeeded, "failed": 0, "active": active, "suspended": 0 });
    let set = job_set(|set| {
        set["status"] = json!({ "conditions": [condition], "restarts": 0,
            "replicatedJobsStatus": [count("node", 0, 1), count("data", 1, 0)] });
    });
    let left = plan(&set, &observed(vec![]), at(20))
        .status
        .expect("a status");
    let counts = serde_json::to_value(left.replicated_jobs_status).expect("counts");
    assert_eq!(counts, json!([count("node", 0, 0), count("data", 1, 0)]));
}

#[test]
fn a_held_set_holds_its_jobs_and_lets_them_go_with_the_placement_of_then() {
    let suspended_set = job_set(|set| set["spec"]["suspend"] = json!(true));
    let running = job_set(|_| {});
    let hold = plan(
        &suspended_set,
        &observed(vec![job(&running, "data", 0, "")]),
        at(10),
    );
    assert_eq!(hold.patch.len(), 1);
    assert_eq!(hold.patch[0].1, json!({ "spec": { "suspend": true } }));
    assert!(api_conditions::is_true(
        &hold.status.expect("a status").conditions,
        "Suspended"
    ));
    let mut resumed = job_set(|set| {
        set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "zone": "b" });
    });
    let suspended = json!({ "type": "Suspended", "status": "True", "reason": "x", "message": "",
                            "lastTransitionTime": stamp(at(10)) });
    resumed.status =
        serde_json::from_value(json!({ "conditions": [suspended] })).expect("a valid status");
    // Not before the Job itself knows that it is held: what still ends of it ends because of that.
    let early = plan(
        &resumed,
        &observed(vec![job(&suspended_set, "data", 0, "")]),
        at(15),
    );
    assert!(early.patch.is_empty() && early.create.is_empty());
    assert!(api_conditions::is_true(
        &early.status.expect("a status").conditions,
        "Suspended"
    ));
    let go = plan(
        &resumed,
        &observed(vec![job(&suspended_set, "data", 0, "Suspended")]),
        at(20),
    );
    assert_eq!(go.patch[0].1["spec"]["suspend"], json!(false));
    assert_eq!(
        go.patch[0].1["spec"]["template"]["spec"]["nodeSelector"],
        json!({ "zone": "b" })
    );
    let status = go.status.expect("a status");
    assert_eq!(status.conditions[0].status, "False");
    assert_eq!(status.conditions[0].last_transition_time, stamp(at(20)));
}

#[test]
fn blocking_recreation_waits_until_all_of_the_old_is_gone() {
    let mut set =
        job_set(|set| set["spec"]["failurePolicy"]["restartStrategy"] = json!("BlockingRecreate"));
    set.status = Some(JobSetStatus {
        restarts: 1,
        ..JobSetStatus::default()
    });
    let old = job(&set, "node", 0, "");
    let mut leaving = (*old).clone();
    leaving.metadata.deletion_timestamp = Some(stamp(at(10)));
    assert!(
        plan(&set, &observed(vec![Arc::new(leaving)]), at(11))
            .create
            .is_empty()
    );
    assert_eq!(
        created(&plan(&set, &observed(vec![]), at(12))),
        ["demo-data-0"]
    );
}

/// The status of `RestartingJobSet`, with its reason.
fn restarting(plan: &Plan) -> Option<(String, String)> {
    let status = plan.status.as_ref()?;
    let condition = api_conditions::find(&status.conditions, condition::RESTARTING)?;
    Some((condition.status.clone(), condition.reason.clone()))
}

fn says(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_set_says_that_it_is_started_again_until_it_runs_ends_or_is_held() {
    let set = job_set(|set| set["spec"]["replicatedJobs"][1]["dependsOn"] = json!([]));
    let jobs = |attempt: i32, first: &str, second: &str| {
        observed(vec![
            job(&set, "data", attempt, first),
            job(&set, "node", attempt, second),
        ])
    };
    assert_eq!(restarting(&plan(&set, &jobs(0, "", ""), at(10))), None);
    let again = plan(&set, &jobs(0, "", "Failed"), at(10));
    assert_eq!(
        restarting(&again),
        Some(says("True", "DefaultFailurePolicy"))
    );
    let with = |change: &dyn Fn(&mut JobSet), jobs: &Observed| {
        let mut set = set.clone();
        set.status.clone_from(&again.status);
        change(&mut set);
        restarting(&plan(&set, jobs, at(20)))
    };
    let as_it_is = |_: &mut JobSet| {};
    // The Jobs of the second attempt are there, and then one of them is ready.
    assert_eq!(
        with(&as_it_is, &jobs(1, "", "")),
        Some(says("True", "DefaultFailurePolicy"))
    );
    assert_eq!(
        with(&as_it_is, &jobs(1, "Complete", "")),
        Some(says("True", "DefaultFailurePolicy"))
    );
    let mut ready = jobs(1, "Complete", "");
    let mut node = (*ready.jobs[1]).clone();
    node.status = serde_json::from_value(json!({ "ready": 1 })).expect("a status");
    ready.jobs[1] = Arc::new(node);
    assert_eq!(with(&as_it_is, &ready), Some(says("False", "JobsReady")));
    let hold = |set: &mut JobSet| set.spec.suspend = Some(true);
    assert_eq!(
        with(&hold, &jobs(1, "", "")),
        Some(says("False", "JobSetSuspended"))
    );
    assert_eq!(
        with(&as_it_is, &jobs(1, "Complete", "Complete")),
        Some(says("False", "JobSetCompleted"))
    );
    assert_eq!(
        with(&as_it_is, &jobs(1, "", "Failed")),
        Some(says("False", "JobSetFailed"))
    );
}

#[test]
fn jobs_of_a_template_that_is_gone_go_too() {
    let set = job_set(|_| {});
    let jobs = vec![job(&set, "data", 0, "Complete"), job(&set, "node", 0, "")];
    let less = job_set(|set| {
        set["spec"]["replicatedJobs"]
            .as_array_mut()
            .expect("templates")
            .truncate(1);
    });
    let plan = plan(&less, &observed(jobs), at(10));
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(template_of(&plan.delete[0]), "node");
    assert_eq!(ended(&plan), Some(("Completed", "AllJobsCompleted")));
}

#[test]
fn jobs_that_are_there_are_not_made_again() {
    let set = job_set(|set| set["spec"]["replicatedJobs"][0]["replicas"] = json!(2));
    let first = job(&set, "data", 0, "");
    for end in ["", "Complete", "Suspended"] {
        let one = job(&set, "data", 0, end);
        assert_eq!(
            created(&plan(&set, &observed(vec![one]), at(10))),
            ["demo-data-1"]
        );
    }
    let mut leaving = (*first).clone();
    leaving.metadata.deletion_timestamp = Some(stamp(at(10)));
    let plan = plan(&set, &observed(vec![Arc::new(leaving)]), at(11));
    assert_eq!(created(&plan), ["demo-data-1"]);
}

#[test]
fn a_service_that_is_there_is_not_made_again() {
    let set = job_set(|_| {});
    let with = |has_service: bool| {
        let observed = Observed {
            jobs: Vec::new(),
            has_service,
        };
        plan(&set, &observed, at(10)).service.is_some()
    };
    assert!(with(false) && !with(true));
}

#[test]
fn a_set_in_order_says_how_far_it_is_and_starts_over_after_a_restart() {
    let mut set = job_set(|set| {
        set["spec"]["startupPolicy"] = json!({ "startupPolicyOrder": "InOrder" });
        set["spec"]["replicatedJobs"][1]["dependsOn"] = json!([]);
    });
    let conditions = |plan: &Plan| -> Vec<(String, String)> {
        let conditions = plan.status.iter().flat_map(|status| &status.conditions);
        conditions
            .map(|one| (one.type_.clone(), one.status.clone()))
            .collect()
    };
    let ready = |set: &JobSet, template: &str, attempt: i32| {
        let mut job = (*job(set, template, attempt, "")).clone();
        job.status = serde_json::from_value(json!({ "ready": 1, "active": 1 })).expect("a status");
        Arc::new(job)
    };
    let step = |set: &mut JobSet, jobs: Vec<Arc<Job>>| {
        let plan = plan(set, &observed(jobs), at(10));
        set.status.clone_from(&plan.status);
        plan
    };
    let known = |kind: &str, holds: &str| (kind.to_owned(), holds.to_owned());
    let under_way = step(&mut set, vec![]);
    assert_eq!(created(&under_way), ["demo-data-0"]);
    assert_eq!(
        conditions(&under_way),
        [known("StartupPolicyInProgress", "True")]
    );
    let second = step(&mut set, vec![ready(&job_set(|_| {}), "data", 0)]);
    assert_eq!(created(&second), ["demo-node-0"]);
    let jobs = ["data", "node"].map(|name| ready(&job_set(|_| {}), name, 0));
    let started = step(&mut set, jobs.to_vec());
    let want = [
        known("StartupPolicyInProgress", "False"),
        known("StartupPolicyCompleted", "True"),
    ];
    assert_eq!(conditions(&started), want);
    let failed = vec![
        ready(&job_set(|_| {}), "data", 0),
        job(&job_set(|_| {}), "node", 0, "Failed"),
    ];
    step(&mut set, failed);
    let again = step(&mut set, vec![]);
    assert_eq!(created(&again), ["demo-data-0"]);
    assert_eq!(
        conditions(&again)[0],
        known("StartupPolicyInProgress", "True")
    );
    assert_eq!(
        conditions(&again)[1],
        known("StartupPolicyCompleted", "False")
    );
}
