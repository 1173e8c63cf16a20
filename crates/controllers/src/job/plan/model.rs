//! A gang in a small world of its own: people hold it, let it go and delete its pods, the controller dies between any
//! two requests, and the pods end as they like when they are told to, or when a peer is gone. However that goes, the
//! job completes in the end, and only what the training did itself counts as a failure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::job::validate::validate;

const RANKS: i32 = 3;
const GRACE: i64 = 30;

#[derive(Debug, Clone, Copy)]
enum Step {
    Hold,
    Release,
    /// A reconcile, of which only some of the requests are made.
    Reconcile(usize),
    Bind,
    /// A pod that was told to end does so.
    Obey(i32, i32),
    /// A pod ends because one of its peers did.
    Follow(i32, i32),
    /// A pod ends by itself, with an error.
    Fail(i32),
    Delete(i32),
    /// The node takes what has ended away.
    Sweep,
    Advance(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let code = || prop_oneof![Just(0), Just(1), Just(143)];
    prop_oneof![
        2 => Just(Step::Hold),
        2 => Just(Step::Release),
        6 => prop_oneof![Just(usize::MAX), 0_usize..6].prop_map(Step::Reconcile),
        3 => Just(Step::Bind),
        3 => (0..RANKS, code()).prop_map(|(rank, code)| Step::Obey(rank, code)),
        2 => (0..RANKS, code()).prop_map(|(rank, code)| Step::Follow(rank, code)),
        1 => (0..RANKS).prop_map(Step::Fail),
        1 => (0..RANKS).prop_map(Step::Delete),
        2 => Just(Step::Sweep),
        2 => (0_i64..3).prop_map(Step::Advance),
    ]
}

struct World {
    job: Job,
    pods: Vec<Pod>,
    now: i64,
    /// Errors of the training itself, and restarts that were counted.
    errors: usize,
    counted: usize,
    /// Whether somebody took a pod of this run from the others.
    broken: bool,
}

impl World {
    fn new() -> Self {
        Self {
            job: new_job(0),
            pods: Vec::new(),
            now: 1_000,
            errors: 0,
            counted: 0,
            broken: false,
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_second(self.now).expect("a moment")
    }

    fn ended(&self, kind: &str) -> Option<String> {
        let conditions = self
            .job
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut conditions =
            conditions.filter(|found| found.type_ == kind && found.status == "True");
        conditions
            .next()
            .map(|found| found.reason.clone().unwrap_or_default())
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Hold => self.job.spec.as_mut().expect("a spec").suspend = Some(true),
            Step::Release => self.job.spec.as_mut().expect("a spec").suspend = Some(false),
            Step::Reconcile(requests) => self.reconcile(requests),
            Step::Bind => self.bind(),
            Step::Obey(rank, code) => {
                let told = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
                self.end(rank, code, told);
            }
            Step::Follow(rank, code) if self.broken => {
                self.end(rank, code, |_| true);
            }
            // What nobody disturbs does not fail but by itself.
            Step::Fail(rank) if !self.broken => {
                if self.end(rank, 1, |_| true) {
                    self.errors += 1;
                    self.broken = true;
                }
            }
            Step::Delete(rank) => {
                let found = self
                    .pods
                    .iter()
                    .position(|pod| pod::index(pod) == Some(rank));
                if let Some(found) = found {
                    self.delete(found);
                }
            }
            Step::Sweep => self
                .pods
                .retain(|pod| pod.metadata.deletion_timestamp.is_none() || !pod::is_terminal(pod)),
            Step::Advance(seconds) => self.now += seconds,
            Step::Follow(..) | Step::Fail(_) => {}
        }
    }

    /// Every request but the first `requests` is lost in a crash.
    fn reconcile(&mut self, requests: usize) {
        let valid = validate(Arc::new(self.job.clone())).expect("a valid job");
        let own = self.pods.iter().cloned().map(Arc::new).collect();
        let observed = Observed {
            own,
            ..Observed::default()
        };
        let plan = plan(&valid, &observed, self.at());
        let creations = plan.create.len();
        for mut pod in plan.create.into_iter().take(requests) {
            pod.metadata.uid = Some(format!("{}-{}", pod.name_any(), self.now));
            pod.metadata.creation_timestamp = Some(stamp(self.at()));
            self.pods.push(pod);
        }
        if requests <= creations {
            return;
        }
        if let Some(status) = plan.status {
            self.job.status = Some(status);
        }
        for doomed in plan.delete.iter().take(requests - creations - 1) {
            let found = self
                .pods
                .iter()
                .position(|pod| pod.metadata.uid == doomed.metadata.uid);
            self.delete(found.expect("the pod"));
        }
        self.restart();
    }

