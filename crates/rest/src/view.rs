//! From the objects of a job to what people want to know of it. Pure.

mod amounts;
mod nodes;
mod state;
mod waiting;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use astrago_api::{JobSet, ReplicatedJob, TrainJob, conditions, labels};
use astrago_mirror::{Mirrors, training_entry};
use astrago_plan::fit::Waiting;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

pub(crate) use self::amounts::{cores, of_pod, of_resources};
pub(crate) use self::nodes::{TRAINING_CONTAINERS, times_of};
use crate::cause::Ending;
use crate::legacy::{self, Shown};
use crate::model::{Amounts, Cause, JobNode, JobState, JobStatus, JobSummary, Progress, Usage};
use crate::names;
use crate::world::Key;

/// A job with everything that belongs to it, at one moment.
#[expect(
    clippy::struct_field_names,
    reason = "the fields are called as their kinds are"
)]
pub(crate) struct Job {
    pub(crate) job: Arc<TrainJob>,
    pub(crate) job_set: Option<Arc<JobSet>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) per_node: Amounts,
    pub(crate) num_nodes: i64,
    pub(crate) framework: Option<String>,
    /// Whether the runtime that it names does not exist.
    pub(crate) lacks_runtime: bool,
    /// What is special about a job of the Training Operator v1.
    pub(crate) legacy: Option<Shown>,
}

impl Job {
    /// The TrainJob of this name, or else the v1 job.
    pub(crate) fn find(mirrors: &Mirrors, key: &Key) -> Option<Self> {
        let Some(job) = mirrors.train_jobs.get(key) else {
            return Some(Self::legacy(mirrors, key, legacy::find(mirrors, key)?));
        };
        let runtime = mirrors
            .cluster_runtimes
            .get(&Key::new("", &job.spec.runtime_ref.name));
        let spec = runtime.as_ref().map(|runtime| &runtime.spec.0);
        let num_nodes = job
            .num_nodes()
            .or_else(|| spec?.ml_policy.as_ref()?.num_nodes)
            .unwrap_or(1);
        let framework = job.labels().get(names::FRAMEWORK).cloned().or_else(|| {
            let runtime = &runtime.as_ref()?.metadata;
            astrago_plan::framework_name(runtime.labels.as_ref(), runtime.annotations.as_ref())
        });
        let named = &job.spec.runtime_ref;
        let lacks_runtime = match named.kind() {
            "ClusterTrainingRuntime" => runtime.is_none(),
            "TrainingRuntime" => {
                let own = Key::new(&key.namespace, &named.name);
                mirrors.runtimes.get(&own).is_none()
            }
            _ => false,
        };
        let mut pods = mirrors.pods.find(&training_entry(key));
        // A v1 job may have the same name.
        pods.retain(|pod| pod.labels().contains_key(labels::JOBSET_NAME));
        let resources = job
            .spec
            .trainer
            .as_ref()
            .and_then(|trainer| trainer.resources_per_node.as_ref());
        let per_node = if let Some(resources) = resources {
            of_resources(resources)
        } else {
            let trains = |pod: &&Arc<Pod>| nodes::role_of(pod) == nodes::NODE;
            let node = pods.iter().find(trains).or(pods.first());
            node.map(|pod| of_pod(pod)).unwrap_or_default()
        };
        Some(Self {
            job_set: mirrors.job_sets.get(key),
            pods,
            per_node,
            num_nodes: i64::from(num_nodes),
            framework,
            lacks_runtime,
            legacy: None,
            job,
        })
    }

    /// A v1 job with its pods.
    pub(crate) fn legacy(mirrors: &Mirrors, key: &Key, shown: Shown) -> Self {
        let mut pods = mirrors.pods.find(&training_entry(key));
        pods.retain(|pod| shown.rank(pod).is_some());
        Self {
            job: Arc::clone(&shown.job),
            job_set: None,
            per_node: pods.first().map(|pod| of_pod(pod)).unwrap_or_default(),
            pods,
            num_nodes: shown.num_nodes,
            framework: Some(shown.kind.framework.to_owned()),
            lacks_runtime: false,
            legacy: Some(shown),
        }
    }

