//! Tables for each rule of a pass; the properties are in `simulation`.

use std::sync::Arc;

use astrago_api::quantity::Amount;
use jiff::Timestamp;

use super::*;
use crate::fit::{CPU, Cluster, GPU, MEMORY, NodeInfo, PODS, PodNeed, Resources};

mod bench;
mod simulation;

/// Amounts written as `cpu=2 gpu=1 memory=4`.
pub(super) fn amounts(text: &str) -> Resources {
    let mut resources = Resources::default();
    for part in text.split_whitespace() {
        let (name, amount) = part.split_once('=').unwrap();
        let name = match name {
            "cpu" => CPU,
            "gpu" => GPU,
            "memory" => MEMORY,
            other => other,
        };
        resources.set(name, amount.parse().unwrap());
    }
    resources
}

pub(super) fn cluster(nodes: &[&str]) -> Cluster {
    let node = |(index, text): (usize, &&str)| {
        let mut allocatable = amounts(text);
        allocatable.set(PODS, Amount::whole(100));
        NodeInfo {
            name: format!("n{index}"),
            ready: true,
            allocatable,
            ..NodeInfo::default()
        }
    };
    Cluster::empty(nodes.iter().enumerate().map(node).collect())
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(super) fn gang(name: &str, since: i64, pods: usize, each: &str) -> Gang {
    let mut requests = amounts(each);
    let limits = requests.clone();
    requests.set(PODS, Amount::whole(1));
    let charge = Charge {
        requests: requests.clone(),
        limits,
        ..Charge::default()
    };
    let need = Arc::new(PodNeed {
        requests,
        ..PodNeed::default()
    });
    let charge = Arc::new(charge);
    let member = |index| Member {
        key: PodKey {
            namespace: "team".into(),
            name: format!("{name}-{index}"),
            uid: "1".into(),
        },
        need: Arc::clone(&need),
        charge: Arc::clone(&charge),
    };
    let key = GangKey {
        namespace: "team".into(),
        name: name.into(),
    };
    Gang {
        rank: Rank {
            priority: 0,
            since: at(since),
            uid: String::new(),
            key,
        },
        pods: (0..pods).map(member).collect(),
        whole_since: at(since),
        ..Gang::default()
    }
}

/// A gang that holds room on the first node.
fn running(name: &str, started: i64, held: &str) -> Running {
    let key = GangKey {
        namespace: "team".into(),
        name: name.into(),
    };
    Running {
        rank: Rank {
            priority: 0,
            since: at(started),
            uid: String::new(),
            key,
        },
        started: Some(at(started)),
        ends: None,
        held: [("n0".to_owned(), amounts(held))].into(),
    }
}

fn world(nodes: &[&str], pending: Vec<Gang>, running: Vec<Running>) -> Snapshot {
    let mut cluster = cluster(nodes);
    for gang in &running {
        for (node, held) in &gang.held {
            let index = cluster.position(node).unwrap();
            cluster.free[index].subtract(held);
        }
    }
    let running = running.into_iter().map(Arc::new).collect();
    Snapshot {
        now: at(1000),
        cluster,
        pending,
        running,
        quotas: Vec::new(),
    }
}

fn started(decision: &Decision) -> Vec<&str> {
    decision
        .bind
        .iter()
        .map(|assignment| assignment.gang.name.as_str())
        .collect()
}

fn waits(decision: &Decision) -> Vec<String> {
    let sentence = |wait: &Wait| format!("{}: {}", wait.gang.name, wait.waiting);
    decision.wait.iter().map(sentence).collect()
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let decision = decide(world(
        &["cpu=4", "cpu=4"],
        vec![gang("a", 1, 3, "cpu=2")],
        vec![],
    ));
    assert_eq!(started(&decision), ["a"]);
    assert_eq!(decision.bind[0].pods.len(), 3);
    let decision = decide(world(
        &["cpu=4", "cpu=4"],
        vec![gang("a", 1, 3, "cpu=2")],
        vec![running("r", 0, "cpu=3")],
    ));
    assert!(decision.bind.is_empty());
    assert_eq!(waits(&decision), ["a: needs 6 CPUs, 5 free"]);
}

#[test]
fn priority_comes_before_age_and_age_before_name() {
    let mut urgent = gang("urgent", 9, 1, "cpu=1");
    urgent.rank.priority = 10;
    let pending = vec![
        gang("b", 5, 1, "cpu=1"),
        gang("a", 5, 1, "cpu=1"),
        gang("old", 1, 1, "cpu=1"),
        urgent,
    ];
    let decision = decide(world(&["cpu=8"], pending, vec![]));
    assert_eq!(started(&decision), ["urgent", "old", "a", "b"]);
}

/// Within the second that time stamps can tell, the uid says who was there first; the names say nothing.
#[test]
fn of_two_jobs_of_the_same_second_the_later_one_does_not_take_the_room_of_the_earlier() {
    let of = |name: &str, uid: &str, pods| {
        let mut gang = gang(name, 5, pods, "cpu=1");
        gang.rank.uid = uid.into();
        gang
    };
    let cases = [
        ("the big one came first", "1", "2", vec![]),
        ("the small one came first", "2", "1", vec!["endless"]),
    ];
    for (case, big, endless, want) in cases {
        for names in [["z", "a"], ["a", "z"]] {
            let mut pending = vec![of("big", big, 4), of("endless", endless, 1)];
            for (gang, name) in pending.iter_mut().zip(names) {
                gang.rank.key.name.insert_str(0, name);
            }
            let first = running("first", 5, "cpu=2");
            let decision = decide(world(&["cpu=4"], pending, vec![first]));
            let started: Vec<_> = started(&decision)
                .into_iter()
                .map(|name| &name[1..])
                .collect();
            assert_eq!(started, want, "{case}, named {names:?}");
        }
    }
}

#[test]
fn the_queue_says_what_is_needed_what_is_free_and_who_is_ahead() {
    let pending = vec![
        gang("a", 1, 2, "gpu=4"),
        gang("b", 2, 1, "gpu=4"),
        gang("c", 3, 1, "gpu=16"),
    ];
    let decision = decide(world(&["gpu=8"], pending, vec![running("r", 0, "gpu=6")]));
    assert!(decision.bind.is_empty());
    let want = [
        "a: needs 8 GPUs, 2 free",
        "b: needs 4 GPUs, 2 free; 1 job ahead",
        "c: needs 16 GPUs, but the largest node has 8: can never fit",
    ];
    assert_eq!(waits(&decision), want);
}

#[test]
fn a_gang_that_can_never_fit_keeps_nobody_waiting() {
    let pending = vec![gang("huge", 1, 1, "gpu=16"), gang("small", 2, 1, "gpu=8")];
    let decision = decide(world(&["gpu=8"], pending, vec![]));
    assert_eq!(started(&decision), ["small"]);
}

#[test]
fn a_gang_waits_for_its_pods_and_keeps_nobody_waiting() {
    let mut partial = gang("partial", 1, 1, "cpu=4");
    partial.missing = 1;
    let decision = decide(world(
        &["cpu=4"],
        vec![partial, gang("b", 2, 1, "cpu=4")],
        vec![],
    ));
    assert_eq!(started(&decision), ["b"]);
    assert_eq!(
        waits(&decision),
        ["partial: waits for 1 more pod of its job"]
    );
}

#[test]
fn a_gang_that_was_started_in_part_is_made_whole_first() {
    let mut rest = gang("rest", 5, 1, "cpu=2");
    rest.bound = 1;
    rest.missing = 1;
    let mut urgent = gang("urgent", 1, 1, "cpu=2");
    urgent.rank.priority = 100;
    let decision = decide(world(
        &["cpu=4"],
        vec![urgent, rest],
        vec![running("rest", 5, "cpu=2")],
    ));
    assert_eq!(started(&decision), ["rest"]);
}

#[test]
fn a_small_gang_passes_where_the_waiting_one_cannot_run() {
    let pending = vec![gang("big", 1, 1, "gpu=8"), gang("small", 2, 1, "cpu=2")];
    let decision = decide(world(
        &["gpu=8 cpu=8", "cpu=8"],
        pending,
        vec![running("r", 0, "gpu=2 cpu=1")],
    ));
    assert_eq!(started(&decision), ["small"]);
}

#[test]
fn a_small_gang_does_not_take_what_the_waiting_one_needs_next() {
    let pending = vec![gang("big", 1, 1, "gpu=6"), gang("small", 2, 1, "gpu=3")];
    let decision = decide(world(&["gpu=8"], pending, vec![running("r", 0, "gpu=4")]));
    assert_eq!(
        waits(&decision)[1],
        "small: fits, but could delay a job ahead; 1 job ahead"
    );
}

#[test]
fn a_small_gang_passes_if_the_waiting_one_fits_beside_it_anyway() {
    // When r ends, 8 are free, or 6 beside the small one.
    let pending = vec![gang("big", 1, 1, "gpu=6"), gang("small", 2, 1, "gpu=2")];
    let decision = decide(world(&["gpu=8"], pending, vec![running("r", 0, "gpu=4")]));
    assert_eq!(started(&decision), ["small"]);
    // But if r is two jobs of which one may end first, the small one would be in the way.
    let pending = vec![gang("big", 1, 1, "gpu=6"), gang("small", 2, 1, "gpu=2")];
    let both = vec![running("r", 0, "gpu=2"), running("s", 0, "gpu=2")];
    let decision = decide(world(&["gpu=8"], pending, both));
    assert!(started(&decision).is_empty());
}

#[test]
fn the_second_in_the_queue_is_not_delayed_either() {
    let pending = vec![
        gang("h1", 1, 1, "gpu=5"),
        gang("h2", 2, 1, "gpu=5"),
        gang("b", 3, 1, "gpu=1"),
    ];
    let decision = decide(world(&["gpu=10"], pending, vec![running("r", 0, "gpu=6")]));
    assert!(
        started(&decision).is_empty(),
        "both would start when r ends, but not beside b"
    );
}

#[test]
fn those_that_passed_before_do_not_make_room_for_more() {
    // The guest started after the big one came: together with it, two small ones would be too many.
    let pending = vec![gang("big", 10, 1, "gpu=6"), gang("small", 30, 1, "gpu=1")];
    let mut guest = running("guest", 20, "gpu=2");
    guest.rank.since = at(15);
    let decision = decide(world(
        &["gpu=8"],
        pending,
        vec![running("r", 0, "gpu=4"), guest],
    ));
    assert!(started(&decision).is_empty());
}

#[test]
fn a_gang_with_a_deadline_passes_if_it_ends_before_the_promised_start() {
    let limited = |seconds| {
        let mut small = gang("small", 2, 1, "gpu=3");
        small.longest = Some(seconds);
        let mut runner = running("r", 0, "gpu=4");
        runner.ends = Some(at(1600));
        decide(world(
            &["gpu=8"],
            vec![gang("big", 1, 1, "gpu=6"), small],
            vec![runner],
        ))
    };
    assert_eq!(started(&limited(600)), ["small"]);
    assert!(started(&limited(601)).is_empty());
}

fn quota(hard: &str) -> Quota {
    let hard = amounts(hard);
    Quota {
        namespace: "team".into(),
        name: "limits".into(),
        hard,
        ..Quota::default()
    }
}

#[test]
fn a_quota_makes_a_job_wait_and_those_behind_it_leave_its_part() {
    let pending = vec![
        gang("a", 1, 2, "gpu=2"),
        gang("b", 2, 2, "gpu=2"),
        gang("c", 3, 1, "gpu=1"),
        gang("d", 4, 1, "cpu=1"),
        gang("e", 5, 4, "gpu=2"),
    ];
    let mut snapshot = world(&["gpu=16 cpu=16"], pending, vec![]);
    snapshot.quotas = vec![quota("requests.nvidia.com/gpu=6 pods=9")];
    let decision = decide(snapshot);
    assert_eq!(started(&decision), ["a", "d"]);
    let want = [
        "b: needs 4 GPUs, 2 left in quota limits",
        "c: fits, but could delay a job ahead; 1 job ahead",
        "e: needs 8 GPUs, but quota limits allows 6: can never run",
    ];
    assert_eq!(waits(&decision), want);
}

#[test]
fn a_quota_of_another_namespace_or_scope_does_not_count() {
    let mut other = quota("pods=0");
    other.namespace = "other".into();
    let mut scoped = quota("pods=0");
    scoped.scopes = serde_json::from_value(
        serde_json::json!([{"scopeName": "BestEffort", "operator": "Exists"}]),
    )
    .unwrap();
    let mut snapshot = world(&["cpu=4"], vec![gang("a", 1, 1, "cpu=1")], vec![]);
    snapshot.quotas = vec![other, scoped];
    assert_eq!(started(&decide(snapshot)), ["a"]);
}
