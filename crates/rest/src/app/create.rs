//! Creating a job: ConfigMaps, then the TrainJob, and all of it or nothing.
//!
//! # Flow
//!
//! 1. The namespace exists and belongs to the user, or is made so.
//! 2. The framework's system ConfigMap exists, or is made.
//! 3. The job's own ConfigMap and volume claim are made; their names reserve the job's name.
//! 4. The TrainJob is made, and the caches know of it before the caller does.
//! 5. What step 3 made becomes the TrainJob's property.
//!
//! # Guarantees
//!
//! When step 4 fails, what step 3 made is removed again. When the process dies before step 5,
//! those have no owner; [`upkeep`](super::upkeep) gives them one or removes them later. Step 5
//! names the objects by their uids: what a later job of the same name made is not touched.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use astrago_api::TrainingRuntime;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::belongings::{Belongings, is_conflict, owner_reference};
use super::{Error, Result, job_runtime, namespaces, runtimes, snapshots};
use crate::context::Context;
use crate::form::{self, JobRequest, manifest, name};
use crate::identity::Caller;
use crate::model::CreateResponse;
use crate::names;
use crate::world::Key;

/// How long Kubeflow's webhook may take to see a runtime that was made for a job.
const WEBHOOK_CATCHES_UP: Duration = Duration::from_secs(5);

/// How many names are tried when the plain one is taken.
const NAME_ATTEMPTS: usize = 8;

/// Creates a job. With an idempotency key, a repeated request gets the first one's answer.
pub(crate) async fn create(
    context: &Context,
    caller: &Caller,
    body: &Value,
    key: Option<&str>,
) -> Result<CreateResponse> {
    let request = read(context, caller, body)?;
    let mut labels = BTreeMap::new();
    let mut annotations = BTreeMap::new();
    annotations.insert(names::REQUEST.to_owned(), without_code(&request));
    let Some(key) = key else {
        return make(context, caller, &request, &labels, &annotations).await;
    };
    let key = idempotency_key(caller, &request.asked.namespace, key)?;
    let digest = digest(&body.to_string());
    // Only one request with this key at a time; the others wait and then see its result.
    let lock = context.idempotency.lock(&key);
    let mut remembered = lock.lock().await;
    let earlier = remembered
        .clone()
        .or_else(|| find_earlier(context, &request.asked.namespace, &key));
    if let Some((response, earlier_digest)) = earlier {
        if earlier_digest != digest {
            return Err(Error::Conflict(
                "this Idempotency-Key was used for a different request".to_owned(),
            ));
        }
        return Ok(response);
    }
    labels.insert(names::IDEMPOTENCY.to_owned(), key);
    annotations.insert(names::REQUEST_DIGEST.to_owned(), digest.clone());
    let response = make(context, caller, &request, &labels, &annotations).await?;
    *remembered = Some((response.clone(), digest));
    Ok(response)
}

/// A request that the caller may make, with what it refers to looked up.
fn read(context: &Context, caller: &Caller, body: &Value) -> Result<JobRequest> {
    let frameworks = runtimes::frameworks(&context.world.mirrors);
    let request = form::parse(body, &context.policy, &frameworks);
    let mut request = request.map_err(Error::Invalid)?;
    check_user(caller, &request)?;
    check_priority(context, &request)?;
    snapshots::resolve(context, &mut request)?;
    Ok(request)
}

/// The objects that a request would make, under the name it would get now.
pub(crate) fn plan(
    context: &Context,
    caller: &Caller,
    body: &Value,
) -> Result<(JobRequest, String, manifest::Manifests)> {
    let request = read(context, caller, body)?;
    let name = candidate(&request, context.now(), None);
    let annotations = [(names::REQUEST.to_owned(), without_code(&request))].into();
    let made = manifest::build(
        &request,
        &name,
        context.cluster().dialect,
        &BTreeMap::new(),
        &annotations,
    );
    Ok((request, name, made))
}

