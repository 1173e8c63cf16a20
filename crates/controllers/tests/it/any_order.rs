//! Whatever users, nodes and crashes do, and in whatever order: what must never be is never seen, and in the end
//! nothing is left.
//!
//! A watch on the pods looks at every state that any client could have seen, so the checks are about what was, not
//! about what happened to be there when somebody looked.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use astrago_api::{JobSet, TrainJob};
use astrago_controllers::{Election, Options};
use astrago_testkit::{Plane, eventually, train_job};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Every node of every job asks for one; so three jobs of two do not fit at once.
const CPUS: i32 = 5;
const NODES: i32 = 2;
const MAX_RESTARTS: i32 = 2;
const JOBS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Delete(usize),
    Suspend(usize, bool),
    EndPod {
        job: usize,
        rank: i32,
        exit_code: i32,
    },
    DeletePod {
        job: usize,
        rank: i32,
    },
    DeleteJobSet(usize),
    DeleteJob(usize),
    Crash,
    Advance(i64),
    Breathe(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0..JOBS.len();
    prop_oneof![
        4 => job.clone().prop_map(Step::Create),
        1 => job.clone().prop_map(Step::Delete),
        2 => (job.clone(), any::<bool>()).prop_map(|(job, hold)| Step::Suspend(job, hold)),
        6 => (job.clone(), 0..NODES, prop_oneof![Just(0), Just(1), Just(137)])
            .prop_map(|(job, rank, exit_code)| Step::EndPod { job, rank, exit_code }),
        2 => (job.clone(), 0..NODES).prop_map(|(job, rank)| Step::DeletePod { job, rank }),
        1 => job.clone().prop_map(Step::DeleteJobSet),
        1 => job.prop_map(Step::DeleteJob),
        3 => Just(Step::Crash),
        2 => (1_i64..30).prop_map(Step::Advance),
        // Somebody sets the clock.
        1 => prop_oneof![Just(-86_400), Just(-90), Just(90), Just(86_400)].prop_map(Step::Advance),
        8 => (1_usize..200).prop_map(Step::Breathe),
    ]
}

#[test]
fn nothing_forbidden_is_ever_seen_and_nothing_is_left_in_the_end() {
    run(10, 1);
}

/// Two copies of the controllers, of which a lease lets one work; a crash hits the one and the other in turn.
#[test]
fn nor_with_two_copies_that_take_over_from_each_other() {
    run(3, 2);
}

