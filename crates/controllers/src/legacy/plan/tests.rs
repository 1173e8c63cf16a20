//! The rules of a v1 job's life, without an API server: states in, plans out.

use astrago_api::legacy::{JAXJob, MPIJob, PyTorchJob, TFJob};
use astrago_plan::legacy::LegacyKind;
use proptest::prelude::*;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

fn replica(container: &str, count: i32, restart_policy: &str) -> Value {
    json!({ "replicas": count, "restartPolicy": restart_policy,
        "template": { "spec": { "containers": [{ "name": container, "image": "i" }] } } })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better with json! in place"
)]
fn job(run_policy: Value, specs: Value) -> TrainingJob {
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": { "name": "j", "namespace": "n", "uid": "u" },
        "spec": { "runPolicy": run_policy, "pytorchReplicaSpecs": specs } });
    let job: PyTorchJob = serde_json::from_value(object).expect("a job");
    TrainingJob::of(&job).expect("a valid job")
}

fn master_and_worker(run_policy: Value, restart_policy: &str) -> TrainingJob {
    let one = replica("pytorch", 1, restart_policy);
    job(run_policy, json!({ "Master": one, "Worker": one }))
}

/// A pod in this phase; `Failed:137` is one whose container ended so.
fn pod(name: &str, uid: &str, phase: &str) -> Arc<Pod> {
    let (phase, code) = phase.split_once(':').unwrap_or((phase, ""));
    let ended = code.parse::<i32>().ok();
    let containers = ended.map(|code| {
        json!([{ "name": "pytorch", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code } } }])
    });
    let pod = json!({ "metadata": { "name": name, "uid": uid }, "status": { "phase": phase, "containerStatuses": containers } });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn pods(phases: &[(&str, &str)]) -> Observed {
    Observed {
        pods: phases
            .iter()
            .map(|(name, phase)| pod(name, &format!("uid-{name}"), phase))
            .collect(),
        ..Observed::default()
    }
}

fn decide(job: &TrainingJob, known: &LegacyJobStatus, observed: &Observed, now: i64) -> Plan {
    plan(job, &ObjectReference::default(), known, observed, at(now))
}

fn state(plan: &Plan) -> &str {
    let conditions = plan.status.iter().flat_map(|status| &status.conditions);
    conditions
        .last()
        .map_or("", |condition| condition.type_.as_str())
}

#[test]
fn a_new_job_gets_its_pods_and_services() {
    let plan = decide(
        &master_and_worker(json!({}), "OnFailure"),
        &LegacyJobStatus::default(),
        &Observed::default(),
        1,
    );
    assert_eq!(state(&plan), CREATED);
    let names: Vec<_> = plan.create_pods.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["j-master-0", "j-worker-0"]);
    assert_eq!(plan.create_services.len(), 2);
    let status = plan.status.expect("a status");
    assert_eq!(status.start_time, Some(stamp(at(1))));
}

#[rstest]
#[case::starting("OnFailure", &[("j-master-0", "Pending"), ("j-worker-0", "Running")], CREATED)]
#[case::running("OnFailure", &[("j-master-0", "Running"), ("j-worker-0", "Pending")], RUNNING)]
#[case::master_done("OnFailure", &[("j-master-0", "Succeeded"), ("j-worker-0", "Running")], SUCCEEDED)]
#[case::master_done_worker_failed("Never", &[("j-master-0", "Succeeded"), ("j-worker-0", "Failed:1")], SUCCEEDED)]
#[case::worker_done("OnFailure", &[("j-master-0", "Running"), ("j-worker-0", "Succeeded")], RUNNING)]
#[case::worker_failed("Never", &[("j-master-0", "Running"), ("j-worker-0", "Failed:1")], FAILED)]
#[case::worker_evicted("OnFailure", &[("j-master-0", "Running"), ("j-worker-0", "Failed")], RESTARTING)]
#[case::worker_killed("ExitCode", &[("j-master-0", "Running"), ("j-worker-0", "Failed:137")], RESTARTING)]
#[case::worker_wrong("ExitCode", &[("j-master-0", "Running"), ("j-worker-0", "Failed:2")], FAILED)]
fn the_state_follows_from_the_pods(
    #[case] policy: &str,
    #[case] phases: &[(&str, &str)],
    #[case] want: &str,
) {
    let plan = decide(
        &master_and_worker(json!({}), policy),
        &LegacyJobStatus::default(),
        &pods(phases),
        1,
    );
    assert_eq!(state(&plan), want);
    let ended = plan.status.expect("a status").completion_time.is_some();
    assert_eq!(ended, [SUCCEEDED, FAILED].contains(&want));
}