    /// The kind of the object that people made.
    pub(crate) fn kind(&self) -> &'static str {
        self.legacy
            .as_ref()
            .map_or("TrainJob", |legacy| legacy.kind.kind)
    }

    /// The pods by rank: in MPI jobs the launcher is rank 0, and the nodes follow it.
    pub(crate) fn workers(&self) -> Vec<(i64, &Arc<Pod>)> {
        if let Some(legacy) = &self.legacy {
            let ranked = self.pods.iter();
            return ranked
                .filter_map(|pod| Some((legacy.rank(pod)?, pod)))
                .collect();
        }
        let has_launcher = self.replicated(nodes::LAUNCHER).is_some();
        self.pods
            .iter()
            .filter_map(|pod| Some((nodes::rank(pod, has_launcher)?, pod)))
            .collect()
    }

    /// How many ranks there are: the nodes, and the launcher where that is none of them.
    pub(crate) fn num_workers(&self) -> i64 {
        self.num_nodes + i64::from(self.has_idle_launcher())
    }

    /// How many nodes train at the moment. Initializers are none, nor is a launcher that only starts them.
    pub(crate) fn nodes_running(&self) -> i64 {
        let idle_launcher = self.has_idle_launcher();
        let pods = self.workers().into_iter().map(|(_, pod)| pod);
        nodes::running(
            pods.filter(|pod| !(idle_launcher && nodes::role_of(pod) == nodes::LAUNCHER)),
        )
    }

    /// Whether a launcher runs beside the nodes, and not as one of them. Only the nodes' own number tells.
    fn has_idle_launcher(&self) -> bool {
        let nodes = self.replicated(nodes::NODE);
        self.replicated(nodes::LAUNCHER).is_some()
            && nodes.is_some_and(|nodes| i64::from(nodes.parallelism()) >= self.num_nodes)
    }

    fn replicated(&self, name: &str) -> Option<&ReplicatedJob> {
        let jobs = &self.job_set.as_ref()?.spec.replicated_jobs;
        jobs.iter().find(|job| job.name == name)
    }

    /// The newest pod of one rank.
    pub(crate) fn worker(&self, worker: i64) -> Option<&Arc<Pod>> {
        let pods = self
            .workers()
            .into_iter()
            .filter(|(rank, _)| *rank == worker);
        pods.max_by(|(_, one), (_, other)| nodes::created(one).cmp(&nodes::created(other)))
            .map(|(_, pod)| pod)
    }

    pub(crate) fn nodes(&self) -> Vec<JobNode> {
        nodes::nodes(&self.workers())
    }

    pub(crate) fn endings(&self) -> Vec<Ending> {
        self.nodes()
            .iter()
            .filter_map(|node| nodes::ending(self.worker(node.worker)?, node))
            .collect()
    }

    /// Why a pod of it has no machine yet.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.pods.iter().find_map(|pod| Waiting::of(pod))
    }

    pub(crate) fn created_at(&self) -> Timestamp {
        self.job
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    pub(crate) fn state(&self) -> JobState {
        state::state(self)
    }

    pub(crate) fn message(&self) -> String {
        state::message(self)
    }

    /// The message for programs.
    pub(crate) fn cause(&self) -> Cause {
        state::cause(self)
    }

    /// When the job reached its end.
    pub(crate) fn completed_at(&self) -> Option<Timestamp> {
        let terminal = [
            conditions::train_job::COMPLETE,
            conditions::train_job::FAILED,
        ];
        self.job
            .conditions()
            .iter()
            .find(|condition| {
                condition.status == "True" && terminal.contains(&condition.type_.as_str())
            })
            .map(|condition| condition.last_transition_time.0)
    }

    /// Restarts of the whole job, plus those of single containers in the pods of now.
    pub(crate) fn restarts(&self) -> i64 {
        let whole = self
            .job_set
            .as_ref()
            .and_then(|set| set.status.as_ref())
            .map_or(0, |status| status.restarts);
        let single: i32 = self.pods.iter().map(|pod| nodes::restarts(pod)).sum();
        let remade = self.legacy.as_ref().map_or(0, |legacy| legacy.restarts);
        i64::from(whole) + i64::from(single) + remade
    }

    pub(crate) fn status(&self) -> JobStatus {
        JobStatus {
            trainjob_name: self.job.name_any(),
            state: self.state(),
            message: self.message(),
            created_at: self.created_at(),
            completed_at: self.completed_at(),
        }
    }

    pub(crate) fn summary(&self, progress: Option<Progress>, now: Timestamp) -> JobSummary {
        let created_at = self.created_at();
        let completed_at = self.completed_at();
        JobSummary {
            name: self.job.name_any(),
            namespace: self.job.namespace().unwrap_or_default(),
            uid: self.job.uid().unwrap_or_default(),
            kind: self.kind().to_owned(),
            user: self.job.labels().get(names::USER).cloned(),
            framework: self.framework.clone(),
            runtime: self.job.spec.runtime_ref.name.clone(),
            state: self.state(),
            message: self.message(),
            cause: self.cause(),
            num_nodes: self.num_nodes,
            nodes_running: self.nodes_running(),
            per_node: self.per_node.clone(),
            created_at,
            started_at: nodes::first_start(&self.pods),
            completed_at,
            duration_seconds: seconds(created_at, completed_at.unwrap_or(now)),
            restarts: self.restarts(),
            progress: self.reported_progress().or(progress),
            stalled: None,
            tags: tags(&self.job),
            failed_by: None,
            headline: None,
            archived: false,
        }
    }

    /// Progress as the training code itself reported it.
    pub(crate) fn reported_progress(&self) -> Option<Progress> {
        let status = self.job.status.as_ref()?.trainer_status.as_ref()?;
        let percent = status.progress_percentage?;
        Some(Progress {
            percent: f64::from(percent),
            remaining_seconds: status.estimated_remaining_seconds.map(i64::from),
            step: format!("{percent} percent, as reported by the code"),
            counts: Vec::new(),
        })
    }

    /// What each pod that is still known has held since it got its place, by its uid.
    pub(crate) fn usage_of_pods(&self, now: Timestamp) -> Vec<(String, Usage)> {
        let end = self.completed_at().unwrap_or(now);
        let used = self.pods.iter().filter_map(|pod| {
            let from = nodes::scheduled_at(pod)?;
            let until = nodes::finished_at(pod).unwrap_or(end);
            let amounts = of_pod(pod);
            #[expect(
                clippy::cast_precision_loss,
                reason = "hours and bytes for people to read"
            )]
            let (hours, memory, gpu) = (
                seconds(from, until) as f64 / 3600.0,
                amounts.memory as f64,
                amounts.gpu as f64,
            );
            let usage = Usage {
                cpu_core_hours: hours * amounts.cpu,
                memory_gib_hours: hours * memory / f64::from(1 << 30),
                gpu_hours: hours * gpu,
            };
            Some((pod.uid().unwrap_or_default(), usage))
        });
        used.collect()
    }
}

/// What people call a job by, as [`names::TAGS`] has it.
fn tags(job: &TrainJob) -> Vec<String> {
    let written = job
        .annotations()
        .get(names::TAGS)
        .map_or("", String::as_str);
    let tags = written.split(',').filter(|tag| !tag.is_empty());
    // Whoever writes the annotation by hand can write any number.
    tags.take(names::MOST_TAGS).map(str::to_owned).collect()
}

fn seconds(from: Timestamp, until: Timestamp) -> i64 {
    (until.as_second() - from.as_second()).max(0)
}
