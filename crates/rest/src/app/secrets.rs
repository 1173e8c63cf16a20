//! Secrets of a namespace.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt};

use super::{Error, Result};
use crate::context::Context;
use crate::form::name;
use crate::identity::{Access, Caller};
use crate::model::{SecretInfo, SecretRequest};

/// Secrets by their keys; the values can be written and used, never read.
pub(crate) async fn list(
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
    Ok(found.iter().map(view).collect())
}

pub(crate) async fn put(
    context: &Context,
    caller: &Caller,
    request: &SecretRequest,
) -> Result<SecretInfo> {
    Error::refuse([
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
    Ok(view(&made))
}

fn view(secret: &Secret) -> SecretInfo {
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