#[rstest]
#[case::none("None", &[])]
#[case::running("Running", &["j-worker-0", "j-worker-1"])]
#[case::all("All", &["j-master-0", "j-worker-0", "j-worker-1"])]
fn the_clean_pod_policy_says_who_goes(#[case] policy: &str, #[case] want: &[&str]) {
    let specs = json!({ "Master": replica("pytorch", 1, "Never"), "Worker": replica("pytorch", 2, "Never") });
    let job = job(json!({ "cleanPodPolicy": policy }), specs);
    let observed = pods(&[
        ("j-master-0", "Succeeded"),
        ("j-worker-0", "Running"),
        ("j-worker-1", "Pending"),
    ]);
    let end = decide(&job, &LegacyJobStatus::default(), &observed, 1);
    let status = end.status.expect("a status");
    if policy == "Running" {
        // They mostly end by themselves a moment later.
        assert_eq!((end.delete_pods.len(), end.next), (0, Some(at(11))));
    }
    // From the record alone, as after a crash.
    let plan = decide(&job, &status, &observed, 11);
    let mut names: Vec<_> = plan.delete_pods.iter().map(|pod| pod.name_any()).collect();
    names.sort();
    assert_eq!(names, want);
    assert!(plan.create_pods.is_empty() && plan.status.is_none());
}

#[test]
fn a_deadline_has_a_timer_and_ends_what_runs() {
    let job = master_and_worker(json!({ "activeDeadlineSeconds": 10 }), "OnFailure");
    let observed = pods(&[("j-master-0", "Running"), ("j-worker-0", "Running")]);
    let plan = decide(&job, &LegacyJobStatus::default(), &observed, 100);
    assert_eq!(plan.next, Some(at(110)));
    let late = decide(&job, &plan.status.expect("a status"), &observed, 110);
    assert_eq!((state(&late), late.delete_pods.len()), (FAILED, 2));
}

#[test]
fn a_job_is_deleted_only_after_its_end_is_on_record() {
    let job = master_and_worker(json!({ "ttlSecondsAfterFinished": 0 }), "Never");
    let observed = pods(&[("j-master-0", "Failed:1"), ("j-worker-0", "Running")]);
    let end = decide(&job, &LegacyJobStatus::default(), &observed, 5);
    assert_eq!(
        (state(&end), end.expired, end.next),
        (FAILED, false, Some(at(5)))
    );
    assert!(decide(&job, &end.status.expect("a status"), &observed, 5).expired);
}

#[test]
fn fewer_replicas_mean_fewer_pods() {
    let job = master_and_worker(json!({}), "OnFailure");
    let observed = pods(&[
        ("j-master-0", "Running"),
        ("j-worker-0", "Running"),
        ("j-worker-1", "Running"),
    ]);
    let plan = decide(&job, &LegacyJobStatus::default(), &observed, 1);
    assert_eq!(plan.delete_pods[0].name_any(), "j-worker-1");
}

/// A job of another kind, whose replicas have so many pods each and no restarts.
fn of<K: LegacyKind + DeserializeOwned>(
    spec: &Value,
    field: &str,
    replicas: &[(&str, i32)],
) -> TrainingJob {
    let kind = K::kind(&()).into_owned();
    let container = K::framework().container;
    let mut spec = spec.clone();
    for (replica_type, count) in replicas {
        spec[field][*replica_type] = replica(container, *count, "Never");
    }
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": kind,
        "metadata": { "name": "j", "namespace": "n", "uid": "u" }, "spec": spec });
    let job: K = serde_json::from_value(object).expect("a job");
    TrainingJob::of(&job).expect("a valid job")
}

