//! Jobs of the Training Operator v1 beside TrainJobs.
//!
//! Everything that reads jobs works with a TrainJob and its pods. A v1 job is shown through a stand-in: a TrainJob that
//! was never stored, with the v1 job's metadata, size and conditions ([`stand_in`]). So lists, details, logs, events and
//! the history need not know the kinds; only what writes to a job does ([`Kind`]).
//!
//! A cluster without the v1 operator does not have these kinds. Their mirrors then stay empty, and nobody waits for them.

mod stand_in;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use astrago_api::legacy::{JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};
use astrago_api::{TrainJob, labels};
use astrago_mirror::Mirrors;
use astrago_plan::legacy::LegacyKind;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::identity::Access;
use crate::world::{Key, World};

/// A kind of v1 job, as far as requests about it need to know.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "it is called so in objects")]
pub(crate) struct Kind {
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// What it is called in the `framework` of answers.
    pub(crate) framework: &'static str,
}

impl Kind {
    /// The right to read or change jobs of this kind.
    pub(crate) fn access(&self, verb: &'static str, namespace: &str) -> Access {
        Access {
            verb,
            group: "kubeflow.org",
            resource: self.plural,
            subresource: "",
            namespace: namespace.to_owned(),
        }
    }

    pub(crate) fn api(&self, client: Client, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "kubeflow.org".to_owned(),
            version: "v1".to_owned(),
            api_version: "kubeflow.org/v1".to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        };
        Api::namespaced_with(client, namespace, &resource)
    }
}

/// A v1 job in the shape in which jobs are shown.
pub(crate) struct Shown {
    pub(crate) kind: &'static Kind,
    pub(crate) job: Arc<TrainJob>,
    pub(crate) num_nodes: i64,
    /// Pods that were replaced.
    pub(crate) restarts: i64,
    /// The replica types in lower case, each with the rank of its first pod.
    pub(crate) ranks: Vec<(String, i64)>,
}

impl Shown {
    /// The rank of a pod of this job.
    pub(crate) fn rank(&self, pod: &Pod) -> Option<i64> {
        let kind = pod.labels().get(labels::TRAINING_REPLICA_TYPE)?;
        let index = pod.labels().get(labels::TRAINING_REPLICA_INDEX);
        // The launcher of an MPIJob has no index.
        let index: i64 = index.and_then(|index| index.parse().ok()).unwrap_or(0);
        let first = self.ranks.iter().find(|(known, _)| known == kind)?;
        Some(first.1 + index)
    }
}

macro_rules! kinds {
    ($($mirror:ident: $type:ident, $plural:literal, $framework:literal;)*) => {
        /// The kinds, in the order in which their jobs are looked for.
        pub(crate) const KINDS: &[Kind] = &[$(Kind {
            kind: stringify!($type),
            plural: $plural,
            framework: $framework,
        },)*];

        /// Tells `world` of every change of a v1 job.
        pub(crate) fn subscribe(world: &Arc<World>) {
            $(world.tell_of(&world.mirrors.$mirror, |job: &$type| Some(Key::of(job)));)*
        }

        /// The kind of the v1 job of this name.
        pub(crate) fn kind_of(mirrors: &Mirrors, key: &Key) -> Option<&'static Kind> {
            $(if mirrors.$mirror.get(key).is_some() {
                return Kind::of(stringify!($type));
            })*
            None
        }

        /// The v1 job of this name, whatever its kind.
        pub(crate) fn find(mirrors: &Mirrors, key: &Key) -> Option<Shown> {
            $(if let Some(job) = mirrors.$mirror.get(key) {
                return Some(show(Kind::of(stringify!($type))?, &*job));
            })*
            None
        }

        /// All v1 jobs, or those of a namespace, with their keys.
        pub(crate) fn list(mirrors: &Mirrors, namespace: Option<&str>) -> Vec<(Key, Shown)> {
            let mut all = Vec::new();
            $(if let Some(kind) = Kind::of(stringify!($type)) {
                let jobs = match namespace {
                    Some(namespace) => mirrors.$mirror.in_namespace(namespace),
                    None => mirrors.$mirror.all(),
                };
                all.extend(jobs.iter().map(|job| (Key::of(&**job), show(kind, &**job))));
            })*
            all
        }

        /// The v1 job as it is stored.
        pub(crate) fn manifest(mirrors: &Mirrors, key: &Key) -> Option<Value> {
            $(if let Some(job) = mirrors.$mirror.get(key) {
                return serde_json::to_value(&*job).ok();
            })*
            None
        }
    };
}

kinds! {
    pytorch_jobs: PyTorchJob, "pytorchjobs", "pytorch";
    tf_jobs: TFJob, "tfjobs", "tensorflow";
    mpi_jobs: MPIJob, "mpijobs", "mpi";
    xgboost_jobs: XGBoostJob, "xgboostjobs", "xgboost";
    paddle_jobs: PaddleJob, "paddlejobs", "paddle";
    mx_jobs: MXJob, "mxjobs", "mxnet";
    jax_jobs: JAXJob, "jaxjobs", "jax";
}

impl Kind {
    /// The kind of this name; nothing for a TrainJob.
    pub(crate) fn of(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|known| known.kind == kind)
    }
}

fn show<K: LegacyKind>(kind: &'static Kind, job: &K) -> Shown {
    let mut first = 0;
    let mut ranks = Vec::new();
    let framework = K::framework();
    // Those that lead come first: rank 0 is the master, as the frameworks count.
    let leaders = framework.leaders.iter();
    let others = framework.types.iter();
    for known in leaders.chain(others.filter(|known| !framework.leaders.contains(known))) {
        let specs = job.replica_specs().iter();
        for (_, spec) in specs.filter(|(name, _)| framework.replica_type(name) == Some(known)) {
            ranks.push((known.to_lowercase(), first));
            first += i64::from(spec.count().max(0));
        }
    }
    let statuses = job.status().into_iter();
    let statuses = statuses.flat_map(|status| status.replica_statuses.values());
    Shown {
        kind,
        job: Arc::new(stand_in::of(kind, job)),
        num_nodes: first,
        restarts: statuses.map(|status| i64::from(status.restarts)).sum(),
        ranks,
    }
}
