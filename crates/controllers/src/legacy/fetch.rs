//! What there is of a v1 job: its pods and Services, and whose are those that stand in their place.

use std::collections::HashSet;
use std::sync::Arc;

use astrago_api::ObjectKey;
use astrago_mirror::{owner_entry, owner_uid};
use astrago_plan::legacy::TrainingJob;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Resource;

use crate::context::{Context, owner_name};

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) services: Vec<Arc<Service>>,
    /// Names of pods that a deleted job of the same name left and that are on their way out.
    pub(crate) leaving_pods: HashSet<String>,
    /// Names of such Services.
    pub(crate) leaving_services: HashSet<String>,
}

/// Looks the children of `job` up in the mirrors.
pub(crate) fn fetch(context: &Context, job: &TrainingJob, uid: Option<&str>) -> Observed {
    let entry = owner_entry(uid.unwrap_or_default());
    let mirrors = &context.mirrors;
    let mut observed = Observed {
        pods: mirrors.pods.find(&entry),
        services: mirrors.services.find(&entry),
        ..Observed::default()
    };
    for replica in &job.replicas {
        for index in 0..replica.count {
            let name = job.pod_name(replica.kind, index);
            let key = ObjectKey::new(job.namespace.clone(), name);
            let pod = mirrors.pods.get(&key);
            if pod.is_some_and(|pod| is_leftover(job, &*pod, uid)) {
                observed.leaving_pods.insert(key.name.clone());
            }
            let service = mirrors.services.get(&key);
            if service.is_some_and(|service| is_leftover(job, &*service, uid)) {
                observed.leaving_services.insert(key.name);
            }
        }
    }
    observed
}

/// Whether the object belonged to a job of the same kind and name that is no more.
fn is_leftover<K: Resource>(job: &TrainingJob, object: &K, uid: Option<&str>) -> bool {
    owner_name(object, job.framework.kind).as_deref() == Some(job.name.as_str())
        && owner_uid(object).as_deref() != uid
}
