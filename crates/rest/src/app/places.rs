//! Machines, queue, runtimes, namespaces, claims, secrets, presets.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use astrago_api::{ClusterTrainingRuntime, labels};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    Node, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod, ResourceQuota, Secret,
    VolumeResourceRequirements,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Error, Result, list};
use crate::context::Context;
use crate::form::{name, quantity};
use crate::identity::{Access, Caller};
use crate::model::{
    Amounts, Claim, ClaimRequest, FieldError, JobState, Namespace, NodeInfo, Preset, Priority,
    Queue, QueueEntry, Quota, Refusal, Runtime, SecretInfo, SecretRequest,
};
use crate::names;
use crate::view::{self, Job};
use crate::world::{Key, Tables};

/// The machines, and what runs on them as far as the caller may know.
pub(crate) async fn nodes(context: &Context, caller: &Caller) -> Result<Vec<NodeInfo>> {
    let readable = list::readable(context, caller, None).await?;
    let tables = context.world.read();
    let mut used: BTreeMap<&str, (Amounts, Vec<String>)> = BTreeMap::new();
    for (key, pod) in tables.pods.iter().filter(|(_, pod)| holds_room(pod)) {
        let Some(machine) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            continue;
        };
        let (amounts, jobs) = used.entry(machine).or_default();
        *amounts = amounts.plus(&view::of_pod(pod));
        if let Some(job) = pod
            .labels()
            .get(labels::JOBSET_NAME)
            .filter(|_| readable.may(&key.namespace))
        {
            let job = format!("{}/{job}", key.namespace);
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }
    Ok(tables
        .nodes
        .iter()
        .map(|(key, node)| node_view(node, used.remove(key.name.as_str()).unwrap_or_default()))
        .collect())
}

fn node_view(node: &Node, (used, jobs): (Amounts, Vec<String>)) -> NodeInfo {
    let label = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| node.labels().get(*name).cloned())
    };
    let status = node.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());
    let capacity =
        status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let capacity = capacity.map(Amounts::of).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    NodeInfo {
        name: node.name_any(),
        ready: ready.is_some_and(|condition| condition.status == "True"),
        instance_type: label(&[
            "node.kubernetes.io/instance-type",
            "beta.kubernetes.io/instance-type",
        ]),
        architecture: label(&["kubernetes.io/arch"])
            .or_else(|| info.map(|info| info.architecture.clone()))
            .unwrap_or_default(),
        os: info
            .map(|info| info.os_image.clone())
            .filter(|os| !os.is_empty())
            .or_else(|| label(&["kubernetes.io/os"]))
            .unwrap_or_default(),
        gpu_count: capacity.gpu,
        capacity_type: label(&[
            "karpenter.sh/capacity-type",
            "eks.amazonaws.com/capacityType",
            "astrago.io/capacity-type",
        ]),
        zone: label(&["topology.kubernetes.io/zone"]),
        capacity,
        used,
        jobs,
        message: ready
            .and_then(|condition| condition.message.clone())
            .filter(|message| !message.is_empty()),
    }
}

