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
    /// How many seconds after its own end it is ended, if at all.
    slack: Option<i64>,
}

#[derive(Default)]
struct History {
    starts: HashMap<usize, i64>,
    /// Gangs that nobody was before when they arrived, with the moment by which they must have room, judging by the
    /// deadlines of those that ran then; if they do not tell, there is none.
    firsts: HashMap<usize, Option<i64>>,
}

/// Plays the plots out second by second. After the arrival of the gang `alone`, gangs that
/// come behind it are kept out: what remains is how it would fare if nobody could pass it.
fn play(nodes: &[&str], plots: &[Plot], alone: Option<usize>) -> History {
    play_with(nodes, plots, alone, None)
}

/// As [`play`], where all gangs share a quota.
fn play_with(nodes: &[&str], plots: &[Plot], alone: Option<usize>, hard: Option<&str>) -> History {
    let base = cluster(nodes);
    let rank = |index: usize| gang_of(plots, index).rank;
    let History {
        mut starts,
        mut firsts,
    } = History::default();
    let mut placed: BTreeMap<usize, Running> = BTreeMap::new();
    for now in 0..260 {
        placed.retain(|index, _| starts[index] + plots[*index].runs > now);
        let before = placed.clone();
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
        let mut limit = hard.map(quota);
        if let Some(limit) = &mut limit {
            for pod in placed.keys().flat_map(|index| gang_of(plots, *index).pods) {
                limit.take(&pod.charge);
            }
        }
        snapshot.quotas = limit.iter().cloned().collect();
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
                if let Some(limit) = &mut limit {
                    limit.take(&pod.charge);
                    assert!(
                        limit.hard.covers(&limit.used),
                        "a namespace was given more than its quota"
                    );
                }
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
            if !waiting.iter().any(|other| rank(*other) < rank(*index)) {
                firsts.insert(*index, latest(&base, &before, &gang_of(plots, *index)));
            }
        }
        assert_eq!(decision.bind.len() + decision.wait.len(), waiting.len());
    }
    History { starts, firsts }
}

/// The moment by which a gang has room at the latest if those that run are ended by their deadlines and by nothing else.
fn latest(base: &Cluster, running: &BTreeMap<usize, Running>, gang: &Gang) -> Option<i64> {
    let needs: Vec<_> = gang.pods.iter().map(|pod| (*pod.need).clone()).collect();
    let mut moments: Vec<_> = running.values().filter_map(|gang| gang.ends).collect();
    moments.sort_unstable();
    moments.into_iter().find_map(|moment| {
        let mut cluster = base.clone();
        let left = running
            .values()
            .filter(|gang| gang.ends.is_none_or(|ends| ends > moment));
        for (node, held) in left.flat_map(|gang| &gang.held) {
            let node = base.position(node)?;
            cluster.free[node].subtract(held);
        }
        let fits = matches!(cluster.verdict(&needs), crate::fit::Verdict::Now(_));
        fits.then(|| moment.as_second())
    })
}

fn gang_of(plots: &[Plot], index: usize) -> Gang {
    let plot = &plots[index];
    let mut gang = gang(&format!("{index:02}"), plot.arrives, plot.pods, &plot.each);
    gang.rank.priority = plot.priority;
    gang.longest = plot.slack.map(|slack| plot.runs + slack);
    gang
}

fn plot(priorities: i32, deadlines: bool) -> impl Strategy<Value = Plot> {
    let slack = if deadlines {
        prop::option::of(0_i64..6).boxed()
    } else {
        Just(None).boxed()
    };
    (
        0_i64..12,
        1_i64..20,
        1_usize..4,
        0_u32..5,
        0_u32..4,
        0..priorities,
        slack,
    )
        .prop_map(|(arrives, runs, pods, cpu, gpu, priority, slack)| {
            let each = format!("cpu={} gpu={gpu}", cpu.max(u32::from(gpu == 0)));
            Plot {
                arrives,
                runs,
                pods,
                each,
                priority,
                slack,
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
        for index in history.firsts.keys() {
            let alone = play(SEVERAL, &plots, Some(*index));
            prop_assert_eq!(history.starts.get(index), alone.starts.get(index), "gang {}", index);
        }
    }

    /// Whatever the priorities and deadlines: whoever is first, and stays so, starts when it would start if nobody could
    /// pass it, or else by the moment that the deadlines of those that ran when it came have promised it.
    #[test]
    fn nobody_who_passes_delays_the_first(
        one in any::<bool>(),
        plots in prop::collection::vec(plot(3, true), 1..10),
    ) {
        let nodes = if one { ONE } else { SEVERAL };
        let history = play(nodes, &plots, None);
        for (index, promised) in &history.firsts {
            let rank = gang_of(&plots, *index).rank;
            let overtaken = (0..plots.len()).any(|other| {
                plots[other].arrives > plots[*index].arrives && gang_of(&plots, other).rank < rank
            });
            if overtaken {
                continue;
            }
            let alone = play(nodes, &plots, Some(*index));
            let (got, undisturbed) = (history.starts.get(index), alone.starts.get(index));
            let bound = undisturbed.map(|start| promised.unwrap_or(*start).max(*start));
            prop_assert_eq!(got.is_some(), bound.is_some());
            prop_assert!(got <= bound.as_ref(), "gang {}: {:?}, promised {:?}", index, got, bound);
        }
    }

    /// No namespace has more than its quota, and what fits into the quota is started in the end.
    #[test]
    fn a_quota_is_kept(
        cpus in 1_u32..12,
        plots in prop::collection::vec(plot(2, true), 1..10),
    ) {
        let hard = format!("requests.cpu={cpus} pods=5");
        let history = play_with(SEVERAL, &plots, None, Some(&hard));
        for (index, plot) in plots.iter().enumerate() {
            let gang = gang_of(&plots, index);
            let needs: Vec<_> = gang.pods.iter().map(|pod| (*pod.need).clone()).collect();
            let fits = matches!(cluster(SEVERAL).verdict(&needs), crate::fit::Verdict::Now(_));
            let each: u32 = plot.each.split(' ').next().and_then(|cpu| cpu.strip_prefix("cpu=")?.parse().ok()).unwrap();
            let allowed = u32::try_from(plot.pods).unwrap() * each <= cpus;
            prop_assert_eq!(history.starts.contains_key(&index), fits && allowed, "gang {}", index);
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
            let fits = matches!(cluster(SEVERAL).verdict(&needs), crate::fit::Verdict::Now(_));
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