fn workers(spec: &Value) -> TrainingJob {
    of::<PyTorchJob>(spec, "pytorchReplicaSpecs", &[("Worker", 2)])
}

fn tensorflow(spec: &Value, replicas: &[(&str, i32)]) -> TrainingJob {
    of::<TFJob>(spec, "tfReplicaSpecs", replicas)
}

fn mpi() -> TrainingJob {
    let replicas = [("Launcher", 1), ("Worker", 2)];
    of::<MPIJob>(&json!({}), "mpiReplicaSpecs", &replicas)
}

const FIRST_IS_DONE: &[(&str, &str)] = &[("j-worker-0", "Succeeded"), ("j-worker-1", "Running")];
const SECOND_IS_DONE: &[(&str, &str)] = &[("j-worker-0", "Running"), ("j-worker-1", "Succeeded")];
const BOTH_ARE_DONE: &[(&str, &str)] = &[("j-worker-0", "Succeeded"), ("j-worker-1", "Succeeded")];
const CHIEF: &[(&str, i32)] = &[("Chief", 1), ("Worker", 1), ("PS", 1), ("Evaluator", 1)];

#[rstest]
#[case::pytorch_one_is_not_all(workers(&json!({})), FIRST_IS_DONE, RUNNING)]
#[case::pytorch_all(workers(&json!({})), BOTH_ARE_DONE, SUCCEEDED)]
#[case::elastic_one_is_enough(workers(&json!({ "elasticPolicy": { "minReplicas": 1 } })), SECOND_IS_DONE, SUCCEEDED)]
#[case::jax_one_is_not_all(of::<JAXJob>(&json!({}), "jaxReplicaSpecs", &[("Worker", 2)]), FIRST_IS_DONE, RUNNING)]
#[case::jax_all(of::<JAXJob>(&json!({}), "jaxReplicaSpecs", &[("Worker", 2)]), BOTH_ARE_DONE, SUCCEEDED)]
#[case::tensorflow_first(tensorflow(&json!({}), &[("Worker", 2)]), FIRST_IS_DONE, SUCCEEDED)]
#[case::tensorflow_another(tensorflow(&json!({}), &[("Worker", 2)]), SECOND_IS_DONE, RUNNING)]
#[case::tensorflow_not_all(tensorflow(&json!({ "successPolicy": "AllWorkers" }), &[("Worker", 2)]), FIRST_IS_DONE, RUNNING)]
#[case::tensorflow_all(tensorflow(&json!({ "successPolicy": "AllWorkers" }), &[("Worker", 2)]), BOTH_ARE_DONE, SUCCEEDED)]
#[case::the_chief_decides(tensorflow(&json!({}), CHIEF),
    &[("j-chief-0", "Succeeded"), ("j-worker-0", "Running"), ("j-ps-0", "Running"), ("j-evaluator-0", "Running")], SUCCEEDED)]
#[case::a_worker_does_not(tensorflow(&json!({}), CHIEF),
    &[("j-chief-0", "Running"), ("j-worker-0", "Succeeded"), ("j-ps-0", "Running"), ("j-evaluator-0", "Running")], RUNNING)]
#[case::a_server_that_fails_ends_all(tensorflow(&json!({}), CHIEF),
    &[("j-chief-0", "Running"), ("j-worker-0", "Running"), ("j-ps-0", "Failed:1"), ("j-evaluator-0", "Running")], FAILED)]
#[case::servers_need_not_end(tensorflow(&json!({}), &[("Worker", 1), ("PS", 1)]),
    &[("j-worker-0", "Succeeded"), ("j-ps-0", "Running")], SUCCEEDED)]
#[case::mpi_waits_for_all_workers(mpi(),
    &[("j-launcher", "Running"), ("j-worker-0", "Running"), ("j-worker-1", "Pending")], CREATED)]