fn run(cases: u32, copies: usize) {
    let config = Config {
        cases,
        max_shrink_iters: 30,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut runner = TestRunner::new(config);
    let result = runner.run(&prop::collection::vec(step(), 10..40), |steps| {
        runtime
            .block_on(live(steps, copies))
            .map_err(TestCaseError::fail)
    });
    assert!(result.is_ok(), "{}", result.expect_err("a failure"));
}

/// One world: the steps, then the end of all jobs.
async fn live(steps: Vec<Step>, copies: usize) -> Result<(), String> {
    let cpus = CPUS.to_string();
    let plane = Plane::with_node(&[("cpu", &cpus), ("memory", "64Gi"), ("pods", "100")]).await;
    let witness = Witness::start(plane.client.clone());
    let mut crew = Crew::start(&plane, copies);
    for step in steps {
        take(&plane, &mut crew, step).await;
    }
    for job in JOBS {
        let _ = plane
            .api::<TrainJob>()
            .delete(job, &DeleteParams::background())
            .await;
    }
    plane.until_none::<TrainJob>().await;
    plane.until_none::<JobSet>().await;
    plane.until_none::<Job>().await;
    plane.until_none::<Pod>().await;
    eventually("no service is left", || async {
        let left = plane
            .list::<Service>()
            .await
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>();
        if left.iter().any(|name| JOBS.contains(&name.as_str())) {
            Err(format!("{left:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    crew.stop().await;
    witness.verdict()
}

/// The copies of the controllers.
struct Crew {
    copies: Vec<(CancellationToken, JoinHandle<()>)>,
    crashes: usize,
}

impl Crew {
    fn start(plane: &Plane, copies: usize) -> Self {
        let elected = copies > 1;
        Self {
            copies: (0..copies)
                .map(|copy| Self::copy(plane, &format!("copy-{copy}"), elected))
                .collect(),
            crashes: 0,
        }
    }

    fn copy(plane: &Plane, identity: &str, elected: bool) -> (CancellationToken, JoinHandle<()>) {
        let options = Options {
            clock: Arc::new(plane.clock.clone()),
            election: elected.then(|| Election {
                namespace: "kube-system".into(),
                name: "astrago-controllers".into(),
                identity: identity.into(),
                duration: Duration::from_millis(600),
            }),
            ..Options::embedded()
        };
        let stop = CancellationToken::new();
        let work = astrago_controllers::run(plane.client.clone(), options, stop.clone());
        (stop, tokio::spawn(work))
    }

    /// Ends a copy in the middle of whatever it does, and starts it anew.
    async fn crash(&mut self, plane: &Plane) {
        let hit = self.crashes % self.copies.len();
        self.crashes += 1;
        let (_, old) = &mut self.copies[hit];
        old.abort();
        let _ = old.await;
        // Under another name, so that the other copy has its chance.
        let identity = format!("copy-{hit}-{}", self.crashes);
        self.copies[hit] = Self::copy(plane, &identity, self.copies.len() > 1);
    }

    async fn stop(self) {
        for (stop, _) in &self.copies {
            stop.cancel();
        }
        for (_, task) in self.copies {
            task.await.expect("the controllers end without a panic");
        }
    }
}

/// Does one step. What it is about may not be there; then it is no step.
async fn take(plane: &Plane, crew: &mut Crew, step: Step) {
    match step {
        Step::Create(job) => {
            let job = train_job(JOBS[job])
                .nodes(NODES)
                .cpus(1)
                .max_restarts(MAX_RESTARTS)
                .build();
            let _ = plane
                .api::<TrainJob>()
                .create(&PostParams::default(), &job)
                .await;
        }
        Step::Delete(job) => {
            let _ = plane
                .api::<TrainJob>()
                .delete(JOBS[job], &DeleteParams::background())
                .await;
        }
        Step::Suspend(job, hold) => {
            let patch = Patch::Merge(json!({ "spec": { "suspend": hold } }));
            let _ = plane
                .api::<TrainJob>()
                .patch(JOBS[job], &PatchParams::default(), &patch)
                .await;
        }
        Step::EndPod {
            job,
            rank,
            exit_code,
        } => {
            plane
                .node
                .end_if_running(&job_name(job), rank, exit_code)
                .await;
        }
        Step::DeletePod { job, rank } => {
            for pod in plane.list::<Pod>().await {
                if pod
                    .name_any()
                    .starts_with(&format!("{}-{rank}-", job_name(job)))
                {
                    let _ = plane
                        .api::<Pod>()
                        .delete(&pod.name_any(), &DeleteParams::default())
                        .await;
                }
            }
        }
        Step::DeleteJobSet(job) => {
            let _ = plane
                .api::<JobSet>()
                .delete(JOBS[job], &DeleteParams::background())
                .await;
        }
        Step::DeleteJob(job) => {
            let _ = plane
                .api::<Job>()
                .delete(&job_name(job), &DeleteParams::background())
                .await;
        }
        Step::Crash => crew.crash(plane).await,
        Step::Advance(seconds) => {
            plane.clock.advance(seconds);
            plane.node.beat().await;
        }
        Step::Breathe(turns) => {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn job_name(job: usize) -> String {
    format!("{}-node-0", JOBS[job])
}

/// Looks at every state of every pod and set.
struct Witness {
    seen: Arc<Mutex<Vec<String>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Witness {
    fn start(client: Client) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let pods = tokio::spawn(watch_pods(client.clone(), Arc::clone(&seen)));
        let sets = tokio::spawn(watch_sets(client, Arc::clone(&seen)));
        Self {
            seen,
            tasks: vec![pods, sets],
        }
    }

    fn verdict(self) -> Result<(), String> {
        for task in self.tasks {
            task.abort();
        }
        let seen = self.seen.lock().expect("not poisoned");
        if seen.is_empty() {
            Ok(())
        } else {
            Err(seen.join("; "))
        }
    }
}

async fn watch_pods(client: Client, seen: Arc<Mutex<Vec<String>>>) {
    let mut live: HashMap<String, Pod> = HashMap::new();
    let mut gangs: HashMap<String, HashSet<String>> = HashMap::new();
    let events = watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => live.clear(),
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                let part = part_of_a_gang(&mut gangs, &pod);
                seen.lock().expect("not poisoned").extend(part);
                let phase = pod
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.clone())
                    .unwrap_or_default();
                if ["Succeeded", "Failed"].contains(&phase.as_str()) {
                    live.remove(&pod.name_any());
                } else {
                    live.insert(pod.name_any(), pod);
                }
                let mut seen = seen.lock().expect("not poisoned");
                seen.extend(two_of_a_rank(&live));
                seen.extend(too_many_cpus(&live));
            }
            Ok(watcher::Event::Delete(pod)) => {
                live.remove(&pod.name_any());
            }
            Ok(watcher::Event::InitDone) | Err(_) => {}
        }
    }
}

/// A pod has a place although others of its gang were never made.
fn part_of_a_gang(gangs: &mut HashMap<String, HashSet<String>>, pod: &Pod) -> Option<String> {
    let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
    let ranks = gangs
        .entry(label("batch.kubernetes.io/controller-uid"))
        .or_default();
    ranks.insert(label("batch.kubernetes.io/job-completion-index"));
    let bound = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    let missing = ranks.len() < usize::try_from(NODES).unwrap_or(0);
    (bound && missing).then(|| format!("{} has a node before its gang is there", pod.name_any()))
}

fn two_of_a_rank(live: &HashMap<String, Pod>) -> Option<String> {
    let mut ranks: HashMap<(String, String), &str> = HashMap::new();
    live.iter().find_map(|(name, pod)| {
        let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
        let rank = (
            label("batch.kubernetes.io/job-name"),
            label("batch.kubernetes.io/job-completion-index"),
        );
        ranks
            .insert(rank, name)
            .map(|other| format!("{name} and {other} are alive at once"))
    })
}

fn too_many_cpus(live: &HashMap<String, Pod>) -> Option<String> {
    let bound = |pod: &&Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let count = live.values().filter(bound).count();
    (count > usize::try_from(CPUS).unwrap_or(0)).then(|| format!("{count} pods on {CPUS} CPUs"))
}

async fn watch_sets(client: Client, seen: Arc<Mutex<Vec<String>>>) {
    let events = watcher(Api::<JobSet>::all(client), watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if let Ok(watcher::Event::Apply(set) | watcher::Event::InitApply(set)) = event
            && let Some(status) = &set.status
            && status.restarts_count_towards_max > MAX_RESTARTS
        {
            seen.lock().expect("not poisoned").push(format!(
                "{} times {} was restarted and that was counted",
                status.restarts_count_towards_max,
                set.name_any(),
            ));
        }
    }
}
