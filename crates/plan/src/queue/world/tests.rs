use std::collections::HashMap;

use astrago_api::quantity::Amount;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fit::{CPU, GPU};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("team", name)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod of 1 CPU; `extra` is merged over it.
fn pod(name: &str, extra: &Value) -> Pod {
    let mut value = json!({
        "metadata": { "name": name, "namespace": "team", "uid": format!("uid-{name}"),
                      "creationTimestamp": "1970-01-01T00:01:40Z" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
        "status": { "phase": "Pending" },
    });
    merge(&mut value, extra);
    serde_json::from_value(value).unwrap()
}

fn merge(base: &mut Value, extra: &Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (name, value) in extra {
                merge(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra.clone(),
    }
}

fn in_set(replicated: &str, attempt: &str) -> Value {
    json!({ "metadata": { "labels": {
        "jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/replicatedjob-name": replicated, "jobset.sigs.k8s.io/restart-attempt": attempt,
        "batch.kubernetes.io/job-name": format!("train-{replicated}-0"),
    } } })
}

/// An initializer, then two nodes and a launcher together.
fn job_set(policy: &str) -> JobSet {
    let job = |name: &str, pods: u32, depends: Value| {
        json!({ "name": name, "replicas": 1, "dependsOn": depends,
            "template": { "spec": { "parallelism": pods, "completions": pods, "template": {} } } })
    };
    let after = json!([{ "name": "data", "status": "Complete" }]);
    serde_json::from_value(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": "train", "namespace": "team", "uid": "set", "creationTimestamp": "1970-01-01T00:00:50Z",
            "ownerReferences": [{ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train",
                                  "uid": "train-uid", "controller": true }] },
        "spec": { "startupPolicy": { "startupPolicyOrder": policy },
            "replicatedJobs": [job("data", 1, json!([])), job("node", 2, after.clone()), job("launcher", 1, after)] },
    }))
    .unwrap()
}

fn job(replicated: &str, pods: u32, succeeded: u32) -> Job {
    let mut value = in_set(replicated, "0");
    merge(
        &mut value,
        &json!({ "metadata": { "name": format!("train-{replicated}-0"), "namespace": "team" },
            "spec": { "parallelism": pods, "completions": pods, "template": {} },
            "status": { "succeeded": succeeded } }),
    );
    serde_json::from_value(value).unwrap()
}

fn add(world: &mut World, name: &str, extra: &Value) {
    world.set_pod(&key(name), Some(&pod(name, extra)));
}

/// Name, pods without a node, bound pods, missing pods of every gang.
fn gangs(world: &mut World) -> Vec<(String, usize, usize, u64)> {
    let snapshot = world.snapshot(at(1000));
    let row = |gang: &Gang| {
        (
            gang.rank.key.name.clone(),
            gang.pods.len(),
            gang.bound,
            gang.missing,
        )
    };
    snapshot.pending.iter().map(row).collect()
}

#[test]
fn initializers_do_not_wait_for_the_trainers_that_wait_for_them() {
    let mut world = World::default();
    world.set_job_set(&key("train"), Some(&job_set("AnyOrder")));
    add(&mut world, "d", &in_set("data", "0"));
    assert_eq!(gangs(&mut world), [("jobset/set/0".to_owned(), 1, 0, 0)]);
}

#[test]
fn launcher_and_nodes_are_one_gang_however_they_arrive() {
    let mut world = World::default();
    add(&mut world, "l", &in_set("launcher", "0"));
    assert_eq!(gangs(&mut world)[0].3, 1, "nothing is known of the set yet");
    world.set_job_set(&key("train"), Some(&job_set("AnyOrder")));
    assert_eq!(
        gangs(&mut world),
        [("jobset/set/0/wave-1".to_owned(), 1, 0, 2)]
    );
    world.set_job(&key("train-node-0"), Some(&job("node", 2, 0)));
    add(&mut world, "n0", &in_set("node", "0"));
    add(&mut world, "stale", &in_set("node", "1"));
    let got = gangs(&mut world);
    assert_eq!(
        got[0],
        ("jobset/set/0/wave-1".to_owned(), 2, 0, 1),
        "another attempt does not count"
    );
    add(&mut world, "n1", &in_set("node", "0"));
    assert_eq!(
        gangs(&mut world)[0],
        ("jobset/set/0/wave-1".to_owned(), 3, 0, 0)
    );
}