    /// What the JobSet does about a failed Job.
    fn restart(&mut self) {
        let Some(reason) = self.ended("Failed") else {
            return;
        };
        if reason != condition::REASON_PODS_DISRUPTED {
            self.counted += 1;
        }
        let suspend = self.job.spec.as_ref().and_then(|spec| spec.suspend);
        self.job = new_job(self.now);
        self.job.spec.as_mut().expect("a spec").suspend = suspend;
        self.pods.clear();
        self.broken = false;
    }

    fn bind(&mut self) {
        let all = usize::try_from(RANKS).expect("a count");
        if self.pods.len() < all
            || self
                .pods
                .iter()
                .any(|pod| pod.metadata.deletion_timestamp.is_some())
        {
            return;
        }
        self.broken = false;
        for pod in &mut self.pods {
            let spec = pod.spec.get_or_insert_default();
            if spec.node_name.is_none() {
                spec.node_name = Some("node-a".into());
                pod.status.get_or_insert_default().phase = Some("Running".into());
            } else if pod::is_terminal(pod) {
                self.broken = true;
            }
        }
    }

    /// As the API server does it: a pod that runs is told, any other is gone at once.
    fn delete(&mut self, position: usize) {
        let until = stamp(Timestamp::from_second(self.now + GRACE).expect("a moment"));
        let pod = &mut self.pods[position];
        let runs = pod::phase(pod) == "Running";
        self.broken |= runs;
        if !runs {
            self.pods.remove(position);
        } else if pod.metadata.deletion_timestamp.is_none() {
            pod.metadata.deletion_timestamp = Some(until);
            pod.metadata.deletion_grace_period_seconds = Some(GRACE);
        }
    }

    fn end(&mut self, rank: i32, code: i32, which: impl Fn(&Pod) -> bool) -> bool {
        let now = stamp(self.at());
        let mut pods = self.pods.iter_mut();
        let found = pods.find(|pod| {
            pod::index(pod) == Some(rank) && pod::phase(pod) == "Running" && which(pod)
        });
        let Some(pod) = found else { return false };
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let status = json!({
            "phase": phase,
            "containerStatuses": [{
                "name": "node", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": { "terminated": { "exitCode": code, "finishedAt": now } },
            }],
        });
        pod.status = Some(serde_json::from_value(status).expect("a status"));
        true
    }

    /// Left alone, the job goes on and every rank ends well.
    fn finish(&mut self) {
        self.take(Step::Release);
        for _ in 0..20 {
            self.reconcile(usize::MAX);
            for rank in 0..RANKS {
                self.take(Step::Obey(rank, 0));
            }
            self.take(Step::Sweep);
            self.take(Step::Bind);
            self.now += 1;
        }
        for rank in 0..RANKS {
            self.end(rank, 0, |_| true);
        }
        self.reconcile(usize::MAX);
    }
}

fn new_job(run: i64) -> Job {
    let owner = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "demo", "uid": "set",
                        "controller": true });
    serde_json::from_value(json!({
        "metadata": { "name": "demo-node-0", "namespace": "ns", "uid": format!("uid-{run}"), "ownerReferences": [owner] },
        "spec": {
            "completionMode": "Indexed", "completions": RANKS, "parallelism": RANKS, "backoffLimit": 0,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "node" }] } },
        },
    }))
    .expect("a valid job")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_job_completes_whatever_is_done_to_it_and_only_its_own_errors_count(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            // None of the steps is the end of the training.
            prop_assert_eq!(world.ended("Complete"), None);
        }
        world.finish();
        prop_assert!(world.ended("Complete").is_some(), "{:?}", world.job.status);
        prop_assert!(world.counted <= world.errors, "{} restarts for {} errors", world.counted, world.errors);
    }
}