/// Whether a pod takes up room on its machine.
pub(super) fn holds_room(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// A job that waits for room.
pub(super) struct Queued {
    pub(super) key: Key,
    pub(super) priority: i64,
    pub(super) job: Job,
}

/// The jobs that wait, in the order in which they will be started: by priority, then by age.
pub(super) fn queued(tables: &Tables) -> Vec<Queued> {
    let mut queue: Vec<Queued> = tables
        .jobs
        .iter()
        .filter(|(_, job)| !job.is_finished() && !job.is_suspended())
        .filter_map(|(key, _)| {
            let job = Job::find(tables, key)?;
            let waits = job.pods.iter().any(|pod| {
                pod.spec
                    .as_ref()
                    .is_some_and(|spec| spec.node_name.is_none())
            });
            let pod = job.pods.iter().find_map(|pod| pod.spec.as_ref()?.priority);
            let asked = job
                .job
                .annotations()
                .get(names::PRIORITY)
                .and_then(|text| text.parse().ok());
            let priority = asked
                .or(pod.map(i64::from))
                .unwrap_or(0)
                .min(highest_priority(tables, &key.namespace));
            waits.then(|| Queued {
                key: key.clone(),
                priority,
                job,
            })
        })
        .collect();
    queue.sort_by_key(|entry| {
        (
            std::cmp::Reverse(entry.priority),
            entry.job.created_at(),
            entry.job.job.uid(),
        )
    });
    queue
}

/// The highest priority that counts for jobs of a namespace.
pub(super) fn highest_priority(tables: &Tables, namespace: &str) -> i64 {
    let known = tables.namespaces.get(&Key::new("", namespace));
    let annotation = known.and_then(|known| known.annotations().get(names::MAX_PRIORITY));
    astrago_api::highest_priority(namespace, annotation.map(String::as_str), 0).into()
}

pub(crate) async fn queue(context: &Context, caller: &Caller) -> Result<Queue> {
    let readable = list::readable(context, caller, None).await?;
    let tables = context.world.read();
    let mut hidden = 0;
    let mut items = Vec::new();
    for (entry, position) in queued(&tables).into_iter().zip(1..) {
        if !readable.may(&entry.key.namespace) {
            hidden += 1;
            continue;
        }
        items.push(QueueEntry {
            reason: entry.job.message(),
            cause: entry.job.cause(),
            needs: entry.job.per_node.times(entry.job.num_nodes),
            since: entry.job.created_at(),
            name: entry.key.name,
            namespace: entry.key.namespace,
            position,
            priority: entry.priority,
        });
    }
    Ok(Queue { items, hidden })
}

pub(crate) fn runtimes(context: &Context) -> Vec<Runtime> {
    context
        .world
        .read()
        .cluster_runtimes
        .iter()
        .map(|(_, runtime)| runtime_view(runtime))
        .collect()
}

pub(crate) fn runtime(context: &Context, name: &str) -> Result<Runtime> {
    let tables = context.world.read();
    let found = tables.cluster_runtimes.get(&Key::new("", name));
    found
        .map(|runtime| runtime_view(runtime))
        .ok_or_else(|| no_runtime(name))
}

fn no_runtime(name: &str) -> Error {
    Error::NotFound {
        kind: "runtime",
        name: name.to_owned(),
        namespace: String::new(),
    }
}

fn runtime_view(runtime: &ClusterTrainingRuntime) -> Runtime {
    let spec = &runtime.spec.0;
    let set = &spec.template.spec;
    let containers = set
        .replicated_jobs
        .iter()
        .filter_map(|job| job.template.spec.as_ref()?.template.spec.as_ref());
    let mut containers = containers.flat_map(|pod| &pod.containers);
    Runtime {
        name: runtime.name_any(),
        framework: runtime.labels().get(labels::FRAMEWORK).cloned(),
        image: containers
            .find(|container| container.name == "node")
            .and_then(|container| container.image.clone()),
        num_nodes: i64::from(
            spec.ml_policy
                .as_ref()
                .and_then(|policy| policy.num_nodes)
                .unwrap_or(1),
        ),
        max_restarts: set
            .failure_policy
            .as_ref()
            .and_then(|policy| policy.max_restarts)
            .map(i64::from),
        ttl_seconds: set.ttl_seconds_after_finished.map(i64::from),
        jobs: set
            .replicated_jobs
            .iter()
            .map(|job| job.name.clone())
            .collect(),
        deprecated: runtime
            .labels()
            .get(labels::SUPPORT)
            .is_some_and(|support| support == "deprecated"),
    }
}

/// Sets how often jobs of a runtime are restarted; RBAC keeps it to administrators.
pub(crate) async fn set_max_restarts(
    context: &Context,
    caller: &Caller,
    name: &str,
    count: i64,
) -> Result<Runtime> {
    let api: Api<ClusterTrainingRuntime> = Api::all(context.gate.client(caller));
    let patch = json!({ "spec": { "template": { "spec": { "failurePolicy": { "maxRestarts": count } } } } });
    match api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(runtime) => Ok(runtime_view(&runtime)),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(no_runtime(name)),
        Err(error) => Err(Error::cluster("change the runtime", error)),
    }
}