async fn make(
    context: &Context,
    caller: &Caller,
    request: &JobRequest,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<CreateResponse> {
    namespaces::ensure(context, caller, &request.asked.namespace, &request.user).await?;
    let client = context.gate.client(caller);
    let now = context.now();
    // One request for a name at a time, so that what is there of it already was left by one that is over.
    let name = request.asked.name.as_ref();
    let named = name.map(|name| format!("{}/{name}", request.asked.namespace));
    let named = named.map(|name| context.idempotency.lock(&name));
    let _alone = match &named {
        Some(lock) => Some(lock.lock().await),
        None => None,
    };
    let mut suffix = None;
    for _ in 0..NAME_ATTEMPTS {
        let name = candidate(request, now, suffix.as_deref());
        let key = Key::new(&request.asked.namespace, &name);
        if request.asked.name.is_none() && context.world.has_job(&key) {
            // A second job in the same second; the API server need not be asked.
            suffix = Some(crate::random_text(5));
            continue;
        }
        let dialect = context.cluster().dialect;
        let made = manifest::build(request, &name, dialect, labels, annotations);
        match submit(
            context,
            &client,
            &request.asked.namespace,
            made,
            named.is_some(),
        )
        .await?
        {
            Submitted::Created(created_at) => {
                return Ok(CreateResponse {
                    status: "success".to_owned(),
                    trainjob_name: name,
                    namespace: request.asked.namespace.clone(),
                    created_at,
                });
            }
            Submitted::NameTaken if request.asked.name.is_some() => {
                return Err(Error::Conflict(format!(
                    "there is already a job {name:?} in namespace {:?}",
                    request.asked.namespace
                )));
            }
            Submitted::NameTaken => suffix = Some(crate::random_text(5)),
        }
    }
    Err(Error::Conflict(
        "found no free name for the job; try again".to_owned(),
    ))
}

enum Submitted {
    Created(Timestamp),
    NameTaken,
}

async fn submit(
    context: &Context,
    client: &Client,
    namespace: &str,
    made: manifest::Manifests,
    named: bool,
) -> Result<Submitted> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    if let Some(system) = &made.system {
        ensure_system(context, &maps, system).await?;
    }
    if let Some(map) = &made.snapshot {
        // Another job may have brought it.
        match maps.create(&PostParams::default(), map).await {
            Err(error) if !is_conflict(&error) => {
                return Err(Error::cluster("store the training code", error));
            }
            _ => {}
        }
    }
    let (own_runtime, train_job) = match own_runtime(context, &made.train_job) {
        Some((runtime, train_job)) => (Some(runtime), train_job),
        None => (None, made.train_job),
    };
    let mut belongings = Belongings::new(context, namespace, named);
    let reserved = async {
        Ok(belongings
            .make(client, made.code.as_ref(), "store the training code")
            .await?
            && belongings
                .make(
                    client,
                    made.checkpoints.as_ref(),
                    "claim a volume for checkpoints",
                )
                .await?
            && belongings
                .make(client, own_runtime.as_ref(), "make the job's runtime")
                .await?)
    };
    let reserved = reserved.await;
    if !matches!(reserved, Ok(true)) {
        belongings.remove().await;
        return reserved.map(|_| Submitted::NameTaken);
    }
    match create_train_job(client, namespace, train_job, own_runtime.is_some()).await {
        Ok(job) => {
            if let Some(map) = made.snapshot {
                snapshots::share(context, map, &job.name_any(), job.uid()).await;
            }
            let key = Key::of(&job);
            if let Some(owner) = owner_reference(&key.name, job.uid()) {
                // The caller need not wait for it.
                context.tasks.spawn(belongings.give_to(owner));
            }
            let created = job
                .creation_timestamp()
                .map_or_else(|| context.now(), |time| time.0);
            // Whoever made it sees it, however late the watch is.
            if let Ok(job) = job.try_parse() {
                context.world.mirrors.train_jobs.observe(job);
            }
            Ok(Submitted::Created(created))
        }
        Err(error) => {
            belongings.remove().await;
            if is_conflict(&error) {
                return Ok(Submitted::NameTaken);
            }
            Err(Error::cluster("create the TrainJob", error))
        }
    }
}

async fn create_train_job(
    client: &Client,
    namespace: &str,
    train_job: Value,
    own_runtime: bool,
) -> kube::Result<DynamicObject> {
    let jobs: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &train_job_resource());
    let object = serde_json::from_value(train_job).map_err(kube::Error::SerdeError)?;
    let deadline = Instant::now() + WEBHOOK_CATCHES_UP;
    loop {
        match jobs.create(&PostParams::default(), &object).await {
            Err(error) if own_runtime && misses_runtime(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) if !matches!(error, kube::Error::Api(_)) => {
                return after_a_lost_answer(&jobs, &object, error).await;
            }
            answered => return answered,
        }
    }
}

/// Kubeflow's webhook looks for the runtime in a cache of its own, which need not know yet what was just made.
fn misses_runtime(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.message.contains("spec.runtimeRef") && status.message.contains("not found"))
}

/// When the answer was lost, the job may exist: then its code must not be taken away from it.
async fn after_a_lost_answer(
    jobs: &Api<DynamicObject>,
    wanted: &DynamicObject,
    error: kube::Error,
) -> kube::Result<DynamicObject> {
    let ours = |job: &DynamicObject| {
        job.annotations().get(names::REQUEST) == wanted.annotations().get(names::REQUEST)
    };
    match jobs.get_opt(&wanted.name_any()).await {
        Ok(Some(job)) if ours(&job) => Ok(job),
        _ => Err(error),
    }
}

/// The runtime of its own that a job needs where somebody else's Trainer runs it.
fn own_runtime(context: &Context, train_job: &Value) -> Option<(TrainingRuntime, Value)> {
    if context.cluster().extended {
        return None;
    }
    let name = train_job["spec"]["runtimeRef"]["name"].as_str()?;
    let mirrors = &context.world.mirrors;
    let shared = mirrors.cluster_runtimes.get(&Key::new("", name))?;
    job_runtime::own(train_job, &shared)
}

