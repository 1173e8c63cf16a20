//! Where the time of a job went, from the first moment to the last, without a gap.
//!
//! | part | what it is |
//! |---|---|
//! | [`Facts`] | when each pod came, got its place, began to train and ended; when the job was suspended. Also of pods that are gone: they are kept with the job's record |
//! | [`intervals`] | what the job did in each moment; pure |
//! | [`Ledger`] | the facts of the jobs that are not gone |

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use astrago_api::conditions;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::model::{Interval, JobNode, Phase, Timeline};
use crate::view::{Job, times_of};
use crate::world::Key;

/// Of how many pods the times are kept: a job that is restarted for ever has no end of them, and its record is written
/// at each change.
const PODS: usize = 4000;

/// What happened to a job, as far as its time is concerned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// By uid.
    pods: BTreeMap<String, PodFacts>,
    suspensions: Vec<Suspension>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PodFacts {
    #[serde(flatten)]
    times: Times,
    /// The node that it was, unless it only prepared something for those.
    node: Option<JobNode>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) created: Timestamp,
    pub(crate) placed: Option<Timestamp>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    /// Which of those that train it is, if it is one.
    pub(crate) rank: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Suspension {
    from: Timestamp,
    until: Option<Timestamp>,
}

impl Facts {
    /// Notes how a job is now.
    fn note(&mut self, job: &Job, now: Timestamp) {
        let nodes: BTreeMap<String, JobNode> = job
            .nodes()
            .into_iter()
            .map(|node| (node.pod.clone(), node))
            .collect();
        let ranks: BTreeMap<String, i64> = job
            .workers()
            .into_iter()
            .filter_map(|(rank, pod)| Some((pod.uid()?, rank)))
            .collect();
        for pod in &job.pods {
            let uid = pod.uid().unwrap_or_default();
            let mut times = times_of(pod);
            times.rank = ranks.get(&uid).copied();
            if let Some(before) = self.pods.get(&uid) {
                // A container that starts again in its pod is still the same attempt.
                times.started = before.times.started.or(times.started);
            }
            let node = nodes.get(&pod.name_any()).cloned();
            self.pods.insert(uid, PodFacts { times, node });
        }
        let present: BTreeSet<Option<String>> = job.pods.iter().map(|pod| pod.uid()).collect();
        for (uid, gone) in &mut self.pods {
            if gone.times.ended.is_none() && !present.contains(&Some(uid.clone())) {
                gone.times.ended = Some(now);
            }
        }
        self.forget_oldest();
        self.note_suspension(job, now);
    }

    fn forget_oldest(&mut self) {
        let excess = self.pods.len().saturating_sub(PODS);
        if excess == 0 {
            return;
        }
        let over = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.times.ended.is_some());
        let mut over: Vec<(Timestamp, String)> = over
            .map(|(uid, pod)| (pod.times.created, uid.clone()))
            .collect();
        over.sort();
        for (_, uid) in over.into_iter().take(excess) {
            self.pods.remove(&uid);
        }
    }

    fn note_suspension(&mut self, job: &Job, now: Timestamp) {
        let suspended = job.job.is_suspended() && job.completed_at().is_none();
        let condition = conditions::find(job.job.conditions(), conditions::train_job::SUSPENDED);
        let told = condition.filter(|condition| (condition.status == "True") == suspended);
        let since = told.map_or(now, |condition| condition.last_transition_time.0);
        let last = self.suspensions.last_mut();
        let open = last.filter(|last| last.until.is_none());
        match open {
            Some(open) if !suspended => open.until = Some(since.max(open.from)),
            None if suspended => self.suspensions.push(Suspension {
                from: since,
                until: None,
            }),
            _ => {}
        }
    }

    /// Where the time went, from the job's creation to its end or until now.
    pub(crate) fn timeline(&self, job: &Job, now: Timestamp) -> Timeline {
        let end = job.completed_at();
        let pods: Vec<Times> = self.pods.values().map(|pod| pod.times).collect();
        let mut intervals = intervals(
            job.created_at(),
            end.unwrap_or(now),
            &pods,
            &self.suspensions,
        );
        // The end of a job is told a little later than its last pod ends.
        if end.is_some()
            && let [.., before, last] = intervals.as_mut_slice()
            && last.phase == Phase::Restarting
        {
            before.until = last.until;
            intervals.pop();
        }
        Timeline::of(intervals)
    }

    /// The machines that its pods are or were on.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &str> {
        let nodes = self.pods.values().filter_map(|pod| pod.node.as_ref());
        nodes.filter_map(|node| node.machine.as_deref())
    }

    /// The nodes of a job that is over: those that are still there, and the last ones of the ranks that are not.
    pub(crate) fn nodes(&self, job: &Job) -> Vec<JobNode> {
        let mut nodes: BTreeMap<i64, JobNode> = BTreeMap::new();
        if job.completed_at().is_some() {
            let mut gone: Vec<&PodFacts> = self.pods.values().collect();
            gone.sort_by_key(|pod| pod.times.created);
            for pod in gone {
                if let Some(node) = &pod.node {
                    let mut node = node.clone();
                    node.finished_at = node.finished_at.or(pod.times.ended);
                    nodes.insert(node.worker, node);
                }
            }
        }
        nodes.extend(job.nodes().into_iter().map(|node| (node.worker, node)));
        nodes.into_values().collect()
    }
}