#[test]
fn in_order_every_job_is_a_wave() {
    let mut world = World::default();
    let mut set = job_set("InOrder");
    set.spec
        .replicated_jobs
        .iter_mut()
        .for_each(|job| job.depends_on.clear());
    world.set_job_set(&key("train"), Some(&set));
    add(&mut world, "l", &in_set("launcher", "0"));
    assert_eq!(
        gangs(&mut world),
        [("jobset/set/0/wave-2".to_owned(), 1, 0, 0)]
    );
}

#[test]
fn a_replacement_of_a_finished_gang_is_not_waited_for() {
    let mut world = World::default();
    world.set_job_set(&key("train"), Some(&job_set("AnyOrder")));
    // The launcher and one node are done and their pods gone; the other node is made again.
    world.set_job(&key("train-node-0"), Some(&job("node", 2, 1)));
    world.set_job(&key("train-launcher-0"), Some(&job("launcher", 1, 1)));
    add(&mut world, "n1", &in_set("node", "0"));
    assert_eq!(
        gangs(&mut world),
        [("jobset/set/0/wave-1".to_owned(), 1, 0, 0)]
    );
}

#[test]
fn a_job_keeps_the_age_of_its_set_and_that_of_its_train_job() {
    let mut world = World::default();
    world.set_job_set(&key("train"), Some(&job_set("AnyOrder")));
    add(&mut world, "d", &in_set("data", "3"));
    let gang = &world.snapshot(at(1000)).pending[0];
    assert_eq!(
        (gang.rank.since, gang.rank.uid.as_str()),
        (at(50), "train-uid")
    );
    let mut train = TrainJob::default();
    train.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(40)));
    world.set_train_job(&key("train"), Some(&train));
    let gang = &world.snapshot(at(1000)).pending[0];
    assert_eq!(gang.rank.since, at(40));
    let owner = world.owner_of(&gang.pods[0].key).unwrap();
    assert_eq!(
        (owner.kind.as_deref(), owner.uid.as_deref()),
        (Some("TrainJob"), Some("train-uid"))
    );
}

fn named(size: Option<&str>) -> Value {
    let mut value = json!({ "metadata": { "annotations": { "astrago.io/gang": "g" } } });
    if let Some(size) = size {
        merge(
            &mut value,
            &json!({ "metadata": { "annotations": { "astrago.io/gang-size": size } } }),
        );
    }
    value
}

#[rstest]
#[case::alone(json!({}), 0)]
#[case::named(named(Some("3")), 1)]
#[case::named_by_label(json!({ "metadata": { "labels": { "astrago.io/gang": "g", "astrago.io/gang-size": "5" } } }), 3)]
#[case::named_without_a_size(named(None), 0)]
#[case::training(json!({ "metadata": { "labels": { "training.kubeflow.org/job-name": "t" } } }), 0)]
#[case::training_with_a_size(
    json!({ "metadata": { "labels": { "training.kubeflow.org/job-name": "t", "astrago.io/gang-size": "4" } } }), 2)]
fn two_pods_lack(#[case] extra: Value, #[case] want: u64) {
    let mut world = World::default();
    add(&mut world, "a", &extra);
    add(&mut world, "b", &extra);
    assert!(
        gangs(&mut world)
            .iter()
            .all(|(_, _, _, missing)| *missing == want)
    );
}

#[test]
fn a_named_gang_without_a_size_has_that_of_its_job() {
    let mut world = World::default();
    let mut extra = named(None);
    merge(
        &mut extra,
        &json!({ "metadata": { "labels": { "batch.kubernetes.io/job-name": "j" } } }),
    );
    add(&mut world, "a", &extra);
    assert_eq!(gangs(&mut world)[0].3, 1, "the Job was not seen yet");
    let job: Job =
        serde_json::from_value(json!({ "metadata": { "name": "j", "namespace": "team" },
        "spec": { "parallelism": 4, "template": {} } }))
        .unwrap();
    world.set_job(&key("j"), Some(&job));
    assert_eq!(gangs(&mut world)[0].3, 3);
}