/// The sizes of the mock-up's form.
pub(crate) fn presets() -> Vec<Preset> {
    let preset = |name: &str, gpu, cpu, memory: &str| Preset {
        name: name.to_owned(),
        gpu,
        cpu,
        memory: memory.to_owned(),
    };
    vec![
        preset("small", 1, 4, "16Gi"),
        preset("medium", 2, 8, "32Gi"),
        preset("large", 4, 16, "64Gi"),
    ]
}

pub(crate) async fn namespaces(context: &Context, caller: &Caller) -> Result<Vec<Namespace>> {
    let readable = list::readable(context, caller, None).await?;
    let quotas: Api<ResourceQuota> = Api::all(context.client.clone());
    let quotas = quotas
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("read the quotas", error))?;
    let tables = context.world.read();
    let visible = tables
        .namespaces
        .iter()
        .filter(|(key, _)| readable.may(&key.name));
    Ok(visible
        .map(|(key, namespace)| Namespace {
            name: key.name.clone(),
            user: namespace.labels().get(names::USER).cloned(),
            jobs: tables.jobs.in_namespace(&key.name).count(),
            quota: quotas
                .iter()
                .find(|quota| quota.namespace().as_deref() == Some(&key.name))
                .map(quota_view),
        })
        .collect())
}

/// The ResourceQuota that this API sets.
const QUOTA: &str = "astrago";

fn quota_view(quota: &ResourceQuota) -> Quota {
    let plain = |list: Option<&BTreeMap<String, Quantity>>| {
        list.into_iter()
            .flatten()
            .map(|(name, quantity)| (name.clone(), quantity.0.clone()))
            .collect()
    };
    Quota {
        hard: plain(quota.spec.as_ref().and_then(|spec| spec.hard.as_ref())),
        used: plain(
            quota
                .status
                .as_ref()
                .and_then(|status| status.used.as_ref()),
        ),
    }
}

/// A namespace's quota; empty where there is none.
pub(crate) async fn quota(context: &Context, caller: &Caller, namespace: &str) -> Result<Quota> {
    let api: Api<ResourceQuota> = Api::namespaced(context.gate.client(caller), namespace);
    let found = api
        .get_opt(QUOTA)
        .await
        .map_err(|error| Error::cluster("read the quota", error))?;
    Ok(found.as_ref().map(quota_view).unwrap_or_default())
}

/// The priorities that administrators have defined. Those of the system itself are not for jobs.
pub(crate) async fn priorities(context: &Context) -> Result<Vec<Priority>> {
    let api: Api<PriorityClass> = Api::all(context.client.clone());
    let found = api
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("list the priorities", error))?;
    let mut priorities: Vec<Priority> = found
        .iter()
        .filter(|class| !class.name_any().starts_with("system-"))
        .map(|class| Priority {
            name: class.name_any(),
            value: i64::from(class.value.unwrap_or(0)),
            description: class.description.clone(),
            default: class.global_default == Some(true),
        })
        .collect();
    priorities.sort_by(|left, right| (right.value, &left.name).cmp(&(left.value, &right.name)));
    Ok(priorities)
}

/// Sets a namespace's quota; RBAC keeps it to administrators.
pub(crate) async fn set_quota(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    quota: &Quota,
) -> Result<Quota> {
    let wrong = quota.hard.iter().filter_map(|(resource, amount)| {
        let message = match quantity::read(amount) {
            Ok(amount) if amount < Amount::ZERO => "must not be negative".into(),
            Ok(_) => return None,
            Err(message) => message,
        };
        Some(FieldError::new(format!("hard.{resource}"), message))
    });
    let wrong: Vec<FieldError> = wrong.collect();
    if !wrong.is_empty() {
        return Err(Error::Invalid(wrong));
    }
    let api: Api<ResourceQuota> = Api::namespaced(context.gate.client(caller), namespace);
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": QUOTA },
        "spec": { "hard": quota.hard },
    });
    let made = api
        .patch(
            QUOTA,
            &PatchParams::apply("astrago-rest").force(),
            &Patch::Apply(object),
        )
        .await
        .map_err(|error| Error::cluster("set the quota", error))?;
    Ok(quota_view(&made))
}

