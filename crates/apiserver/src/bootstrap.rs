//! The objects that clients expect to exist in any cluster.

use serde_json::{Value, json};

use crate::core::Core;
use crate::metadata;
use crate::status::{ApiError, Result};
use crate::store::{Action, Draft, Name, Write, WriteError};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates what is missing; what is there stays as it is.
pub(crate) async fn run(core: &Core) -> Result<()> {
    for name in NAMESPACES {
        ensure(core, "namespaces", "", name, namespace(name)).await?;
    }
    Ok(())
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

/// Creates an object unless one of its name exists.
pub(crate) async fn ensure(
    core: &Core,
    resource: &str,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Result<()> {
    let key = Name::new(namespace, name);
    if core.store.get(resource, &key).is_some() {
        return Ok(());
    }
    let now = core.now();
    let fields = metadata::of(&mut object);
    fields.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    fields.insert("uid".to_owned(), metadata::new_uid().into());
    fields.insert("creationTimestamp".to_owned(), now.into());
    let draft = Draft::new(resource, &object);
    let write = Write {
        resource: resource.into(),
        name: key,
        action: Action::Create(draft),
    };
    match core.store.write(write).await {
        Ok(_) | Err(WriteError::AlreadyExists) => Ok(()),
        Err(error) => {
            let subject = crate::status::Subject {
                resource: resource.to_owned(),
                name: name.to_owned(),
                group: String::new(),
            };
            Err(ApiError::from_write(error, subject, namespace))
        }
    }
}
