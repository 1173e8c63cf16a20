//! Properties of whole histories: gangs arrive, run for a time that the scheduler does not know, and end.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

/// A gang with the secrets that only the simulation knows.
#[derive(Clone, Debug)]
struct Plot {
    arrives: i64,
    runs: i64,
    pods: usize,
    each: String,
    priority: i32,
    deadline: bool,
}

struct History {
    starts: HashMap<usize, i64>,
    /// Whether nobody waited when the gang arrived.
    was_first: HashMap<usize, bool>,
}

/// Plays the plots out second by second. After the arrival of the gang `alone`, gangs that
/// come behind it are kept out: what remains is how it would fare if nobody could pass it.
fn play(nodes: &[&str], plots: &[Plot], alone: Option<usize>) -> History {
    let base = cluster(nodes);
    let rank = |index: usize| gang_of(plots, index).rank;
    let mut starts: HashMap<usize, i64> = HashMap::new();
    let mut was_first = HashMap::new();
    let mut placed: BTreeMap<usize, Running> = BTreeMap::new();
    for now in 0..260 {
        placed.retain(|index, _| starts[index] + plots[*index].runs > now);
        let hidden = |index: usize| {
            alone.is_some_and(|alone| now >= plots[alone].arrives && rank(index) > rank(alone))
        };
        let waiting: Vec<usize> = (0..plots.len())
            .filter(|i| plots[*i].arrives <= now && !starts.contains_key(i) && !hidden(*i))
            .collect();
        let mut snapshot = Snapshot {
            now: at(now),
            cluster: base.clone(),
            ..Snapshot::default()
        };
        for running in placed.values() {
            for (node, held) in &running.held {
                let node = base.position(node).unwrap();
                snapshot.cluster.free[node].subtract(held);
            }
            snapshot.running.push(Arc::new(running.clone()));
        }
        snapshot.pending = waiting.iter().map(|index| gang_of(plots, *index)).collect();
        let decision = decide(snapshot);
        let mut free = base.free.clone();
        for running in placed.values() {
            for (node, held) in &running.held {
                free[base.position(node).unwrap()].subtract(held);
            }
        }
        for assignment in &decision.bind {
            let index: usize = assignment.gang.name.parse().unwrap();
            let gang = gang_of(plots, index);
            assert_eq!(
                assignment.pods.len(),
                plots[index].pods,
                "part of a gang was started"
            );
            let mut held: BTreeMap<String, Resources> = BTreeMap::new();
            for (pod, (_, node)) in gang.pods.iter().zip(&assignment.pods) {
                let room = &mut free[base.position(node).unwrap()];
                assert!(
                    room.covers(&pod.need.requests),
                    "a node was given more than it has"
                );
                room.subtract(&pod.need.requests);
                held.entry(node.clone())
                    .or_default()
                    .add(&pod.need.requests);
            }
            let ends = gang.longest.map(|longest| at(now + longest));
            let running = Running {
                rank: gang.rank,
                started: Some(at(now)),
                ends,
                held,
            };
            placed.insert(index, running);
            starts.insert(index, now);
        }
        for index in waiting.iter().filter(|index| plots[**index].arrives == now) {
            let others = waiting.iter().filter(|other| *other != index);
            let ahead = others.filter(|o| plots[**o].arrives < now || rank(**o) < rank(*index));
            was_first.insert(*index, ahead.count() == 0);
        }
        assert_eq!(decision.bind.len() + decision.wait.len(), waiting.len());
    }
    History { starts, was_first }
}

fn gang_of(plots: &[Plot], index: usize) -> Gang {
    let plot = &plots[index];
    let mut gang = gang(&format!("{index:02}"), plot.arrives, plot.pods, &plot.each);
    gang.rank.priority = plot.priority;
    gang.longest = plot.deadline.then_some(plot.runs);
    gang
}

fn plot(priorities: i32, deadlines: bool) -> impl Strategy<Value = Plot> {
    let deadline = if deadlines {
        any::<bool>().boxed()
    } else {
        Just(false).boxed()
    };
    (
        0_i64..12,
        1_i64..20,
        1_usize..4,
        0_u32..5,
        0_u32..4,
        0..priorities,
        deadline,
    )
        .prop_map(|(arrives, runs, pods, cpu, gpu, priority, deadline)| {
            let each = format!("cpu={} gpu={gpu}", cpu.max(u32::from(gpu == 0)));
            Plot {
                arrives,
                runs,
                pods,
                each,
                priority,
                deadline,
            }
        })
}

const ONE: &[&str] = &["cpu=8 gpu=6"];
const SEVERAL: &[&str] = &["cpu=4 gpu=4", "cpu=4 gpu=2", "cpu=6"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On one node nobody is ever delayed by a gang behind it (equal priorities, so that all that
    /// arrives later is behind).
    #[test]
    fn on_one_node_nobody_is_delayed(plots in prop::collection::vec(plot(1, false), 1..9)) {
        let history = play(ONE, &plots, None);
        for index in 0..plots.len() {
            let alone = play(ONE, &plots, Some(index));
            prop_assert_eq!(history.starts.get(&index), alone.starts.get(&index), "gang {}", index);
        }
    }

    /// On several nodes the first in the queue is never delayed.
    #[test]
    fn on_several_nodes_the_first_is_not_delayed(plots in prop::collection::vec(plot(1, false), 1..9)) {
        let history = play(SEVERAL, &plots, None);
        for (index, _) in history.was_first.iter().filter(|(_, first)| **first) {
            let alone = play(SEVERAL, &plots, Some(*index));
            prop_assert_eq!(history.starts.get(index), alone.starts.get(index), "gang {}", index);
        }
    }

    /// Whatever the priorities and deadlines: capacity and wholeness hold (asserted while playing), and
    /// everything that can ever fit is started.
    #[test]
    fn everything_that_fits_is_started(plots in prop::collection::vec(plot(3, true), 1..12)) {
        let history = play(SEVERAL, &plots, None);
        for (index, _) in plots.iter().enumerate() {
            let gang = gang_of(&plots, index);
            let needs: Vec<_> = gang.pods.iter().map(|pod| pod.need.as_ref().clone()).collect();
            let fits = matches!(cluster(SEVERAL).verdict(&needs), astrago_plan::fit::Verdict::Now(_));
            prop_assert_eq!(history.starts.contains_key(&index), fits, "gang {}", index);
        }
    }

    /// Of two equal gangs the one that ranks first starts first.
    #[test]
    fn equals_start_in_order(mut plots in prop::collection::vec(plot(3, false), 2..8)) {
        for plot in &mut plots {
            (plot.pods, plot.each) = (2, "cpu=2".into());
        }
        let history = play(ONE, &plots, None);
        for one in 0..plots.len() {
            for other in 0..plots.len() {
                let both_wait = plots[one].arrives <= history.starts[&other];
                if both_wait && gang_of(&plots, one).rank < gang_of(&plots, other).rank {
                    prop_assert!(history.starts[&one] <= history.starts[&other]);
                }
            }
        }
    }
}
