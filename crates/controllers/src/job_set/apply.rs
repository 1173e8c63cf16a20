//! The fourth step: the Service, the claims and the Jobs. Each request may be made twice without harm.

use astrago_api::JobSet;
use astrago_mirror::{Kind, owner_uid};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::plan::Plan;
use super::{CONTROLLER, Error, Result};
use crate::context::{Context, FIELD_MANAGER};

/// The most Jobs of one set that are created at once.
const AT_ONCE: usize = 8;

pub(crate) async fn apply(context: &Context, job_set: &JobSet, plan: &Plan) -> Result<()> {
    let namespace = job_set.namespace().unwrap_or_default();
    if plan.expired {
        let sets = Api::<JobSet>::namespaced(context.client.clone(), &namespace);
        return delete(context, &sets, job_set, job_set.resource_version())
            .await
            .map(|_| ());
    }
    let jobs = Api::<Job>::namespaced(context.client.clone(), &namespace);
    for job in &plan.delete {
        if let Some(job) = delete(context, &jobs, &**job, None).await? {
            context.mirrors.jobs.observe(job);
        }
    }
    let claims = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), &namespace);
    for claim in &plan.claims {
        let created = create(context, &claims, claim).await;
        created.map_err(|source| Error::CreateClaim {
            name: claim.name_any(),
            source,
        })?;
    }
    for (job, patch) in &plan.patch {
        let name = job.name_any();
        let parameters = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        let job = jobs.patch(&name, &parameters, &Patch::Merge(patch)).await;
        context.metrics.wrote(CONTROLLER);
        context
            .mirrors
            .jobs
            .observe(job.map_err(|source| Error::SuspendJob { name, source })?);
    }
    // Pods find each other by the Service, but not before they run; so nobody waits for it.
    let service = create_service(context, &namespace, plan.service.as_ref());
    let created = create_jobs(context, &jobs, job_set, &plan.create);
    let (service, created) = futures::join!(service, created);
    service.and(created)
}

async fn create_service(
    context: &Context,
    namespace: &str,
    service: Option<&Service>,
) -> Result<()> {
    let Some(service) = service else {
        return Ok(());
    };
    let services = Api::<Service>::namespaced(context.client.clone(), namespace);
    let created = create(context, &services, service).await;
    let created = created.map_err(|source| Error::CreateService {
        name: service.name_any(),
        source,
    })?;
    if let Some(service) = created {
        context.mirrors.services.observe(service);
    }
    Ok(())
}

/// Creates the Jobs in their order, some at once.
async fn create_jobs(
    context: &Context,
    api: &Api<Job>,
    job_set: &JobSet,
    jobs: &[Job],
) -> Result<()> {
    let requests: Vec<_> = jobs
        .iter()
        .map(|job| create_job(context, api, job_set, job))
        .collect();
    let mut requests = stream::iter(requests).buffered(AT_ONCE);
    while let Some(created) = requests.next().await {
        created?;
    }
    Ok(())
}

async fn create_job(context: &Context, api: &Api<Job>, job_set: &JobSet, job: &Job) -> Result<()> {
    let name = job.name_any();
    let known = match create(context, api, job).await {
        Ok(None) => api.get(&name).await,
        Ok(Some(created)) => Ok(created),
        Err(source) => Err(source),
    };
    let known = known.map_err(|source| Error::CreateJob {
        name: name.clone(),
        source,
    })?;
    if owner_uid(&known) != job_set.metadata.uid {
        return Err(Error::NameTaken { name });
    }
    context.mirrors.jobs.observe(known);
    Ok(())
}

/// Creates `object`; `None` if something of its name exists.
async fn create<K: Kind + Serialize>(
    context: &Context,
    api: &Api<K>,
    object: &K,
) -> kube::Result<Option<K>> {
    match api.create(&PostParams::default(), object).await {
        Ok(created) => {
            context.metrics.wrote(CONTROLLER);
            Ok(Some(created))
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(source) => Err(source),
    }
}

async fn delete<K: Kind>(
    context: &Context,
    api: &Api<K>,
    object: &K,
    version: Option<String>,
) -> Result<Option<K>> {
    let deleted = context.delete(CONTROLLER, api, object, version).await;
    deleted.map_err(|source| Error::Delete {
        name: object.name_any(),
        source,
    })
}