/// What a job did in each moment from `created` to `end`: intervals that touch, in order.
fn intervals(
    created: Timestamp,
    end: Timestamp,
    pods: &[Times],
    suspensions: &[Suspension],
) -> Vec<Interval> {
    let of_pods = pods
        .iter()
        .flat_map(|pod| [Some(pod.created), pod.placed, pod.started, pod.ended]);
    let of_suspensions = suspensions
        .iter()
        .flat_map(|suspension| [Some(suspension.from), suspension.until]);
    let moments: BTreeSet<Timestamp> = of_pods
        .chain(of_suspensions)
        .flatten()
        .filter(|moment| (created..end).contains(moment))
        .chain([created])
        .collect();
    let ends = moments.iter().copied().skip(1).chain([end]);
    let mut found: Vec<Interval> = Vec::new();
    let mut trained = false;
    for (from, until) in moments.iter().copied().zip(ends) {
        let suspended = suspensions
            .iter()
            .any(|one| one.from <= from && one.until.is_none_or(|until| from < until));
        let phase = phase(from, pods, suspended, trained);
        let attempt = attempt(from, pods);
        // What follows a suspension is not to be blamed on a restart.
        trained = phase == Phase::Training || trained && phase != Phase::Suspended;
        match found.last_mut() {
            Some(last) if (last.phase, last.attempt) == (phase, attempt) => last.until = until,
            _ => found.push(Interval {
                phase,
                attempt,
                from,
                until,
            }),
        }
    }
    found
}

/// How often the rank that started most often has started. The times of pods are whole seconds, so that there may be none
/// between the end of one and the start of the next.
fn attempt(at: Timestamp, pods: &[Times]) -> i64 {
    let mut starts: BTreeMap<i64, i64> = BTreeMap::new();
    for pod in pods
        .iter()
        .filter(|pod| pod.started.is_some_and(|started| started <= at))
    {
        if let Some(rank) = pod.rank {
            *starts.entry(rank).or_default() += 1;
        }
    }
    starts.into_values().max().unwrap_or(1)
}

fn phase(at: Timestamp, pods: &[Times], suspended: bool, trained: bool) -> Phase {
    let is_live = |pod: &&Times| pod.created <= at && pod.ended.is_none_or(|ended| at < ended);
    let live = || pods.iter().filter(is_live);
    let has = |time: Option<Timestamp>| time.is_some_and(|time| time <= at);
    if live().any(|pod| pod.rank.is_some()) && live().all(|pod| has(pod.started)) {
        Phase::Training
    } else if suspended && live().next().is_none() {
        Phase::Suspended
    } else if trained {
        Phase::Restarting
    } else if live().next().is_some() && live().all(|pod| has(pod.placed)) {
        Phase::Starting
    } else {
        Phase::Queued
    }
}

impl Timeline {
    fn of(intervals: Vec<Interval>) -> Self {
        let seconds = |phase: Phase| {
            let mut all = intervals.iter().filter(|one| one.phase == phase).peekable();
            all.peek()?;
            Some(
                all.map(|one| one.until.as_second() - one.from.as_second())
                    .sum(),
            )
        };
        Self {
            queued_seconds: seconds(Phase::Queued),
            starting_seconds: seconds(Phase::Starting),
            training_seconds: seconds(Phase::Training),
            restarting_seconds: seconds(Phase::Restarting),
            suspended_seconds: seconds(Phase::Suspended),
            intervals,
        }
    }
}

/// The facts of the jobs that are not gone, with their uids.
#[derive(Default)]
pub(crate) struct Ledger {
    jobs: Mutex<HashMap<Key, (String, Facts)>>,
}

impl Ledger {
    /// Notes how a job is now, and returns all that is known of it.
    pub(crate) fn note(&self, history: &History, job: &Job, now: Timestamp) -> Facts {
        let key = Key::of(&*job.job);
        let uid = job.job.uid().unwrap_or_default();
        if let Some((known, facts)) = self.jobs().get_mut(&key)
            && *known == uid
        {
            facts.note(job, now);
            return facts.clone();
        }
        let record = history.find(&key.namespace, &key.name).ok().flatten();
        let record = record.filter(|record| record.detail.summary.uid == uid);
        let mut facts = record.map(|record| record.ledger).unwrap_or_default();
        facts.note(job, now);
        self.jobs().insert(key, (uid, facts.clone()));
        facts
    }