#[test]
fn a_pod_that_came_with_its_node_holds_room_there_before_it_runs() {
    let mut world = World::default();
    world.set_node("n", Some(&node("n", 4)));
    add(&mut world, "a", &json!({ "spec": { "nodeName": "n" } }));
    assert!(!world.has_pending());
    let free = world.snapshot(at(1)).cluster.free[0].get(CPU);
    assert_eq!(free, Amount::whole(3));
}

#[test]
fn a_pod_that_was_just_bound_holds_its_room_until_the_watch_says_so() {
    let mut world = World::default();
    world.set_node("n", Some(&node("n", 4)));
    add(&mut world, "a", &json!({}));
    let pod = world.snapshot(at(1)).pending[0].pods[0].key.clone();
    world.assume(&pod, "n", at(2));
    let free = |world: &mut World| world.snapshot(at(3)).cluster.free[0].get(CPU);
    assert_eq!(free(&mut world), Amount::whole(3));
    // The watch is behind and shows the pod as it was.
    add(
        &mut world,
        "a",
        &json!({ "metadata": { "labels": { "changed": "yes" } } }),
    );
    assert_eq!(free(&mut world), Amount::whole(3));
    assert!(!world.has_pending());
    add(&mut world, "a", &json!({ "spec": { "nodeName": "n" } }));
    assert_eq!(free(&mut world), Amount::whole(3));
    // Its successor of the same name was not bound.
    add(&mut world, "a", &json!({ "metadata": { "uid": "other" } }));
    assert_eq!(free(&mut world), Amount::whole(4));
    world.assume(&pod, "n", at(4));
    assert_eq!(free(&mut world), Amount::whole(4), "that pod is gone");
}

#[rstest]
#[case::gate(json!({ "spec": { "schedulingGates": [{ "name": "example.com/hold" }] } }),
    "is held back by scheduling gate example.com/hold")]
#[case::claim(json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } }),
    "waits for volume claim data, which does not exist")]
#[case::quantity(json!({ "spec": { "overhead": { "cpu": "lots" } } }), "spec.overhead[cpu] is invalid")]
fn a_gang_is_kept_back_by(#[case] extra: Value, #[case] want: &str) {
    let mut world = World::default();
    add(&mut world, "a", &extra);
    let obstacle = world.snapshot(at(1)).pending[0].obstacle.clone().unwrap();
    assert_eq!(obstacle.to_string(), want);
    world.set_claim(&key("data"), true);
    let solved = world.snapshot(at(1)).pending[0].obstacle.is_none();
    assert_eq!(solved, want.contains("claim"));
}

fn allowing(priority: &str) -> Namespace {
    let annotations = json!({ "annotations": { "astrago.io/max-priority": priority } });
    Namespace {
        metadata: serde_json::from_value(annotations).unwrap(),
        ..Namespace::default()
    }
}

#[test]
fn priority_comes_from_the_pod_its_class_or_the_default_class() {
    let class = |name: &str, value: i32, default: bool| -> PriorityClass {
        serde_json::from_value(
            json!({ "metadata": { "name": name }, "value": value, "globalDefault": default }),
        )
        .unwrap()
    };
    let mut world = World::default();
    world.set_priority_class("high", Some(&class("high", 100, false)));
    world.set_priority_class("usual", Some(&class("usual", 5, true)));
    world.set_namespace("team", Some(&allowing("100")));
    add(&mut world, "a", &json!({}));
    add(
        &mut world,
        "b",
        &json!({ "spec": { "priorityClassName": "high" } }),
    );
    add(
        &mut world,
        "c",
        &json!({ "spec": { "priorityClassName": "high", "priority": 7 } }),
    );
    let snapshot = world.snapshot(at(1));
    let got: Vec<_> = snapshot
        .pending
        .iter()
        .map(|gang| gang.rank.priority)
        .collect();
    assert_eq!(got, [5, 100, 7]);
}

