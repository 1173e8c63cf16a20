//! How many pods a gang should have, and until when it may run.

use astrago_api::ObjectKey;
use jiff::Timestamp;

use super::World;
use super::facts::{JobFacts, Membership, PodFacts, Stage};
use crate::after;

impl World {
    /// The wave of its JobSet that a pod belongs to; see [`super`].
    pub(super) fn wave_of(&self, pod: &PodFacts) -> usize {
        let set = pod.set.as_ref().and_then(|uid| self.sets.get(uid));
        let replicated = pod.replicated.as_ref();
        let template = set
            .zip(replicated)
            .and_then(|(set, name)| set.templates.get(name));
        template.map_or(0, |template| template.wave)
    }

    /// How many pods the wave still lacks.
    pub(super) fn missing(&self, wave: usize, pods: &[&PodFacts]) -> u64 {
        let Some(pod) = pods.iter().find(|pod| pod.needs_node()) else {
            return 0;
        };
        let live = pods.iter().filter(|pod| pod.stage == Stage::Live).count() as u64;
        let succeeded = pods.iter().filter(|pod| pod.succeeded).count() as u64;
        match pod.membership {
            Membership::Alone => 0,
            Membership::Training => pod
                .gang_size
                .map_or(0, |size| size.saturating_sub(live + succeeded)),
            Membership::Named => match (pod.gang_size, self.job_of(pod)) {
                (Some(size), _) => size.saturating_sub(live + succeeded),
                (None, Some(job)) => job.needed().saturating_sub(live),
                // Nobody has said how many there will be: wait for the Job to be seen.
                (None, None) => u64::from(pod.job.is_some()),
            },
            Membership::JobSet => self.missing_of_set(wave, pod, live),
        }
    }

    fn missing_of_set(&self, wave: usize, pod: &PodFacts, live: u64) -> u64 {
        let uid = pod.set.as_deref().unwrap_or_default();
        // The watch of JobSets may be behind that of pods.
        let Some(set) = self.sets.get(uid) else {
            return 1;
        };
        let jobs: Vec<_> = self
            .jobs_of_set
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|key| self.jobs.get(key))
            .filter(|job| job.attempt == pod.attempt)
            .collect();
        let expected: u64 = set
            .templates
            .iter()
            .filter(|(_, template)| template.wave == wave)
            .map(|(name, template)| {
                let made: Vec<_> = jobs
                    .iter()
                    .filter(|job| job.replicated.as_ref() == Some(name))
                    .collect();
                let unmade = template.replicas.saturating_sub(made.len() as u64);
                made.iter().map(|job| job.needed()).sum::<u64>() + unmade * template.parallelism
            })
            .sum();
        expected.saturating_sub(live)
    }

    fn job_of(&self, pod: &PodFacts) -> Option<&JobFacts> {
        self.jobs.get(pod.job.as_ref()?)
    }

    /// The most seconds that a pod can hold its room once it is started.
    pub(super) fn longest_of(&self, pod: &PodFacts, now: Timestamp) -> Option<i64> {
        let job = self.job_of(pod).and_then(|job| job.deadline);
        let training = self
            .training_ends(pod)
            .map(|end| end.duration_since(now).as_secs().max(0));
        let shortest = [pod.deadline, job, training].into_iter().flatten().min()?;
        Some(shortest.saturating_add(pod.grace))
    }

    /// The moment by which a pod that was started will have given its room back.
    pub(super) fn end_of(&self, pod: &PodFacts) -> Option<Timestamp> {
        let own = pod.bound_at.zip(pod.deadline);
        let job = self
            .job_of(pod)
            .and_then(|job| job.started.zip(job.deadline));
        let training = self.training_ends(pod).map(|end| (end, 0));
        let ends = [own, job, training]
            .into_iter()
            .flatten()
            .map(|(start, seconds)| after(start, seconds.saturating_add(pod.grace)));
        ends.min()
    }

    /// The moment at which the deadline of its TrainJob ends a pod.
    fn training_ends(&self, pod: &PodFacts) -> Option<Timestamp> {
        self.train_jobs.get(&self.train_job_of(pod)?)?.ends
    }

    /// The TrainJob that a pod belongs to.
    pub(super) fn train_job_of(&self, pod: &PodFacts) -> Option<ObjectKey> {
        let set = self.sets.get(pod.set.as_ref()?)?;
        let name = set.owner.name.as_deref()?;
        Some(ObjectKey::new(pod.key.namespace.as_str(), name))
    }
}
