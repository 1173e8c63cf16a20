//! Creates and deletes what belongs to a v1 job. Everything here may be done twice without harm: names make a second
//! creation fail, and a deletion names the uid that it means.

use astrago_mirror::{Kind as Mirrored, Mirror, owner_uid};
use astrago_plan::legacy::TrainingJob;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::plan::Plan;
use super::{Error, Kind, Result};
use crate::context::{Context, FIELD_MANAGER};
use crate::events::{Notice, reference};
use crate::train_job::ssh_key;

/// The most requests of one job that are under way at once.
const AT_ONCE: usize = 8;

/// Carries out `plan` for `object`. A failure does not keep the rest from being done.
pub(crate) async fn apply<K: Kind>(
    context: &Context,
    job: &TrainingJob,
    object: &K,
    plan: &Plan,
) -> Result<()> {
    if plan.expired {
        let jobs = Api::<K>::namespaced(context.client.clone(), &job.namespace);
        return delete_job(context, &jobs, object).await;
    }
    let work = Work {
        context,
        job,
        uid: object.meta().uid.clone(),
        pods: Api::namespaced(context.client.clone(), &job.namespace),
        services: Api::namespaced(context.client.clone(), &job.namespace),
        tell: |reason: &str, message: String| {
            let notice = Notice::normal(reference(object), reason, message);
            context.events.send(notice);
        },
    };
    let mirrors = &context.mirrors;
    let mut first: Option<Error> = None;
    // Collected first: a stream that maps borrowed objects to futures is not `Send` for every lifetime.
    macro_rules! each {
        ($objects:ident, $verb:ident $api:ident) => {{
            let objects = plan.$objects.iter();
            let work = objects.map(|object| work.$verb(&work.$api, &mirrors.$api, &*object));
            keep_first(&mut first, work.collect()).await;
        }};
    }
    each!(delete_pods, delete pods);
    each!(delete_services, delete services);
    if !plan.create_pods.is_empty() {
        work.equip().await?;
    }
    each!(create_services, create services);
    each!(create_pods, create pods);
    first.map_or(Ok(()), Err)
}

async fn keep_first<F: Future<Output = Result<()>>>(first: &mut Option<Error>, work: Vec<F>) {
    let mut results = stream::iter(work).buffer_unordered(AT_ONCE);
    while let Some(result) = results.next().await {
        *first = first.take().or(result.err());
    }
}

struct Work<'a, T> {
    context: &'a Context,
    job: &'a TrainingJob,
    uid: Option<String>,
    pods: Api<Pod>,
    services: Api<Service>,
    tell: T,
}

impl<T: Fn(&str, String) + Send + Sync> Work<'_, T> {
    async fn create<K: Mirrored + Serialize>(
        &self,
        api: &Api<K>,
        mirror: &Mirror<K>,
        object: &K,
    ) -> Result<()> {
        let (kind, name) = (K::kind(&()), object.name_any());
        let failed = |source| Error::Create {
            name: format!("{} {name}", kind.to_lowercase()),
            source,
        };
        let known = match api.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                // We made it before, and our mirror is behind or was lost.
                api.get(&name).await.map_err(failed)?
            }
            created => {
                let created = created.map_err(failed)?;
                self.wrote();
                let message = format!("Created {}: {name}", kind.to_lowercase());
                (self.tell)(&format!("SuccessfulCreate{kind}"), message);
                created
            }
        };
        if owner_uid(&known) != self.uid {
            let name = format!("{} {name}", kind.to_lowercase());
            return Err(Error::NameTaken { name });
        }
        mirror.observe(known);
        Ok(())
    }

    async fn delete<K: Mirrored>(
        &self,
        api: &Api<K>,
        mirror: &Mirror<K>,
        object: &K,
    ) -> Result<()> {
        let (kind, name) = (K::kind(&()), object.name_any());
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match api.delete(&name, &parameters).await {
            // Deleted already, or replaced by another of the same name.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(source) => Err(Error::Delete {
                name: format!("{} {name}", kind.to_lowercase()),
                source,
            }),
            Ok(answer) => {
                self.wrote();
                let message = format!("Deleted {}: {name}", kind.to_lowercase());
                (self.tell)(&format!("SuccessfulDelete{kind}"), message);
                if let Some(left) = answer.left() {
                    // Only what is on its way out is still there.
                    if left.meta().deletion_timestamp.is_some() {
                        mirror.observe(left);
                    }
                }
                Ok(())
            }
        }
    }

    /// What the pods of an MPIJob mount.
    async fn equip(&self) -> Result<()> {
        let (Some(config), Some(secret)) = (self.job.mpi_config(), self.job.mpi_secret_name())
        else {
            return Ok(());
        };
        let client = &self.context.client;
        let maps = Api::<ConfigMap>::namespaced(client.clone(), &self.job.namespace);
        let name = config.name_any();
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = maps.patch(&name, &parameters, &Patch::Apply(&config)).await;
        applied.map_err(|source| Error::Create {
            name: format!("configmap {name}"),
            source,
        })?;
        self.wrote();
        let secrets = Api::<Secret>::namespaced(client.clone(), &self.job.namespace);
        let failed = |source| Error::Create {
            name: format!("secret {secret}"),
            source,
        };
        // Made once: a second key would lock out the workers that have the first.
        if let Some(known) = secrets.get_metadata_opt(&secret).await.map_err(failed)? {
            let name = format!("secret {secret}");
            let ours = owner_uid(&known) == self.uid;
            return if ours {
                Ok(())
            } else {
                Err(Error::NameTaken { name })
            };
        }
        let key = ssh_key::generate().map_err(|source| Error::MakeKey { source })?;
        let object = self.job.mpi_secret(&key.private, &key.public);
        match secrets.create(&PostParams::default(), &object).await {
            Ok(_) => self.wrote(),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(source) => return Err(failed(source)),
        }
        Ok(())
    }

    fn wrote(&self) {
        self.context.metrics.wrote(self.job.framework.operator);
    }
}

async fn delete_job<K: Kind>(context: &Context, jobs: &Api<K>, job: &K) -> Result<()> {
    let operator = K::framework().operator;
    let deleted = context
        .delete(operator, jobs, job, job.resource_version())
        .await;
    deleted.map(|_| ()).map_err(|source| Error::Delete {
        name: "the finished job".to_owned(),
        source,
    })
}