#[test]
fn the_end_of_a_gang_is_known_if_all_its_pods_have_a_deadline() {
    let mut world = World::default();
    let bound = json!({ "spec": { "nodeName": "n", "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5 },
        "status": { "startTime": "1970-01-01T00:03:20Z" } });
    let mut first = named(Some("2"));
    merge(&mut first, &bound);
    add(&mut world, "a", &first);
    assert_eq!(world.snapshot(at(1)).running[0].ends, Some(at(265)));
    merge(
        &mut first,
        &json!({ "spec": { "activeDeadlineSeconds": null } }),
    );
    add(&mut world, "b", &first);
    assert_eq!(world.snapshot(at(1)).running[0].ends, None);
}

fn node(name: &str, cpus: i64) -> Node {
    serde_json::from_value(json!({ "metadata": { "name": name }, "status": {
        "allocatable": { "cpu": cpus.to_string(), GPU: "8", "pods": "10" },
        "conditions": [{ "type": "Ready", "status": "True" }] } }))
    .unwrap()
}

fn quota(pods: u32) -> ResourceQuota {
    serde_json::from_value(json!({ "metadata": { "name": "q", "namespace": "team" },
        "spec": { "hard": { "pods": pods.to_string(), "requests.cpu": "8" } } }))
    .unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Pod(u8, u8),
    Node(u8, Option<i64>),
    Quota(Option<u32>),
    Assume(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..6, 0_u8..7).prop_map(|(pod, state)| Step::Pod(pod, state)),
        1 => (0_u8..2, prop::option::of(1_i64..9)).prop_map(|(node, cpus)| Step::Node(node, cpus)),
        1 => prop::option::of(1_u32..9).prop_map(Step::Quota),
        1 => (0_u8..6).prop_map(Step::Assume),
    ]
}

/// The pod in one of its states, or gone.
fn state_of(name: &str, index: u8, state: u8) -> Option<Pod> {
    let gang = format!("g{}", index / 2);
    let base = json!({ "metadata": { "annotations": { "astrago.io/gang": gang, "astrago.io/gang-size": "2" } } });
    let extra = match state {
        0 => return None,
        1 => json!({}),
        2 => json!({ "spec": { "nodeName": "n0" } }),
        3 => json!({ "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } }),
        4 => json!({ "spec": { "nodeName": "n0" }, "status": { "phase": "Failed" } }),
        5 => json!({ "spec": { "nodeName": "n1" }, "status": { "phase": "Succeeded" } }),
        _ => {
            json!({ "metadata": { "deletionTimestamp": "1970-01-01T00:05:00Z" }, "spec": { "nodeName": "n0" } })
        }
    };
    let mut value = base;
    merge(&mut value, &extra);
    Some(pod(name, &value))
}

/// What a pass would see, in a form that can be compared.
fn view(world: &mut World) -> String {
    let snapshot = world.snapshot(at(1000));
    let free: Vec<_> = snapshot
        .cluster
        .free
        .iter()
        .map(|free| (free.get(CPU), free.get("pods")))
        .collect();
    let running: Vec<_> = snapshot
        .running
        .iter()
        .map(|gang| (&gang.rank.key.name, sums(&gang.held)))
        .collect();
    let quotas: Vec<_> = snapshot.quotas.iter().map(Quota::used_status).collect();
    format!("{free:?} {:?} {running:?} {quotas:?}", gangs(world))
}

fn sums(held: &BTreeMap<String, Resources>) -> Vec<(String, Amount)> {
    held.iter()
        .map(|(node, held)| (node.clone(), held.get(CPU)))
        .collect()
}

proptest! {
    /// Whatever the order of events, what was kept up to date equals what is read afresh.
    #[test]
    fn following_changes_is_the_same_as_reading_afresh(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::default();
        let mut pods: HashMap<String, Pod> = HashMap::new();
        let mut nodes: HashMap<String, Node> = HashMap::new();
        let mut limit = None;
        for step in steps {
            match step {
                Step::Pod(index, state) => {
                    let name = format!("p{index}");
                    // No event takes a binding back.
                    world.unassume(&PodKey { namespace: "team".into(), name: name.clone(), uid: format!("uid-{name}") });
                    let pod = state_of(&name, index, state);
                    world.set_pod(&key(&name), pod.as_ref());
                    match pod {
                        Some(pod) => pods.insert(name, pod),
                        None => pods.remove(&name),
                    };
                }
                Step::Node(index, cpus) => {
                    let name = format!("n{index}");
                    let node = cpus.map(|cpus| node(&name, cpus));
                    world.set_node(&name, node.as_ref());
                    match node {
                        Some(node) => nodes.insert(name, node),
                        None => nodes.remove(&name),
                    };
                }
                Step::Quota(pods) => {
                    limit = pods.map(quota);
                    world.set_quota(&key("q"), limit.as_ref());
                }
                Step::Assume(index) => {
                    let name = format!("p{index}");
                    let pod = PodKey { namespace: "team".into(), uid: format!("uid-{name}"), name };
                    world.assume(&pod, "n1", at(5));
                    world.unassume(&pod);
                }
            }
            let mut fresh = World::default();
            fresh.set_quota(&key("q"), limit.as_ref());
            for (name, pod) in &pods {
                fresh.set_pod(&key(name), Some(pod));
            }
            for (name, node) in &nodes {
                fresh.set_node(name, Some(node));
            }
            prop_assert_eq!(view(&mut world), view(&mut fresh));
        }
    }
}

#[test]
fn a_train_job_says_its_place_in_the_queue() {
    let mut world = World::default();
    world.set_job_set(&key("train"), Some(&job_set("AnyOrder")));
    add(&mut world, "d", &in_set("data", "0"));
    let mut train = TrainJob::default();
    train.metadata.annotations = Some([(labels::PRIORITY.to_owned(), "7".to_owned())].into());
    assert!(world.set_train_job(&key("train"), Some(&train)));
    let gang = |world: &mut World| world.snapshot(at(1000)).pending.remove(0);
    let priority = |world: &mut World| gang(world).rank.priority;
    assert_eq!(
        (priority(&mut world), gang(&mut world).lowered_from),
        (0, Some(7)),
        "nobody has allowed it"
    );
    assert!(world.set_namespace("team", Some(&allowing("5"))));
    assert_eq!(priority(&mut world), 5);
    assert!(world.set_namespace("team", Some(&allowing("10"))));
    assert_eq!(
        (priority(&mut world), gang(&mut world).lowered_from),
        (7, None)
    );
    train.metadata.annotations = Some([(labels::PRIORITY.to_owned(), "much".to_owned())].into());
    world.set_train_job(&key("train"), Some(&train));
    assert_eq!(priority(&mut world), 0);
}

#[rstest]
#[case::room(json!({}), None, None)]
#[case::no_room(json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "4" } } }] } }), None,
    Some("can never fit"))]
