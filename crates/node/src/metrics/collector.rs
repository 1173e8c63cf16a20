//! Asking the supervisors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::node::{NodeCounters, NodeSample};
use crate::control::{Channel, Request, Response, Stats, Usage};
use crate::layout;

/// How often supervisors are asked.
const INTERVAL: Duration = Duration::from_secs(10);
/// An interval that is too short to tell anything about CPU use.
const SHORTEST: Duration = Duration::from_millis(200);
/// A supervisor that does not answer is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq)]
pub struct PodSample {
    pub at: Timestamp,
    /// The time over which CPU use was measured.
    pub window: Duration,
    pub containers: Vec<ContainerSample>,
    pub total: ContainerSample,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerSample {
    pub name: String,
    /// CPU use in billionths of a CPU.
    pub cpu_nanocores: u64,
    pub cpu_nanoseconds: u64,
    pub memory_bytes: u64,
}

/// Knows what pods use. Cheap to clone.
#[derive(Clone)]
pub struct Collector(Arc<Inner>);

struct Inner {
    data_dir: PathBuf,
    node_name: String,
    client: OnceLock<Client>,
    pods: Mutex<BTreeMap<String, History>>,
    node: Mutex<Option<(Reading<NodeCounters>, Option<NodeSample>)>>,
}

#[derive(Clone)]
struct Reading<T> {
    taken: Instant,
    at: Timestamp,
    counters: T,
}

impl<T> Reading<T> {
    fn new(counters: T) -> Self {
        Self {
            taken: Instant::now(),
            at: Timestamp::now(),
            counters,
        }
    }
}

struct History {
    last: Reading<Stats>,
    sample: Option<PodSample>,
}

impl Collector {
    pub fn new(data_dir: &Path, node_name: &str) -> Self {
        Self(Arc::new(Inner {
            data_dir: data_dir.to_owned(),
            node_name: node_name.to_owned(),
            client: OnceLock::new(),
            pods: Mutex::default(),
            node: Mutex::default(),
        }))
    }

    /// Gives it the API server, which may not have existed when it was made. Later ones are
    /// ignored.
    pub fn connect(&self, client: Client) {
        let _ = self.0.client.set(client);
    }

    pub async fn run(self, cancelled: CancellationToken) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = ticks.tick() => self.sample(false).await,
            }
        }
    }

    /// The latest samples, by the pods' UIDs.
    pub async fn pods(&self) -> BTreeMap<String, PodSample> {
        // Pods that were asked at most once get a sample now rather than in some seconds.
        self.sample(true).await;
        lock(&self.0.pods)
            .iter()
            .filter_map(|(uid, history)| Some((uid.clone(), history.sample.clone()?)))
            .collect()
    }

    pub async fn node(&self) -> Option<NodeSample> {
        self.sample_node(true).await;
        lock(&self.0.node).as_ref()?.1
    }

    pub(super) fn node_name(&self) -> &str {
        &self.0.node_name
    }

    /// The API server, once it is there.
    pub(crate) fn api(&self) -> Option<Client> {
        self.0.client.get().cloned()
    }

    pub(super) fn client(&self) -> Result<Client, Error> {
        self.api().ok_or(Error::Starting)
    }

    async fn sample(&self, only_young: bool) {
        let inner = Arc::clone(&self.0);
        let work = move || inner.sample_pods(only_young);
        // It fails only when the runtime stops.
        let _ = tokio::task::spawn_blocking(work).await;
        if !only_young {
            self.sample_node(false).await;
        }
    }

    async fn sample_node(&self, only_young: bool) {
        loop {
            let done = self.0.read_node(only_young);
            if done || !only_young {
                return;
            }
            tokio::time::sleep(SHORTEST).await;
        }
    }
}

impl Inner {
    fn sample_pods(&self, only_young: bool) {
        let folder = layout::pods(&self.data_dir);
        let uids: BTreeSet<String> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        lock(&self.pods).retain(|uid, _| uids.contains(uid));
        for uid in uids {
            let known = lock(&self.pods)
                .get(&uid)
                .map(|history| history.sample.is_some());
            if only_young && known == Some(true) {
                continue;
            }
            if let Some(stats) = ask(&folder.join(&uid)) {
                self.add(uid, Reading::new(stats));
            }
        }
    }

