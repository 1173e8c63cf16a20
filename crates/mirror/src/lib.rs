//! Indexed copies of the API's objects, kept current by one watch per kind.
//!
//! The controllers and the REST API read the same kinds. In `astrago up` they share one [`Mirrors`], so that a process
//! holds each object once; on a cluster each of them brings its own.

mod mirror;
mod resume;

use astrago_api::legacy::{JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};
use astrago_api::{ClusterTrainingRuntime, JobSet, ObjectKey, TrainJob, TrainingRuntime};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota, Service,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Resource;

pub use mirror::{Change, Kind, Mirror};

/// One copy per kind; each is empty until somebody runs it.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// By [`runtime_entry`].
    pub train_jobs: Mirror<TrainJob>,
    pub cluster_runtimes: Mirror<ClusterTrainingRuntime>,
    pub runtimes: Mirror<TrainingRuntime>,
    pub job_sets: Mirror<JobSet>,
    /// By [`owner_entry`] and [`selector_entry`].
    pub services: Mirror<Service>,
    /// By [`owner_entry`].
    pub jobs: Mirror<Job>,
    /// By [`owner_entry`], [`job_entry`], [`training_entry`] and [`node_entry`].
    pub pods: Mirror<Pod>,
    pub leases: Mirror<Lease>,
    pub pytorch_jobs: Mirror<PyTorchJob>,
    pub tf_jobs: Mirror<TFJob>,
    pub mpi_jobs: Mirror<MPIJob>,
    pub xgboost_jobs: Mirror<XGBoostJob>,
    pub paddle_jobs: Mirror<PaddleJob>,
    pub mx_jobs: Mirror<MXJob>,
    pub jax_jobs: Mirror<JAXJob>,
    pub nodes: Mirror<Node>,
    pub namespaces: Mirror<Namespace>,
    pub priority_classes: Mirror<PriorityClass>,
    pub quotas: Mirror<ResourceQuota>,
    pub claims: Mirror<PersistentVolumeClaim>,
    /// By [`event_entry`].
    pub events: Mirror<Event>,
}

impl Default for Mirrors {
    fn default() -> Self {
        Self {
            train_jobs: Mirror::new(train_job_entries),
            cluster_runtimes: Mirror::default(),
            runtimes: Mirror::default(),
            job_sets: Mirror::default(),
            services: Mirror::new(service_entries),
            jobs: Mirror::new(owner_entries),
            pods: Mirror::new(pod_entries),
            leases: Mirror::default(),
            pytorch_jobs: Mirror::default(),
            tf_jobs: Mirror::default(),
            mpi_jobs: Mirror::default(),
            xgboost_jobs: Mirror::default(),
            paddle_jobs: Mirror::default(),
            mx_jobs: Mirror::default(),
            jax_jobs: Mirror::default(),
            nodes: Mirror::default(),
            namespaces: Mirror::default(),
            priority_classes: Mirror::default(),
            quotas: Mirror::default(),
            claims: Mirror::default(),
            events: Mirror::new(event_entries),
        }
    }
}

/// Index entry of all objects that the object with this uid controls.
pub fn owner_entry(uid: &str) -> String {
    format!("owner:{uid}")
}

/// Index entry of all pods of a batch Job of this name, of the present one and of deleted ones of the same name.
pub fn job_entry(job: &ObjectKey) -> String {
    format!("job:{job}")
}

/// Index entry of all pods of a TrainJob or v1 job of this name.
pub fn training_entry(job: &ObjectKey) -> String {
    format!("training:{job}")
}

/// Index entry of all Services of a namespace whose selector begins with this pair.
pub fn selector_entry(namespace: &str, key: &str, value: &str) -> String {
    format!("selects:{namespace}/{key}={value}")
}

/// Index entry of all pods that are bound to a node.
pub fn node_entry(node: &str) -> String {
    format!("node:{node}")
}

/// Index entry of all events about an object, or about what its name begins with this one's and a hyphen.
pub fn event_entry(object: &ObjectKey) -> String {
    format!("event:{object}")
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

/// The names that the owner of an object may have: its own, and each that a hyphen ends, the longest first. Pods are
/// called `{job}-{role}-{job index}-{pod index}-{random}`, and a role may have a hyphen of its own.
pub fn possible_owners(name: &str) -> impl Iterator<Item = &str> {
    let shorter = name.rmatch_indices('-').map(|(at, _)| &name[..at]);
    std::iter::once(name).chain(shorter.take(6))
}

fn event_entries(event: &Event) -> Vec<String> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let name = event.involved_object.name.as_deref().unwrap_or_default();
    // No object has a longer name, and whoever writes an event can write any.
    if name.len() > 253 {
        return Vec::new();
    }
    possible_owners(name)
        .map(|owner| event_entry(&ObjectKey::new(namespace, owner)))
        .collect()
}

fn pod_entries(pod: &Pod) -> Vec<String> {
    let owner = owner_uid(pod).map(|uid| owner_entry(&uid));
    let job = ObjectKey::of_batch_job(pod).map(|job| job_entry(&job));
    let node = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .map(node_entry);
    let training = ObjectKey::of_training_job(pod).map(|job| training_entry(&job));
    [owner, job, node, training].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_the_names_its_owner_may_have_if_they_are_names() {
        let about = |name: String| {
            let mut event = Event::default();
            event.metadata.namespace = Some("ns".to_owned());
            event.involved_object.name = Some(name);
            event_entries(&event)
        };
        let want = ["event:ns/a-b-c", "event:ns/a-b", "event:ns/a"];
        assert_eq!(about("a-b-c".to_owned()), want);
        assert_eq!(about("-".repeat(200)).len(), 7);
        assert!(about("a-".repeat(1_000_000)).is_empty());
    }
}