#[case::over_the_quota(json!({}), Some(1), Some("quota"))]
fn a_job_that_nobody_has_made_would_wait_for(
    #[case] extra: Value,
    #[case] pods: Option<u32>,
    #[case] want: Option<&str>,
) {
    let mut world = World::default();
    world.set_node("n", Some(&node("n", 3)));
    world.set_quota(&key("q"), pods.map(quota).as_ref());
    let (first, second) = (pod("a", &extra), pod("b", &extra));
    let candidate = Candidate {
        namespace: "team",
        pods: &[&first, &second],
        priority: None,
        deadline: None,
    };
    let waiting = world.foresee(&candidate, at(1));
    let said = waiting.map(|waiting| waiting.cause.to_string());
    match want {
        None => assert_eq!(said, None),
        Some(want) => assert!(
            said.as_deref().is_some_and(|said| said.contains(want)),
            "{said:?}"
        ),
    }
    assert!(!world.has_pending(), "nothing of it stays");
}

#[test]
fn a_job_that_nobody_has_made_has_the_default_priority() {
    let class = json!({ "metadata": { "name": "usual" }, "value": 5, "globalDefault": true });
    let class: PriorityClass = serde_json::from_value(class).unwrap();
    let mut world = World::default();
    world.set_node("n", Some(&node("n", 1)));
    // It waits with a lower priority of its own.
    add(&mut world, "low", &json!({ "spec": { "priority": 1 } }));
    let fresh = pod("a", &json!({}));
    let candidate = Candidate {
        namespace: "team",
        pods: &[&fresh],
        priority: None,
        deadline: None,
    };
    assert!(world.foresee(&candidate, at(200)).is_some());
    world.set_priority_class("usual", Some(&class));
    assert!(world.foresee(&candidate, at(200)).is_none());
}