#[case::mpi_runs(mpi(), &[("j-launcher", "Running"), ("j-worker-0", "Running"), ("j-worker-1", "Running")], RUNNING)]
#[case::the_launcher_decides(mpi(),
    &[("j-launcher", "Succeeded"), ("j-worker-0", "Running"), ("j-worker-1", "Running")], SUCCEEDED)]
#[case::the_launcher_fails(mpi(),
    &[("j-launcher", "Failed:1"), ("j-worker-0", "Running"), ("j-worker-1", "Running")], FAILED)]
fn every_kind_goes_by_those_that_lead(
    #[case] job: TrainingJob,
    #[case] phases: &[(&str, &str)],
    #[case] want: &str,
) {
    let plan = decide(&job, &LegacyJobStatus::default(), &pods(phases), 1);
    assert_eq!(state(&plan), want);
}

/// Holding takes everything away, whatever is to stay after an end; the time of a deadline counts from letting go.
#[rstest]
#[case::none("None")]
#[case::running("Running")]
#[case::all("All")]
fn a_held_job_keeps_nothing_and_its_time_begins_anew(#[case] clean: &str) {
    let policy = |suspend: bool| {
        let policy =
            json!({ "cleanPodPolicy": clean, "suspend": suspend, "activeDeadlineSeconds": 10 });
        master_and_worker(policy, "OnFailure")
    };
    let observed = pods(&[("j-master-0", "Running"), ("j-worker-0", "Succeeded")]);
    let before = pods(&[("j-master-0", "Running"), ("j-worker-0", "Running")]);
    let known = decide(&policy(false), &LegacyJobStatus::default(), &before, 1);
    let held = decide(
        &policy(true),
        &known.status.expect("a status"),
        &observed,
        5,
    );
    assert_eq!((state(&held), held.delete_pods.len()), (SUSPENDED, 2));
    assert!(held.create_pods.is_empty() && held.next.is_none());
    let status = held.status.expect("a status");
    assert_eq!(status.start_time, None);
    let active: i32 = status
        .replica_statuses
        .values()
        .map(|kind| kind.active)
        .sum();
    assert_eq!(active, 0);
    // Let go while a pod is left that ended meanwhile: it stays held until that is gone.
    let left = pods(&[("j-master-0", "Succeeded")]);
    let leaving = decide(&policy(false), &status, &left, 400);
    assert_eq!(
        (leaving.create_pods.len(), leaving.delete_pods.len()),
        (0, 1)
    );
    assert!(leaving.status.is_none());
    let resumed = decide(&policy(false), &status, &Observed::default(), 500);
    assert_eq!(
        (resumed.create_pods.len(), resumed.next),
        (2, Some(at(510)))
    );
    let status = resumed.status.expect("a status");
    assert_eq!(status.start_time, Some(stamp(at(500))));
    let suspended = status
        .conditions
        .iter()
        .find(|known| known.type_ == SUSPENDED);
    let suspended = suspended.expect("the condition stays");
    let shown = status.conditions.last().expect("conditions");
    assert_eq!(shown.type_, CREATED);
    let want = ("False", Some("PyTorchJobResumed"));
    assert_eq!(
        (suspended.status.as_str(), suspended.reason.as_deref()),
        want
    );
}

/// Also where upstream leaves no time of completion, so that the TTL never comes: after a permanent exit code.
#[rstest]
#[case::succeeded("OnFailure", "Succeeded")]
#[case::permanent("ExitCode", "Failed:2")]
#[case::never("Never", "Failed:137")]
fn the_ttl_counts_from_every_end(#[case] policy: &str, #[case] master: &str) {
    let job = master_and_worker(json!({ "ttlSecondsAfterFinished": 60 }), policy);
    let observed = pods(&[("j-master-0", master), ("j-worker-0", "Running")]);
    let end = decide(&job, &LegacyJobStatus::default(), &observed, 5);
    let status = end.status.expect("a status");
    let early = decide(&job, &status, &observed, 64);
    assert_eq!((early.expired, early.next), (false, Some(at(65))));
    // Nobody looked for a long time.
    assert!(decide(&job, &status, &observed, 5000).expired);
}

