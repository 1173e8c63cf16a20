//! What is made for a job before the job is: its code, its volume claim, its runtime.
//!
//! Each object is remembered by its uid, so that neither giving it to its job nor taking it back
//! touches what a later job of the same name has made.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, Result};
use crate::context::Context;

/// The objects that were made so far, all in one namespace.
pub(super) struct Belongings {
    /// Ours, not the caller's: who may create may not be allowed to delete, and what is left behind
    /// would be ours to explain.
    client: Client,
    namespace: String,
    made: Vec<Belonging>,
    /// Whether what an interrupted request of the same name left is taken over.
    takes_over: bool,
}

struct Belonging {
    resource: ApiResource,
    name: String,
    uid: Option<String>,
    /// Made by an earlier request, which was interrupted.
    found: bool,
}

impl Belongings {
    /// To take over what is left, the caller must be the only one who makes a job of this name.
    pub(super) fn new(context: &Context, namespace: &str, takes_over: bool) -> Self {
        Self {
            client: context.client.clone(),
            namespace: namespace.to_owned(),
            made: Vec::new(),
            takes_over,
        }
    }

    /// Makes an object with the caller's rights, if there is to be one; tells whether its name was free.
    pub(super) async fn make<K>(
        &mut self,
        caller: &Client,
        object: Option<&K>,
        action: &'static str,
    ) -> Result<bool>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + fmt::Debug + Serialize + DeserializeOwned,
    {
        let Some(object) = object else {
            return Ok(true);
        };
        let api: Api<K> = Api::namespaced(caller.clone(), &self.namespace);
        let (made, found) = match api.create(&PostParams::default(), object).await {
            Ok(made) => (made, false),
            Err(error) if is_conflict(&error) && self.takes_over => {
                match api.get_opt(&object.name_any()).await {
                    Ok(Some(left)) if is_left(&left, object) => (left, true),
                    _ => return Ok(false),
                }
            }
            Err(error) if is_conflict(&error) => return Ok(false),
            Err(error) => return Err(Error::cluster(action, error)),
        };
        self.made.push(Belonging {
            resource: ApiResource::erase::<K>(&()),
            name: made.name_any(),
            uid: made.uid(),
            found,
        });
        Ok(true)
    }

    /// Removes everything again: the job never came to be.
    pub(super) async fn remove(self) {
        for belonging in self.made.iter().filter(|belonging| !belonging.found) {
            let Belonging { name, uid, .. } = belonging;
            let parameters = DeleteParams::default().preconditions(Preconditions {
                uid: uid.clone(),
                ..Preconditions::default()
            });
            if let Err(error) = self.api(belonging).delete(name, &parameters).await {
                let error = crate::error::chain(&error);
                tracing::error!(
                    name,
                    namespace = self.namespace,
                    error,
                    "{} was left behind",
                    belonging.resource.kind
                );
            }
        }
    }

    /// Makes a job the owner of everything. The job runs without that, so a failure here is left to
    /// the periodic adoption.
    pub(super) async fn give_to(self, owner: OwnerReference) {
        for belonging in &self.made {
            let Belonging { name, uid, .. } = belonging;
            let patch = json!({ "metadata": { "uid": uid, "ownerReferences": [owner] } });
            let given = self
                .api(belonging)
                .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            match given {
                Ok(_) => {}
                // The job was deleted at once, and this with it.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    let error = crate::error::chain(&error);
                    tracing::warn!(
                        name,
                        namespace = self.namespace,
                        error,
                        "{} has no owner yet",
                        belonging.resource.kind
                    );
                }
            }
        }
    }

    fn api(&self, belonging: &Belonging) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &belonging.resource)
    }
}

/// Whether an object is what a request like this one made before it was interrupted: it has no owner yet,
/// and everything that is wanted.
fn is_left<K: Resource + Serialize>(found: &K, wanted: &K) -> bool {
    let content = |object: &K| {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        value["metadata"] = json!({ "labels": object.labels() });
        value
    };
    found.owner_references().is_empty() && has(&content(found), &content(wanted))
}

/// Whether a value has all of another one. The API server adds defaults to what it is given.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| found.get(name).is_some_and(|found| has(found, wanted))),
        _ => found == wanted,
    }
}

/// The owner reference that what belongs to a job carries.
pub(super) fn owner_reference(job: &str, uid: Option<String>) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "trainer.kubeflow.org/v1alpha1".to_owned(),
        kind: "TrainJob".to_owned(),
        name: job.to_owned(),
        uid: uid?,
        controller: Some(false),
        block_owner_deletion: Some(false),
    })
}

/// The name is taken.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
