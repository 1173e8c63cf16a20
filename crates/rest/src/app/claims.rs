//! Volumes of a namespace.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

use super::{Error, Result};
use crate::context::Context;
use crate::form::checkpoint::volume_claim;
use crate::form::{name, quantity};
use crate::identity::Caller;
use crate::model::{Claim, ClaimRequest};

pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
    namespace: &str,
) -> Result<Vec<Claim>> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.gate.client(caller), namespace);
    let found = api
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("list the volumes", error))?;
    Ok(found.iter().map(view).collect())
}

pub(crate) async fn create(
    context: &Context,
    caller: &Caller,
    request: &ClaimRequest,
) -> Result<Claim> {
    let checks = [
        ("namespace", name::check_label(&request.namespace).err()),
        ("name", name::check_subdomain(&request.name).err()),
        ("size", quantity::read_positive(&request.size).err()),
    ];
    Error::refuse(checks)?;
    let api: Api<PersistentVolumeClaim> =
        Api::namespaced(context.gate.client(caller), &request.namespace);
    let metadata = ObjectMeta {
        name: Some(request.name.clone()),
        ..ObjectMeta::default()
    };
    let claim = volume_claim(metadata, "ReadWriteMany", &request.size);
    let made = api
        .create(&PostParams::default(), &claim)
        .await
        .map_err(|error| Error::cluster("create the volume", error))?;
    Ok(view(&made))
}

fn view(claim: &PersistentVolumeClaim) -> Claim {
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
