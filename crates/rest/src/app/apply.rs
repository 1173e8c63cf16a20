//! Any Kubernetes object, applied as the caller.

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersion, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use super::{Error, Result};
use crate::context::Context;
use crate::identity::Caller;

pub(crate) async fn apply(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    mut object: Value,
) -> Result<Value> {
    let text = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let required = |pointer: &str| {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        text(&object, pointer).ok_or_else(|| Error::invalid(field, "is required"))
    };
    let (version, kind, name) = (
        required("/apiVersion")?,
        required("/kind")?,
        required("/metadata/name")?,
    );
    let version: GroupVersion = version
        .parse()
        .map_err(|_| Error::invalid("apiVersion", "is not a version"))?;
    // Names of RBAC objects may have colons; what would change the address may not be in any.
    let strange =
        |text: &str| text.contains(|c: char| !c.is_ascii_graphic() || "/?#%\\".contains(c));
    let given = text(&object, "/metadata/namespace").unwrap_or_else(|| namespace.to_owned());
    for (field, value) in [("metadata.name", &name), ("metadata.namespace", &given)] {
        if value == "." || value == ".." || strange(value) {
            return Err(Error::invalid(field, format!("{value:?} is not a name")));
        }
    }
    let client = context.gate.client(caller);
    let wanted = GroupVersionKind::gvk(&version.group, &version.version, &kind);
    let (resource, capabilities) = pinned_kind(&client, &wanted).await.map_err(|_| {
        Error::invalid(
            "kind",
            format!("the server knows no {kind} in {}", version.api_version()),
        )
    })?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => Api::namespaced_with(client, &given, &resource),
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let known = api
        .get_opt(&name)
        .await
        .map_err(|error| Error::cluster("read the object", error))?;
    let parameters = PatchParams::apply("astrago-apply")
        .force()
        .validation_strict();
    let done = api
        .patch(&name, &parameters, &Patch::Apply(&object))
        .await
        .map_err(|error| Error::cluster("apply the object", error))?;
    let result = match known {
        None => "created",
        Some(known) if known.metadata.resource_version == done.metadata.resource_version => {
            "unchanged"
        }
        Some(_) => "configured",
    };
    Ok(
        json!({ "kind": kind, "name": name, "namespace": done.metadata.namespace, "result": result }),
    )
}
