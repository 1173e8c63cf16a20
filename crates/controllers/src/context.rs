//! What every controller is given: the client, the clock, the shared copies of the world, and where to tell
//! people what happened.

use std::fmt;
use std::sync::Arc;

use astrago_api::legacy::{JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};
use astrago_api::{ClusterTrainingRuntime, JobSet, TrainJob, TrainingRuntime};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::clock::SharedClock;
use crate::events::{Notice, Recorder};
use crate::mirror::Mirror;
use crate::queue::{ObjectKey, Queue};
use crate::report::Metrics;

/// Field manager of everything that our controllers apply.
pub const FIELD_MANAGER: &str = "astrago-controllers";

/// Shared by all controllers of one run.
pub struct Context {
    /// The only road to the API server.
    pub client: Client,
    /// The only source of time.
    pub clock: SharedClock,
    /// Events for people.
    pub events: Recorder,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Copies of the objects that the controllers read.
    pub mirrors: Mirrors,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("mirrors", &self.mirrors)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A context with empty mirrors, and the notices that [`crate::events::write`] is to write.
    pub fn new(
        client: Client,
        clock: SharedClock,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Notice>) {
        let (events, notices) = Recorder::new();
        (
            Arc::new(Self {
                client,
                clock,
                events,
                metrics,
                mirrors: Mirrors::new(),
            }),
            notices,
        )
    }

    /// An empty queue on this context's clock.
    pub fn queue(&self) -> Arc<Queue> {
        Arc::new(Queue::new(Arc::clone(&self.clock)))
    }
}

/// One shared copy per kind.
#[derive(Debug)]
pub struct Mirrors {
    /// TrainJobs, by [`runtime_entry`].
    pub train_jobs: Mirror<TrainJob>,
    /// Runtimes of the cluster, without an index.
    pub cluster_runtimes: Mirror<ClusterTrainingRuntime>,
    /// Runtimes of namespaces, without an index.
    pub runtimes: Mirror<TrainingRuntime>,
    /// JobSets, without an index: they have their TrainJob's name.
    pub job_sets: Mirror<JobSet>,
    /// Services, by [`owner_entry`] and [`selector_entry`].
    pub services: Mirror<Service>,
    /// Jobs, by [`owner_entry`].
    pub jobs: Mirror<Job>,
    /// Pods, by [`owner_entry`], [`job_entry`] and [`node_entry`].
    pub pods: Mirror<Pod>,
    /// Leases, without an index.
    pub leases: Mirror<Lease>,
    /// PyTorchJobs of the Training Operator v1, without an index.
    pub pytorch_jobs: Mirror<PyTorchJob>,
    /// TFJobs of the Training Operator v1, without an index.
    pub tf_jobs: Mirror<TFJob>,
    /// MPIJobs of the Training Operator v1, without an index.
    pub mpi_jobs: Mirror<MPIJob>,
    /// XGBoostJobs of the Training Operator v1, without an index.
    pub xgboost_jobs: Mirror<XGBoostJob>,
    /// PaddleJobs of the Training Operator v1, without an index.
    pub paddle_jobs: Mirror<PaddleJob>,
    /// MXJobs of the Training Operator v1, without an index.
    pub mx_jobs: Mirror<MXJob>,
    /// JAXJobs of the Training Operator v1, without an index.
    pub jax_jobs: Mirror<JAXJob>,
    /// Nodes, without an index.
    pub nodes: Mirror<Node>,
}

impl Mirrors {
    fn new() -> Self {
        Self {
            train_jobs: Mirror::new(train_job_entries),
            cluster_runtimes: Mirror::new(|_| Vec::new()),
            runtimes: Mirror::new(|_| Vec::new()),
            job_sets: Mirror::new(|_| Vec::new()),
            services: Mirror::new(service_entries),
            jobs: Mirror::new(owner_entries),
            pods: Mirror::new(pod_entries),
            leases: Mirror::new(|_| Vec::new()),
            pytorch_jobs: Mirror::new(|_| Vec::new()),
            tf_jobs: Mirror::new(|_| Vec::new()),
            mpi_jobs: Mirror::new(|_| Vec::new()),
            xgboost_jobs: Mirror::new(|_| Vec::new()),
            paddle_jobs: Mirror::new(|_| Vec::new()),
            mx_jobs: Mirror::new(|_| Vec::new()),
            jax_jobs: Mirror::new(|_| Vec::new()),
            nodes: Mirror::new(|_| Vec::new()),
        }
    }
}

/// Index entry of all objects that the object with this uid controls.
pub fn owner_entry(uid: &str) -> String {
    format!("owner:{uid}")
}

/// Index entry of all pods of a job of this name, of the present job and of deleted ones of the same name.
pub fn job_entry(job: &ObjectKey) -> String {
    format!("job:{job}")
}

/// Index entry of all Services of a namespace whose selector begins with this pair.
pub fn selector_entry(namespace: &str, key: &str, value: &str) -> String {
    format!("selects:{namespace}/{key}={value}")
}

/// Index entry of all pods that are bound to a node.
pub fn node_entry(node: &str) -> String {
    format!("node:{node}")
}

/// Index entry of all TrainJobs that name this runtime; the namespace is empty for one of the cluster.
pub fn runtime_entry(kind: &str, namespace: &str, name: &str) -> String {
    format!("runtime:{kind}/{namespace}/{name}")
}

/// The uid of the object that controls this one.
pub fn owner_uid<K: Resource>(object: &K) -> Option<String> {
    let owners = object.meta().owner_references.iter().flatten();
    owners
        .into_iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.clone())
}

/// The name of the object of this kind that controls this one.
pub fn owner_name<K: Resource>(object: &K, kind: &str) -> Option<String> {
    let owners = object.meta().owner_references.iter().flatten();
    let mut owners = owners
        .into_iter()
        .filter(|owner| owner.controller == Some(true));
    owners
        .find(|owner| owner.kind == kind)
        .map(|owner| owner.name.clone())
}

/// The name of the job that a pod says it belongs to.
pub fn job_of(pod: &Pod) -> Option<ObjectKey> {
    let labels = pod.metadata.labels.as_ref()?;
    let name = labels
        .get("batch.kubernetes.io/job-name")
        .or_else(|| labels.get("job-name"))?;
    Some(ObjectKey::new(
        pod.metadata.namespace.clone().unwrap_or_default(),
        name.clone(),
    ))
}

fn owner_entries<K: Resource>(object: &K) -> Vec<String> {
    let owner = owner_uid(object);
    owner.map(|uid| owner_entry(&uid)).into_iter().collect()
}

fn service_entries(service: &Service) -> Vec<String> {
    let mut entries = owner_entries(service);
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    if let Some((key, value)) = selector.and_then(|selector| selector.first_key_value()) {
        entries.push(selector_entry(namespace, key, value));
    }
    entries
}

fn train_job_entries(job: &TrainJob) -> Vec<String> {
    let reference = &job.spec.runtime_ref;
    let namespace = match reference.kind() {
        "TrainingRuntime" => job.metadata.namespace.as_deref().unwrap_or_default(),
        _ => "",
    };
    vec![runtime_entry(reference.kind(), namespace, &reference.name)]
}

fn pod_entries(pod: &Pod) -> Vec<String> {
    let owner = owner_uid(pod).map(|uid| owner_entry(&uid));
    let job = job_of(pod).map(|job| job_entry(&job));
    let node = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .map(node_entry);
    [owner, job, node].into_iter().flatten().collect()
}