async fn ensure_system(context: &Context, maps: &Api<ConfigMap>, map: &ConfigMap) -> Result<()> {
    let key = Key::of(map);
    if context.idempotency.has_system(&key) {
        return Ok(());
    }
    match maps.create(&PostParams::default(), map).await {
        Ok(_) => {}
        Err(error) if is_conflict(&error) => {}
        Err(error) => return Err(Error::cluster("create the framework's ConfigMap", error)),
    }
    context.idempotency.saw_system(key);
    Ok(())
}

/// A user acts for themselves; an administrator for anybody.
fn check_user(caller: &Caller, request: &JobRequest) -> Result<()> {
    if caller.is_admin() || caller.label().is_ok_and(|user| user == request.user) {
        return Ok(());
    }
    Err(Error::ForbiddenField {
        field: "user_id",
        message: format!(
            "you are {:?} and cannot act as {:?}",
            caller.user, request.asked.user_id
        ),
    })
}

/// Nobody goes before the jobs of others by their own word alone; the scheduler would not heed it.
fn check_priority(context: &Context, request: &JobRequest) -> Result<()> {
    let namespace = &request.asked.namespace;
    let highest = context.world.line.highest_priority(namespace);
    match request.asked.priority {
        Some(priority) if priority > highest => Err(Error::ForbiddenField {
            field: "priority",
            message: format!(
                "namespace {namespace:?} allows priorities up to {highest}; an administrator may set its annotation {}",
                names::MAX_PRIORITY
            ),
        }),
        _ => Ok(()),
    }
}

fn candidate(request: &JobRequest, now: Timestamp, suffix: Option<&str>) -> String {
    if let Some(name) = &request.asked.name {
        return name.clone();
    }
    let room = name::room_for_job_name(request.longest_job(), request.nodes);
    let time = now.strftime("%Y%m%d%H%M%S").to_string();
    name::job_name(&request.user, &time, suffix, room)
}

pub(crate) fn train_job_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("trainer.kubeflow.org", "v1alpha1", "TrainJob");
    ApiResource::from_gvk_with_plural(&kind, "trainjobs")
}

fn without_code(request: &JobRequest) -> String {
    let mut asked = request.asked.clone();
    asked.training_code = None;
    serde_json::to_string(&asked).unwrap_or_default()
}

fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..20])
}

fn idempotency_key(caller: &Caller, namespace: &str, key: &str) -> Result<String> {
    if key.is_empty() || key.len() > 255 {
        return Err(Error::invalid(
            "Idempotency-Key",
            "must have between 1 and 255 characters",
        ));
    }
    Ok(digest(&format!("{}\n{namespace}\n{key}", caller.user)))
}

fn find_earlier(context: &Context, namespace: &str, key: &str) -> Option<(CreateResponse, String)> {
    let mirrors = &context.world.mirrors;
    let mut jobs = mirrors.train_jobs.in_namespace(namespace).into_iter();
    let job = jobs.find(|job| {
        let label = job.labels().get(names::IDEMPOTENCY);
        label.is_some_and(|label| label == key)
    })?;
    let response = CreateResponse {
        status: "success".to_owned(),
        trainjob_name: job.name_any(),
        namespace: namespace.to_owned(),
        created_at: job.creation_timestamp()?.0,
    };
    Some((
        response,
        job.annotations()
            .get(names::REQUEST_DIGEST)
            .cloned()
            .unwrap_or_default(),
    ))
}

/// An answer, and the digest of the request that it answered.
type Remembered = Option<(CreateResponse, String)>;

/// What create remembers between requests: answers by key, and which system ConfigMaps exist.
///
/// The jobs' own labels remember keys across restarts; this covers the moments in which the
/// caches have not seen the job yet.
#[derive(Default)]
pub(crate) struct Idempotency {
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Remembered>>>>,
    systems: Mutex<HashMap<Key, Timestamp>>,
}

/// Beyond this many keys the ones that nobody waits for are forgotten; their jobs' labels remain.
const REMEMBERED_KEYS: usize = 10_000;

/// How long a system ConfigMap is believed to exist without looking.
const SYSTEM_LIFETIME_SECONDS: i64 = 30;

impl Idempotency {
    fn lock(&self, key: &str) -> Arc<tokio::sync::Mutex<Remembered>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= REMEMBERED_KEYS {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(key.to_owned()).or_default())
    }

    fn has_system(&self, key: &Key) -> bool {
        let systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |at: &Timestamp| {
            Timestamp::now().as_second() - at.as_second() < SYSTEM_LIFETIME_SECONDS
        };
        systems.get(key).is_some_and(fresh)
    }

    fn saw_system(&self, key: Key) {
        let mut systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.insert(key, Timestamp::now());
    }

    /// A namespace is gone or a ConfigMap was deleted; the next create looks again.
    pub(crate) fn forget_namespace(&self, namespace: &str) {
        let mut systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.retain(|key, _| key.namespace != namespace);
    }
}
