//! Namespaces: what they have from the beginning, and how they end.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::remove;
use crate::kinds::metadata;
use crate::server::Core;
use crate::status::{ApiError, Result};
use crate::store::{Name, Query, Reference};
use crate::tasks::bootstrap;
use crate::verbs::commit::edit;
use crate::verbs::delete::Propagation;

/// Gives a namespace its service account and the authority's certificate, and empties a terminating one.
pub(super) async fn check(core: &Core, name: &Arc<str>) -> Result<()> {
    let key = Name::new("", name);
    let Some(namespace) = core.store.get("namespaces", &key) else {
        return Ok(());
    };
    if !namespace.meta.terminating {
        return match bootstrap::furnish(core, name).await {
            // It may have begun to terminate meanwhile; that event is in the queue.
            Err(ApiError::Forbidden { .. } | ApiError::NotFound(_)) => Ok(()),
            other => other,
        };
    }
    let mut left = Left::default();
    // Pods come first: what they mount stays until they have ended.
    empty(core, name, &"pods".into(), &mut left).await?;
    if left.counts.is_empty() {
        for resource in core.store.resources() {
            empty(core, name, &resource, &mut left).await?;
        }
    }
    let now = core.now();
    edit(core, &"namespaces".into(), &key, |namespace| {
        if left.counts.is_empty() {
            namespace["spec"]["finalizers"] = json!([]);
        } else {
            // Some have finalizers or grace; the last of them brings us here again.
            left.tell(namespace, &now);
        }
    })
    .await
    .map(drop)
}

/// Deletes all objects of a kind in a namespace, and counts those that are still there.
async fn empty(core: &Core, namespace: &str, resource: &Arc<str>, left: &mut Left) -> Result<()> {
    let query = Query {
        namespace,
        ..Query::default()
    };
    let objects = core.store.list(resource, &query);
    for object in objects.map(|page| page.objects).unwrap_or_default() {
        let reference = Reference {
            resource: Arc::clone(resource),
            name: object.name.clone(),
        };
        remove(core, &reference, Propagation::Background, &object.meta.uid).await?;
        if let Some(object) = core.store.get(resource, &object.name) {
            *left.counts.entry(resource.to_string()).or_default() += 1;
            for finalizer in metadata::finalizers(&object.value()) {
                *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// What keeps a namespace: how many objects of which kind, and with which finalizers.
#[derive(Debug, Default)]
struct Left {
    counts: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    /// Writes into the namespace what it waits for.
    fn tell(&self, namespace: &mut Value, now: &str) {
        let held = if self.finalizers.is_empty() {
            (
                "False",
                "ContentHasNoFinalizers",
                "no finalizers are left".to_owned(),
            )
        } else {
            let list = listed(&self.finalizers);
            (
                "True",
                "SomeFinalizersRemain",
                format!("objects have finalizers: {list}"),
            )
        };
        let content = format!("objects are left: {}", listed(&self.counts));
        let deleted = "all objects are deleted or on their way".to_owned();
        let conditions = [
            (
                "NamespaceDeletionContentFailure",
                ("False", "ContentDeleted", deleted),
            ),
            (
                "NamespaceContentRemaining",
                ("True", "SomeResourcesRemain", content),
            ),
            ("NamespaceFinalizersRemaining", held),
        ];
        let old = namespace["status"]["conditions"].take();
        let conditions = conditions.map(|(kind, (status, reason, message))| {
            let mut known = old.as_array().into_iter().flatten();
            let known = known.find(|one| one["type"] == kind && one["status"] == status);
            let since = known.map_or(json!(now), |one| one["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": since,
            })
        });
        namespace["status"]["conditions"] = json!(conditions);
    }
}

fn listed(counts: &BTreeMap<String, usize>) -> String {
    let each = counts
        .iter()
        .map(|(name, count)| format!("{name} ({count})"));
    each.collect::<Vec<_>>().join(", ")
}
