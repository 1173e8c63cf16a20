//! Whose turn it is to be made.
//!
//! A TrainJob that has to wait needs no JobSet, Jobs and pods yet. So a job is only made when few others of its namespace
//! that ask for the very same wait before it. Nothing is lost by that: none of those behind could be started
//! before its equals in front. And a queue of ten thousand jobs costs what ten thousand TrainJobs cost. The same holds
//! for suspended jobs, which are a line of their own.
//!
//! What is kept here follows from the objects, and is built anew with every start.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use astrago_api::{JobSet, ObjectKey, TrainJob, highest_priority, labels};
use astrago_mirror::{Mirrors, training_entry};
use astrago_plan::fit::{Cause, Waiting};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::ResourceExt;
use serde_json::json;

use crate::queue::Queue;

/// So many jobs that ask for the same are made and wait. More than one, so that the next are ready when some start.
const MADE: usize = 32;

/// The jobs that wait, with pods and without.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: HashMap<Arc<Asked>, Line>,
    places: HashMap<ObjectKey, Place>,
}

/// Jobs that ask for the same, the first in front.
#[derive(Debug, Default)]
struct Line {
    made: BTreeSet<(Rank, ObjectKey)>,
    unmade: BTreeSet<(Rank, ObjectKey)>,
}

#[derive(Debug)]
struct Place {
    asked: Arc<Asked>,
    rank: Rank,
}

/// Everything that decides when and where a job can be started, besides its rank.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    namespace: String,
    suspended: bool,
    /// What its pods ask for, as text.
    pods: String,
}

/// As the scheduler orders jobs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i32>,
    created: Timestamp,
    uid: String,
}

impl Turns {
    /// Whether the job may be made now. If not, it is told by [`Turns::leave`] when its turn has come.
    pub(crate) fn ask(&self, key: &ObjectKey, asked: Asked, rank: Rank) -> bool {
        let mut state = self.lock();
        let known = state.places.get(key);
        if known.is_some_and(|place| place.rank != rank || *place.asked != asked) {
            state.remove(key);
        }
        let asked = match state.places.get(key) {
            Some(place) => Arc::clone(&place.asked),
            None => Arc::new(asked),
        };
        let entry = (rank.clone(), key.clone());
        let line = state.lines.entry(Arc::clone(&asked)).or_default();
        let may = line.made.contains(&entry) || line.made.range(..&entry).count() < MADE;
        if may {
            line.unmade.remove(&entry);
            line.made.insert(entry);
        } else {
            line.unmade.insert(entry);
        }
        state.places.insert(key.clone(), Place { asked, rank });
        may
    }