proptest! {
    /// Whatever happens between looks (a crash, a slow deletion, several looks at the same pods), a pod that fails
    /// again and again is made anew exactly as often as the limit says, and then the job has failed.
    #[test]
    fn restarts_are_counted_once(limit in 0..6_i32, looks in prop::collection::vec(1..4_usize, 8)) {
        let job = master_and_worker(json!({ "backoffLimit": limit }), "ExitCode");
        let mut status = LegacyJobStatus::default();
        let mut replaced = 0;
        for (attempt, looks) in looks.into_iter().enumerate() {
            let worker = pod("j-worker-0", &format!("attempt-{attempt}"), "Failed:137");
            let observed = Observed {
                pods: vec![pod("j-master-0", "m", "Running"), worker],
                ..Observed::default()
            };
            let mut deleted = false;
            for _ in 0..looks {
                let plan = decide(&job, &status, &observed, 1);
                deleted |= plan.delete_pods.iter().any(|pod| pod.name_any() == "j-worker-0");
                status = plan.status.unwrap_or(status);
            }
            if conditions::end(&status).is_some() {
                break;
            }
            prop_assert!(deleted);
            replaced += 1;
            prop_assert_eq!(status.replica_statuses["Worker"].restarts, replaced);
        }
        prop_assert_eq!(replaced, limit);
        prop_assert!(conditions::holds(&status, FAILED).is_some());
    }

    /// Whatever happens to the pods of a job, its owner and the clock: a place has one pod at most, restarts stay within the
    /// limit, a held job has no pods, a deadline ends what runs, and what has ended stays as it ended.
    #[test]
    fn the_rules_hold_over_a_whole_life(
        limit in prop::option::of(0..4_i32),
        deadline in prop::option::of(20..200_i64),
        clean in prop_oneof![Just("None"), Just("Running"), Just("All")],
        restart in prop_oneof![Just("Never"), Just("OnFailure"), Just("ExitCode")],
        steps in prop::collection::vec(life::step(), 1..60),
    ) {
        let mut life = life::Life::new(limit, deadline, clean, restart);
        for step in steps {
            life.take(step);
            if let Some(wrong) = life.wrong() {
                return Err(TestCaseError::fail(wrong));
            }
        }
    }
}

/// A job with its pods, without an API server: what a plan says is done at once, and the pods live as told.
mod life {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Step {
        /// A pod that waits runs.
        Start(usize),
        /// A pod that runs ends.
        End(usize, i32),
        /// A pod goes with its node, without an exit code.
        Lose(usize),
        Hold(bool),
        Pass(i64),
    }

    pub(super) fn step() -> impl Strategy<Value = Step> {
        let place = 0..3_usize;
        let code = prop_oneof![Just(0), Just(1), Just(127), Just(128), Just(137), Just(143)];
        prop_oneof![
            6 => place.clone().prop_map(Step::Start),
            4 => (place.clone(), code).prop_map(|(place, code)| Step::End(place, code)),
            1 => place.prop_map(Step::Lose),
            1 => any::<bool>().prop_map(Step::Hold),
            2 => (1..60_i64).prop_map(Step::Pass),
        ]
    }

    pub(super) struct Life {
        policy: Value,
        restart: &'static str,
        limit: Option<i32>,
        deadline: Option<i64>,
        now: i64,
        made: usize,
        pods: BTreeMap<String, Arc<Pod>>,
        status: LegacyJobStatus,
        wrong: Option<String>,
    }

    impl Life {
        pub(super) fn new(
            limit: Option<i32>,
            deadline: Option<i64>,
            clean: &'static str,
            restart: &'static str,
        ) -> Self {
            let policy = json!({ "backoffLimit": limit, "activeDeadlineSeconds": deadline, "cleanPodPolicy": clean });
            let mut life = Self {
                policy,
                restart,
                limit,
                deadline,
                now: 1,
                made: 0,
                pods: BTreeMap::new(),
                status: LegacyJobStatus::default(),
                wrong: None,
            };
            life.settle();
            life
        }

