//! Quotas of namespaces.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Error, Result};
use crate::context::Context;
use crate::form::quantity;
use crate::identity::Caller;
use crate::model::{FieldError, Quota};

/// The ResourceQuota that this API sets.
const QUOTA: &str = "astrago";

pub(super) fn view(quota: &ResourceQuota) -> Quota {
    let plain = |list: Option<&BTreeMap<String, Quantity>>| {
        list.into_iter()
            .flatten()
            .map(|(name, quantity)| (name.clone(), quantity.0.clone()))
            .collect()
    };
    Quota {
        hard: plain(quota.spec.as_ref().and_then(|spec| spec.hard.as_ref())),
        used: plain(
            quota
                .status
                .as_ref()
                .and_then(|status| status.used.as_ref()),
        ),
    }
}

/// A namespace's quota; empty where there is none.
pub(crate) async fn find(context: &Context, caller: &Caller, namespace: &str) -> Result<Quota> {
    let api: Api<ResourceQuota> = Api::namespaced(context.gate.client(caller), namespace);
    let found = api
        .get_opt(QUOTA)
        .await
        .map_err(|error| Error::cluster("read the quota", error))?;
    Ok(found.as_ref().map(view).unwrap_or_default())
}

/// Sets a namespace's quota; RBAC keeps it to administrators.
pub(crate) async fn set(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    quota: &Quota,
) -> Result<Quota> {
    let wrong = quota.hard.iter().filter_map(|(resource, amount)| {
        let message = match quantity::read(amount) {
            Ok(amount) if amount < Amount::ZERO => "must not be negative".into(),
            Ok(_) => return None,
            Err(message) => message,
        };
        Some(FieldError::new(format!("hard.{resource}"), message))
    });
    let wrong: Vec<FieldError> = wrong.collect();
    if !wrong.is_empty() {
        return Err(Error::Invalid(wrong));
    }
    let api: Api<ResourceQuota> = Api::namespaced(context.gate.client(caller), namespace);
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": QUOTA },
        "spec": { "hard": quota.hard },
    });
    let made = api
        .patch(
            QUOTA,
            &PatchParams::apply("astrago-rest").force(),
            &Patch::Apply(object),
        )
        .await
        .map_err(|error| Error::cluster("set the quota", error))?;
    Ok(view(&made))
}