    /// The job no longer waits, or for something that the others of its line do not wait for. Answers who may be made
    /// now.
    pub(crate) fn leave(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let mut state = self.lock();
        let Some(asked) = state.remove(key) else {
            return Vec::new();
        };
        let Some(line) = state.lines.get(&asked) else {
            return Vec::new();
        };
        // Some behind may be made already: they asked before those in front of them did.
        let mut next = Vec::new();
        for entry in &line.unmade {
            if line.made.range(..entry).count() + next.len() >= MADE {
                break;
            }
            next.push(entry.1.clone());
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Asked>> {
        let Place { asked, rank } = self.places.remove(key)?;
        if let Some(line) = self.lines.get_mut(&asked) {
            let entry = (rank, key.clone());
            line.made.remove(&entry);
            line.unmade.remove(&entry);
            if line.made.is_empty() && line.unmade.is_empty() {
                self.lines.remove(&asked);
            }
        }
        Some(asked)
    }
}

/// Follows who leaves, and puts those whose turn it is into the queue.
pub(crate) fn follow(turns: &Arc<Turns>, mirrors: &Mirrors, queue: &Arc<Queue>) {
    let leave = {
        let (turns, queue) = (Arc::clone(turns), Arc::clone(queue));
        move |key: &ObjectKey| {
            for next in turns.leave(key) {
                queue.add(next);
            }
        }
    };
    let of_jobs = leave.clone();
    mirrors.train_jobs.subscribe(move |change| {
        let Some(job) = change.latest() else { return };
        let replaced = change.old.as_ref().is_some_and(|old| {
            old.metadata.uid != job.metadata.uid || old.is_suspended() != job.is_suspended()
        });
        if replaced || change.new.as_ref().is_none_or(|job| !waits(job)) {
            of_jobs(&ObjectKey::of(&**job));
        }
    });
    mirrors.pods.subscribe(move |change| {
        if let Some(pod) = change.new.as_ref().filter(|pod| is_beyond(pod))
            && let Some(job) = ObjectKey::of_training_job(pod)
        {
            leave(&job);
        }
    });
}

/// Takes in the jobs that were made earlier and wait still.
pub(crate) fn recall(turns: &Turns, mirrors: &Mirrors) {
    for set in mirrors.job_sets.all() {
        let key = ObjectKey::of(&*set);
        let Some(job) = mirrors.train_jobs.get(&key).filter(|job| waits(job)) else {
            continue;
        };
        let pods = mirrors.pods.find(&training_entry(&key));
        if !pods.iter().any(|pod| is_beyond(pod)) {
            turns.ask(&key, asked(&job, &set), rank(&job, mirrors));
        }
    }
}

/// Whether the job can be one that waits for its turn.
pub(super) fn waits(job: &TrainJob) -> bool {
    !job.is_finished() && job.metadata.deletion_timestamp.is_none()
}

/// Whether the pod has a place, or waits for something of its own.
fn is_beyond(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().is_some_and(|spec| {
        let node = spec.node_name.as_deref();
        node.is_some_and(|node| !node.is_empty())
    });
    bound
        || Waiting::written_on(pod).is_some_and(|waiting| {
            matches!(
                waiting.cause,
                Cause::NoClaim { .. } | Cause::Gated { .. } | Cause::Invalid { .. }
            )
        })
}

/// What `job` asks for, given the JobSet that it becomes.
pub(crate) fn asked(job: &TrainJob, set: &JobSet) -> Asked {
    let parts: Vec<_> = set
        .spec
        .replicated_jobs
        .iter()
        .map(|part| {
            let spec = part.template.spec.as_ref();
            let pod = spec.and_then(|spec| spec.template.spec.as_ref());
            json!([
                part.name,
                part.replicas(),
                part.parallelism(),
                part.depends_on,
                spec.and_then(|spec| spec.active_deadline_seconds),
                pod.map(of_pod),
            ])
        })
        .collect();
    let deadline = job.spec.active_deadline_seconds;
    Asked {
        namespace: job.namespace().unwrap_or_default(),
        suspended: job.is_suspended(),
        pods: json!([parts, set.spec.startup_policy, deadline]).to_string(),
    }
}

fn of_pod(spec: &PodSpec) -> serde_json::Value {
    let needs = |containers: &[Container]| -> Vec<_> {
        let needs = containers.iter();
        needs
            .map(|container| {
                json!([
                    container.resources,
                    container.ports,
                    container.restart_policy
                ])
            })
            .collect()
    };
    json!([
        needs(&spec.containers),
        spec.init_containers.as_deref().map(needs),
        spec.resources,
        spec.overhead,
        spec.node_name,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.priority_class_name,
        spec.priority,
        spec.preemption_policy,
        spec.scheduler_name,
        spec.active_deadline_seconds,
        spec.termination_grace_period_seconds,
    ])
}

/// The place of `job` among those that ask for the same.
pub(crate) fn rank(job: &TrainJob, mirrors: &Mirrors) -> Rank {
    let namespace = job.namespace().unwrap_or_default();
    let classes = mirrors.priority_classes.all();
    let ordinary = classes
        .iter()
        .find(|class| class.global_default == Some(true));
    let ordinary = ordinary.and_then(|class| class.value).unwrap_or(0);
    let asked = job.annotations().get(labels::PRIORITY);
    let asked = asked.and_then(|text| text.parse().ok()).unwrap_or(ordinary);
    let said = mirrors
        .namespaces
        .get(&ObjectKey::new("", namespace.as_str()));
    let said = said.and_then(|said| said.annotations().get(labels::MAX_PRIORITY).cloned());
    let limit = highest_priority(&namespace, said.as_deref(), ordinary);
    Rank {
        priority: Reverse(asked.min(limit)),
        created: job
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        uid: job.uid().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("ns", format!("job-{number:03}"))
    }

    fn same(pods: &str) -> Asked {
        Asked {
            namespace: "ns".to_owned(),
            suspended: false,
            pods: pods.to_owned(),
        }
    }

    fn rank(priority: i32, number: usize) -> Rank {
        Rank {
            priority: Reverse(priority),
            created: Timestamp::UNIX_EPOCH,
            uid: format!("{number:03}"),
        }
    }

    fn filled() -> Turns {
        let turns = Turns::default();
        for number in 0..2 * MADE {
            let may = turns.ask(&key(number), same("small"), rank(0, number));
            assert_eq!(may, number < MADE, "job {number}");
        }
        turns
    }

    #[test]
    fn those_behind_follow_in_order_when_one_in_front_starts() {
        let turns = filled();
        assert_eq!(turns.leave(&key(3)), [key(MADE)]);
        assert!(turns.ask(&key(MADE), same("small"), rank(0, MADE)));
        assert!(!turns.ask(&key(MADE + 1), same("small"), rank(0, MADE + 1)));
        // One that nobody knows, or that left already, makes no room.
        assert_eq!(turns.leave(&key(3)), []);
        assert_eq!(turns.leave(&key(999)), []);
    }

    #[test]
    fn one_that_was_made_stays_so_whoever_comes_before_it() {
        let turns = filled();
        for number in 0..MADE {
            let urgent = ObjectKey::new("ns", format!("urgent-{number:03}"));
            assert!(turns.ask(&urgent, same("small"), rank(1, number)));
        }
        assert!(turns.ask(&key(0), same("small"), rank(0, 0)));
        // Those behind wait until the urgent ones have left, too.
        assert_eq!(turns.leave(&key(0)), []);
    }

    #[test]
    fn one_that_asks_late_is_told_although_some_behind_it_are_made() {
        let turns = Turns::default();
        for number in (0..MADE).chain([MADE + 1, MADE + 2]) {
            turns.ask(&key(number), same("small"), rank(0, number));
        }
        turns.leave(&key(0));
        // Two were in the way of nobody, so far.
        assert!(turns.ask(&key(MADE + 1), same("small"), rank(0, MADE + 1)));
        turns.ask(&key(0), same("small"), rank(0, 0));
        assert!(!turns.ask(&key(MADE), same("small"), rank(0, MADE)));
        assert_eq!(turns.leave(&key(5)), [key(MADE)]);
    }

    #[test]
    fn who_asks_for_something_else_stands_in_another_line() {
        let turns = filled();
        let other = ObjectKey::new("ns", "other");
        assert!(turns.ask(&other, same("large"), rank(0, 500)));
        let elsewhere = Asked {
            namespace: "elsewhere".to_owned(),
            suspended: false,
            pods: "small".to_owned(),
        };
        assert!(turns.ask(&ObjectKey::new("elsewhere", "a"), elsewhere, rank(0, 501)));
    }

    #[test]
    fn a_job_that_changes_what_it_asks_for_changes_its_line() {
        let turns = filled();
        let last = key(2 * MADE - 1);
        assert!(turns.ask(&last, same("large"), rank(0, 2 * MADE - 1)));
        for number in 0..2 * MADE {
            turns.leave(&key(number));
        }
        let state = turns.lock();
        assert!(state.lines.is_empty() && state.places.is_empty());
    }
}