    /// The job is gone, and its record has what there is to know.
    pub(crate) fn forget(&self, key: &Key) {
        self.jobs().remove(key);
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<Key, (String, Facts)>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(created: i64, placed: i64, started: i64, ended: Option<i64>) -> Times {
        Times {
            created: at(created),
            placed: Some(at(placed)),
            started: Some(at(started)),
            ended: ended.map(at),
            rank: Some(0),
        }
    }

    fn told(end: i64, pods: &[Times], suspensions: &[Suspension]) -> Vec<(Phase, i64, i64)> {
        let intervals = intervals(at(0), at(end), pods, suspensions);
        let told = |one: &Interval| {
            let length = one.until.as_second() - one.from.as_second();
            (one.phase, one.attempt, length)
        };
        intervals.iter().map(told).collect()
    }

    #[test]
    fn a_job_waits_starts_and_trains() {
        let mut pods = [pod(1, 5, 7, Some(100)), pod(1, 6, 10, Some(90))];
        pods[1].rank = Some(1);
        let want = [
            (Phase::Queued, 1, 6),
            (Phase::Starting, 1, 4),
            (Phase::Training, 1, 90),
        ];
        assert_eq!(told(100, &pods, &[]), want);
        assert_eq!(told(3, &pods, &[]), [(Phase::Queued, 1, 3)]);
    }

    #[test]
    fn each_restart_is_an_attempt_and_the_time_between_is_lost_to_it() {
        let pods = [
            pod(0, 0, 2, Some(10)),
            pod(11, 12, 14, Some(20)),
            pod(20, 21, 22, None),
        ];
        let want = [
            (Phase::Starting, 1, 2),
            (Phase::Training, 1, 8),
            (Phase::Restarting, 1, 4),
            (Phase::Training, 2, 6),
            (Phase::Restarting, 2, 2),
            (Phase::Training, 3, 8),
        ];
        assert_eq!(told(30, &pods, &[]), want);
    }

    #[test]
    fn a_restart_within_a_second_is_an_attempt_too() {
        let pods = [pod(0, 0, 0, Some(5)), pod(5, 5, 5, None)];
        let want = [(Phase::Training, 1, 5), (Phase::Training, 2, 4)];
        assert_eq!(told(9, &pods, &[]), want);
    }

    #[test]
    fn a_job_that_was_suspended_queues_again() {
        let pods = [pod(0, 0, 0, Some(12)), pod(30, 35, 36, None)];
        let suspension = Suspension {
            from: at(10),
            until: Some(at(30)),
        };
        let want = [
            // It trains until its pods have ended.
            (Phase::Training, 1, 12),
            (Phase::Suspended, 1, 18),
            (Phase::Queued, 1, 5),
            (Phase::Starting, 1, 1),
            (Phase::Training, 2, 4),
        ];
        assert_eq!(told(40, &pods, &[suspension]), want);
    }

    #[test]
    fn a_job_that_restarts_for_ever_costs_no_more_for_it() {
        let mut facts = Facts::default();
        for number in 0..i64::try_from(PODS).unwrap() + 10 {
            let times = pod(number, number, number, (number > 5).then_some(number + 1));
            let node = None;
            facts
                .pods
                .insert(format!("{number:05}"), PodFacts { times, node });
        }
        facts.forget_oldest();
        assert_eq!(facts.pods.len(), PODS);
        let gone = |uid: &str| !facts.pods.contains_key(uid);
        assert!(gone("00006") && !gone("00005"), "what still runs stays");
    }

    fn times() -> impl Strategy<Value = Times> {
        let later = || prop::option::of(0..100_i64);
        (
            0..100_i64,
            later(),
            later(),
            later(),
            prop::option::of(0..3_i64),
        )
            .prop_map(|(created, placed, started, ended, rank)| Times {
                created: at(created),
                placed: placed.map(at),
                started: started.map(at),
                ended: ended.map(at),
                rank,
            })
    }

    proptest! {
        #[test]
        fn the_intervals_touch_and_make_up_all_of_the_time(
            pods in prop::collection::vec(times(), 0..6),
            suspended in prop::collection::vec((0..100_i64, prop::option::of(0..100_i64)), 0..3),
            end in 0..120_i64,
        ) {
            let suspended = suspended.into_iter().map(|(from, until)| Suspension {
                from: at(from),
                until: until.map(at),
            });
            let suspended: Vec<Suspension> = suspended.collect();
            let found = intervals(at(0), at(end), &pods, &suspended);
            prop_assert_eq!(found[0].from, at(0));
            prop_assert_eq!(found[found.len() - 1].until, at(end));
            for pair in found.windows(2) {
                prop_assert_eq!(pair[0].until, pair[1].from);
                prop_assert!(pair[0].phase != pair[1].phase || pair[0].attempt != pair[1].attempt);
            }
            let timeline = Timeline::of(found);
            let all = [
                timeline.queued_seconds,
                timeline.starting_seconds,
                timeline.training_seconds,
                timeline.restarting_seconds,
                timeline.suspended_seconds,
            ];
            prop_assert_eq!(all.into_iter().flatten().sum::<i64>(), end);
        }
    }
}
