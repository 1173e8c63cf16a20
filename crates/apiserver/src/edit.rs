//! Changes that the server itself makes to stored objects.

use std::sync::Arc;

use serde_json::Value;

use crate::metadata;
use crate::status::{ApiError, MODIFIED, Result, Subject};
use crate::store::{Action, Draft, Name, Object, Store, Write, WriteError};

const ATTEMPTS: usize = 64;

/// Applies `change` until it meets no other writer. An object that is gone, or that `change` leaves as it
/// is, is left alone; one that is deleted and loses its last finalizer goes.
pub(crate) async fn edit(
    store: &Store,
    resource: &Arc<str>,
    name: &Name,
    change: impl Fn(&mut Value),
) -> Result<Option<Arc<Object>>> {
    for _ in 0..ATTEMPTS {
        let Some(current) = store.get(resource, name) else {
            return Ok(None);
        };
        let old = current.value();
        let mut new = old.clone();
        change(&mut new);
        if new == old {
            return Ok(Some(current));
        }
        let draft = Draft::new(resource, &new);
        let action = if is_released(resource, &new) {
            Action::Delete(current.revision, draft)
        } else {
            Action::Replace(current.revision, draft)
        };
        let write = Write {
            resource: Arc::clone(resource),
            name: name.clone(),
            action,
        };
        match store.write(write).await {
            Ok(object) => return Ok(Some(object)),
            Err(WriteError::Conflict) => {}
            Err(WriteError::NotFound) => return Ok(None),
            Err(error) => {
                return Err(ApiError::from_write(
                    error,
                    subject(resource, name),
                    &name.namespace,
                ));
            }
        }
    }
    Err(ApiError::Conflict {
        subject: subject(resource, name),
        message: MODIFIED.to_owned(),
    })
}

/// Whether nothing keeps a deleted object alive any more.
pub(crate) fn is_released(resource: &str, object: &Value) -> bool {
    let namespace_in_use = resource == "namespaces"
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
    let graceful = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0)
        > 0;
    metadata::is_terminating(object)
        && metadata::finalizers(object).is_empty()
        && !namespace_in_use
        && !graceful
}

fn subject(resource: &str, name: &Name) -> Subject {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    Subject {
        group: group.to_owned(),
        resource: plural.to_owned(),
        name: name.name.to_string(),
    }
}
