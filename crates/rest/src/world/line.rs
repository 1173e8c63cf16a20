//! The queue, as the scheduler sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use astrago_mirror::{Kind, Mirror, Mirrors};
use astrago_plan::fit::Waiting;
use astrago_plan::queue::{Candidate, Rank, World};
use jiff::Timestamp;

use super::Key;

/// How much longer than it took to find out the order it may be out of date, so that a burst of changes is not followed
/// by as many sorts.
const PATIENCE: u32 = 20;

/// Follows the changes of all that the scheduler decides from.
pub(crate) struct Line {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    world: World,
    order: Arc<Order>,
    is_outdated: bool,
    /// Before this moment, an order that is out of date is good enough.
    good_until: Option<Instant>,
}

/// The jobs that wait, in the order in which they will be started.
#[derive(Default)]
pub(crate) struct Order {
    /// Each with the priority that counts.
    pub(crate) jobs: Vec<(Key, i32)>,
    places: HashMap<Key, usize>,
}

impl Order {
    /// The place of a job, from 1.
    pub(crate) fn position(&self, job: &Key) -> Option<usize> {
        self.places.get(job).map(|place| place + 1)
    }
}

impl Line {
    pub(super) fn new(mirrors: &Mirrors) -> Arc<Self> {
        let line = Arc::new(Self {
            state: Mutex::default(),
        });
        line.follow(&mirrors.nodes, |world, key, node| {
            world.set_node(&key.name, node)
        });
        line.follow(&mirrors.jobs, World::set_job);
        line.follow(&mirrors.job_sets, World::set_job_set);
        line.follow(&mirrors.train_jobs, |world, key, job| {
            world.set_train_job(key, job);
            // One that has no pods yet has its place in the order all the same.
            true
        });
        line.follow(&mirrors.priority_classes, |world, key, class| {
            world.set_priority_class(&key.name, class)
        });
        line.follow(&mirrors.quotas, World::set_quota);
        line.follow(&mirrors.claims, |world, key, claim| {
            let usable = claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            world.set_claim(key, usable)
        });
        line.follow(&mirrors.namespaces, |world, key, namespace| {
            world.set_namespace(&key.name, namespace)
        });
        line.follow(&mirrors.pods, World::set_pod);
        line
    }

    fn follow<K: Kind>(
        self: &Arc<Self>,
        mirror: &Mirror<K>,
        set: fn(&mut World, &Key, Option<&K>) -> bool,
    ) {
        let (line, copy) = (Arc::downgrade(self), mirror.clone());
        mirror.subscribe(move |change| {
            let Some((line, object)) = line.upgrade().zip(change.latest()) else {
                return;
            };
            let key = Key::of(&**object);
            let mut state = line.lock();
            // What the mirror has now, and not what the change brought: nothing old overtakes something new.
            if set(&mut state.world, &key, copy.get(&key).as_deref()) {
                state.is_outdated = true;
            }
        });
    }

    /// Who waits, in which order.
    pub(crate) fn order(&self, mirrors: &Mirrors, now: Timestamp) -> Arc<Order> {
        let mut state = self.lock();
        let start = Instant::now();
        if state.is_outdated && state.good_until.is_none_or(|until| until <= start) {
            let mut waiting: Vec<(Rank, Option<Key>)> = Vec::new();
            for rank in state.world.unmade() {
                let key = Key::new(rank.key.namespace.as_str(), rank.key.name.as_str());
                waiting.push((rank, Some(key)));
            }
            for gang in state.world.snapshot(now).pending {
                let pod = gang.pods.first().map(|pod| &pod.key);
                let pod = pod.and_then(|pod| {
                    mirrors
                        .pods
                        .get(&Key::new(pod.namespace.as_str(), pod.name.as_str()))
                });
                waiting.push((gang.rank, pod.and_then(|pod| Key::of_training_job(&pod))));
            }
            waiting.sort();
            let mut order = Order::default();
            for (rank, job) in waiting {
                // Some wait with pods of several waves.
                if let Some(job) = job
                    && !order.places.contains_key(&job)
                {
                    order.places.insert(job.clone(), order.jobs.len());
                    order.jobs.push((job, rank.priority));
                }
            }
            state.order = Arc::new(order);
            state.is_outdated = false;
            let longest = Duration::from_secs(1);
            state.good_until = Some(start + (start.elapsed() * PATIENCE).min(longest));
        }
        Arc::clone(&state.order)
    }

    /// Why the candidate would wait if it came now; nothing if it would be started.
    pub(crate) fn foresee(&self, candidate: &Candidate<'_>, now: Timestamp) -> Option<Waiting> {
        self.lock().world.foresee(candidate, now)
    }

    /// The highest priority that counts for jobs of a namespace.
    pub(crate) fn highest_priority(&self, namespace: &str) -> i64 {
        self.lock().world.limit(namespace).into()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