    fn add(&self, uid: String, reading: Reading<Stats>) {
        let mut pods = lock(&self.pods);
        match pods.get_mut(&uid) {
            Some(history) => {
                if let Some(sample) = pod_sample(&history.last, &reading) {
                    *history = History {
                        last: reading,
                        sample: Some(sample),
                    };
                }
            }
            None => {
                pods.insert(
                    uid,
                    History {
                        last: reading,
                        sample: None,
                    },
                );
            }
        }
    }

    /// `false` when the next reading must wait a moment.
    fn read_node(&self, only_young: bool) -> bool {
        let Some(counters) = NodeCounters::read() else {
            return true;
        };
        let reading = Reading::new(counters);
        let mut node = lock(&self.node);
        match &mut *node {
            Some((_, Some(_))) if only_young => true,
            Some((last, sample)) => {
                let window = reading.taken.duration_since(last.taken);
                if window < SHORTEST {
                    return false;
                }
                *sample = Some(reading.counters.since(&last.counters, window, reading.at));
                *last = reading;
                true
            }
            None => {
                *node = Some((reading, None));
                false
            }
        }
    }
}

/// Asks one supervisor; one that is gone, or busy starting, has nothing to tell.
fn ask(pod: &Path) -> Option<Stats> {
    let mut channel = Channel::connect(pod).ok()?;
    channel.set_timeout(PATIENCE).ok()?;
    channel.send(&Request::Stats, &[]).ok()?;
    match channel.receive::<Response>().ok()?? {
        (Response::Stats(stats), _) => Some(stats),
        _ => None,
    }
}

fn pod_sample(before: &Reading<Stats>, now: &Reading<Stats>) -> Option<PodSample> {
    let window = now.taken.duration_since(before.taken);
    if window < SHORTEST {
        return None;
    }
    let containers: Vec<ContainerSample> = now
        .counters
        .containers
        .iter()
        .map(|container| {
            let old = before
                .counters
                .containers
                .iter()
                .find(|old| old.name == container.name);
            let old = old.map(|old| old.usage).unwrap_or_default();
            container_sample(&container.name, old, container.usage, window)
        })
        .collect();
    let mut total = container_sample("", before.counters.pod, now.counters.pod, window);
    if now.counters.pod.cpu_nanoseconds.is_none() {
        for container in &containers {
            total.cpu_nanocores += container.cpu_nanocores;
            total.cpu_nanoseconds += container.cpu_nanoseconds;
            total.memory_bytes += container.memory_bytes;
        }
    }
    Some(PodSample {
        at: now.at,
        window,
        containers,
        total,
    })
}

fn container_sample(name: &str, old: Usage, new: Usage, window: Duration) -> ContainerSample {
    let cpu = new.cpu_nanoseconds.unwrap_or(0);
    // A container that was started again counts from zero.
    let used = cpu
        .checked_sub(old.cpu_nanoseconds.unwrap_or(cpu))
        .unwrap_or(cpu);
    let cpu_nanocores = u128::from(used) * 1_000_000_000 / window.as_nanos().max(1);
    ContainerSample {
        name: name.to_owned(),
        cpu_nanocores: u64::try_from(cpu_nanocores).unwrap_or(u64::MAX),
        cpu_nanoseconds: cpu,
        memory_bytes: new.working_set_bytes.unwrap_or(0),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ContainerStats;

    fn reading(taken: Instant, cpu: u64, memory: u64) -> Reading<Stats> {
        let usage = Usage {
            cpu_nanoseconds: Some(cpu),
            working_set_bytes: Some(memory),
            ..Usage::default()
        };
        let container = ContainerStats {
            name: "node".into(),
            usage,
        };
        let counters = Stats {
            pod: Usage::default(),
            containers: vec![container],
        };
        Reading {
            taken,
            at: Timestamp::UNIX_EPOCH,
            counters,
        }
    }

    #[test]
    fn cpu_use_is_the_difference_over_time() {
        let start = Instant::now();
        let before = reading(start, 1_000_000_000, 5);
        let after = reading(start + Duration::from_secs(4), 3_000_000_000, 7);
        let sample = pod_sample(&before, &after).unwrap();
        assert_eq!(sample.containers[0].cpu_nanocores, 500_000_000);
        assert_eq!(
            (sample.total.cpu_nanocores, sample.total.memory_bytes),
            (500_000_000, 7)
        );
        // After a restart of the container the counter begins again.
        let restarted = reading(start + Duration::from_secs(8), 400_000_000, 7);
        let sample = pod_sample(&after, &restarted).unwrap();
        assert_eq!(sample.containers[0].cpu_nanocores, 100_000_000);
        assert!(pod_sample(&after, &after).is_none());
    }
}