pub(crate) async fn claims(
    context: &Context,
    caller: &Caller,
    namespace: &str,
) -> Result<Vec<Claim>> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.gate.client(caller), namespace);
    let found = api
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("list the volumes", error))?;
    Ok(found.iter().map(claim_view).collect())
}

pub(crate) async fn create_claim(
    context: &Context,
    caller: &Caller,
    request: &ClaimRequest,
) -> Result<Claim> {
    let checks = [
        ("namespace", name::check_label(&request.namespace).err()),
        ("name", name::check_subdomain(&request.name).err()),
        ("size", quantity::read_positive(&request.size).err()),
    ];
    refuse(checks)?;
    let api: Api<PersistentVolumeClaim> =
        Api::namespaced(context.gate.client(caller), &request.namespace);
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(request.name.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteMany".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(request.size.clone()))].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    };
    let made = api
        .create(&PostParams::default(), &claim)
        .await
        .map_err(|error| Error::cluster("create the volume", error))?;
    Ok(claim_view(&made))
}

fn refuse<const N: usize>(checks: [(&str, Option<Refusal>); N]) -> Result<()> {
    let wrong = checks
        .into_iter()
        .filter_map(|(field, message)| Some(FieldError::new(field, message?)));
    let wrong: Vec<FieldError> = wrong.collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(wrong))
    }
}

fn claim_view(claim: &PersistentVolumeClaim) -> Claim {
    let requests = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    Claim {
        name: claim.name_any(),
        namespace: claim.namespace().unwrap_or_default(),
        size: requests
            .and_then(|list| list.get("storage"))
            .map(|size| size.0.clone())
            .unwrap_or_default(),
        state: claim
            .status
            .as_ref()
            .and_then(|status| status.phase.clone())
            .unwrap_or_else(|| "Pending".to_owned()),
        created_at: claim.creation_timestamp().map(|time| time.0),
    }
}

/// Secrets by their keys; the values can be written and used, never read.
pub(crate) async fn secrets(
    context: &Context,
    caller: &Caller,
    namespace: &str,
) -> Result<Vec<SecretInfo>> {
    context
        .gate
        .demand(caller, &Access::core("list", "secrets", namespace))
        .await?;
    let api: Api<Secret> = Api::namespaced(context.gate.client(caller), namespace);
    let found = api
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("list the secrets", error))?;
    Ok(found.iter().map(secret_view).collect())
}

pub(crate) async fn put_secret(
    context: &Context,
    caller: &Caller,
    request: &SecretRequest,
) -> Result<SecretInfo> {
    refuse([
        ("namespace", name::check_label(&request.namespace).err()),
        ("name", name::check_subdomain(&request.name).err()),
        (
            "data",
            request
                .data
                .is_empty()
                .then(|| "must have at least one key".into()),
        ),
    ])?;
    let api: Api<Secret> = Api::namespaced(context.gate.client(caller), &request.namespace);
    let data = request
        .data
        .iter()
        .map(|(key, text)| (key.clone(), ByteString(text.clone().into_bytes())));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(request.name.clone()),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    };
    let made = api
        .patch(
            &request.name,
            &PatchParams::apply("astrago-rest").force(),
            &Patch::Apply(&secret),
        )
        .await
        .map_err(|error| Error::cluster("write the secret", error))?;
    Ok(secret_view(&made))
}

fn secret_view(secret: &Secret) -> SecretInfo {
    SecretInfo {
        name: secret.name_any(),
        namespace: secret.namespace().unwrap_or_default(),
        keys: secret
            .data
            .iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect(),
    }
}

/// Counts of jobs by state, for the metrics.
pub(crate) fn job_counts(tables: &Tables) -> BTreeMap<JobState, usize> {
    let mut counts: BTreeMap<JobState, usize> =
        JobState::ALL.into_iter().map(|state| (state, 0)).collect();
    for (key, _) in tables.jobs.iter() {
        if let Some(job) = Job::find(tables, key) {
            *counts.entry(job.state()).or_default() += 1;
        }
    }
    counts
}