        pub(super) fn take(&mut self, step: Step) {
            let names = ["j-master-0", "j-worker-0", "j-worker-1"];
            match step {
                Step::Start(place) => self.turn(names[place], "Pending", "Running"),
                Step::End(place, 0) => self.turn(names[place], "Running", "Succeeded"),
                Step::End(place, code) => {
                    self.turn(names[place], "Running", &format!("Failed:{code}"));
                }
                Step::Lose(place) => self.turn(names[place], "Running", "Failed"),
                Step::Hold(hold) => self.policy["suspend"] = json!(hold),
                Step::Pass(seconds) => self.now += seconds,
            }
            self.settle();
        }

        pub(super) fn wrong(&self) -> Option<String> {
            self.wrong.clone()
        }

        fn job(&self) -> TrainingJob {
            let specs = json!({ "Master": replica("pytorch", 1, self.restart), "Worker": replica("pytorch", 2, self.restart) });
            job(self.policy.clone(), specs)
        }

        fn held(&self) -> bool {
            self.policy["suspend"] == json!(true)
        }

        fn turn(&mut self, name: &str, from: &str, to: &str) {
            let Some(old) = self.pods.get(name).filter(|old| pod::phase(old) == from) else {
                return;
            };
            let uid = old.uid().unwrap_or_default();
            self.pods
                .insert(name.to_owned(), super::pod(name, &uid, to));
        }

        /// Looks until there is nothing left to do, as the controller does.
        fn settle(&mut self) {
            let ended = conditions::end(&self.status).cloned();
            for _ in 0..20 {
                if !self.look() {
                    break;
                }
            }
            let claim =
                |claim: bool, text: &str| (!claim).then(|| format!("{text}: {:?}", self.status));
            let restarts: i32 = self
                .status
                .replica_statuses
                .values()
                .map(|status| status.restarts)
                .sum();
            let end = conditions::end(&self.status);
            let since = self
                .status
                .start_time
                .as_ref()
                .map(|time| time.0.as_second());
            let late = self
                .deadline
                .zip(since)
                .is_some_and(|(deadline, since)| self.now >= since + deadline);
            let wrong = [
                claim(
                    self.limit.is_none_or(|limit| restarts <= limit),
                    "too many restarts",
                ),
                claim(ended.is_none() || end == ended.as_ref(), "an end changed"),
                claim(
                    end.is_some() == self.status.completion_time.is_some(),
                    "an end without its time",
                ),
                claim(
                    end.is_some() || !self.held() || self.pods.is_empty(),
                    "a held job has pods",
                ),
                claim(
                    end.is_some() || self.held() || !late,
                    "a job outlived its deadline",
                ),
                claim(
                    end.is_some() || self.held() || self.pods.len() == 3,
                    "a job that runs lacks pods",
                ),
            ];
            let wrong = wrong.into_iter().flatten().next();
            self.wrong = self.wrong.take().or(wrong);
        }

        /// Makes a plan and carries it out; says whether there was anything to do.
        fn look(&mut self) -> bool {
            let over = conditions::end(&self.status).is_some();
            let observed = Observed {
                pods: self.pods.values().cloned().collect(),
                ..Observed::default()
            };
            let plan = decide(&self.job(), &self.status, &observed, self.now);
            let busy = plan.status.is_some()
                || !plan.delete_pods.is_empty()
                || !plan.create_pods.is_empty();
            for pod in &plan.delete_pods {
                self.pods.remove(&pod.name_any());
            }
            for made in &plan.create_pods {
                self.made += 1;
                let name = made.name_any();
                let pod = super::pod(&name, &format!("uid-{}", self.made), "Pending");
                if over {
                    self.wrong = Some(format!("{name} was made after the end"));
                }
                if self.pods.insert(name.clone(), pod).is_some() {
                    self.wrong = Some(format!("two pods called {name}"));
                }
            }
            self.status = plan.status.unwrap_or_else(|| self.status.clone());
            busy
        }
    }
}
