//! From a request to the caller: identity in process, client certificate, bearer token, then impersonation.

use http::request::Parts;
use http::{HeaderMap, header};

use super::identity::{ANONYMOUS, Identity};
use super::policy::Attributes;
use crate::core::Core;
use crate::path::Verb;
use crate::status::{ApiError, Result};

/// Who sent the request. No credentials make the anonymous user; wrong ones are refused.
pub(crate) fn identify(core: &Core, parts: &Parts) -> Result<Identity> {
    let identity = match parts.extensions.get::<Identity>() {
        Some(identity) => identity.clone(),
        None => match bearer(&parts.headers)? {
            Some(token) => {
                let now = (core.options.clock)().as_second();
                core.tokens
                    .identify(&core.store, token, now)
                    .ok_or(ApiError::Unauthorized)?
            }
            None => Identity::anonymous(),
        },
    };
    impersonated(core, identity, &parts.headers)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| ApiError::Unauthorized)?;
    let token = text
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token
        .map(|(_, token)| Some(token.trim()))
        .ok_or(ApiError::Unauthorized)
}

/// Acts as somebody else, where the caller may.
fn impersonated(core: &Core, caller: Identity, headers: &HeaderMap) -> Result<Identity> {
    let texts = |name: &str| -> Vec<String> {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
            .collect()
    };
    let groups = texts("impersonate-group");
    let uid = texts("impersonate-uid").into_iter().next();
    let Some(user) = texts("impersonate-user")
        .into_iter()
        .next()
        .filter(|user| !user.is_empty())
    else {
        let alone = groups.is_empty() && uid.is_none();
        return if alone {
            Ok(caller)
        } else {
            Err(ApiError::bad_request(
                "requested impersonation of a group or uid without a user",
            ))
        };
    };
    let account = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => check(core, &caller, "serviceaccounts", namespace, name)?,
        None => check(core, &caller, "users", "", &user)?,
    }
    for group in &groups {
        check(core, &caller, "groups", "", group)?;
    }
    if let Some(uid) = &uid {
        check(core, &caller, "uids", "", uid)?;
    }
    let mut identity = match account {
        Some((namespace, name)) if groups.is_empty() => Identity::service_account(namespace, name),
        _ if user == ANONYMOUS && groups.is_empty() => Identity::anonymous(),
        _ => Identity::user(
            &user,
            &groups.iter().map(String::as_str).collect::<Vec<_>>(),
        ),
    };
    identity.uid = uid.unwrap_or_default().into();
    Ok(identity)
}

fn check(
    core: &Core,
    caller: &Identity,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let attributes = Attributes {
        verb: "impersonate".to_owned(),
        group: if resource == "uids" {
            "authentication.k8s.io"
        } else {
            ""
        }
        .to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    if core.policy.get(&core.store).allows(caller, &attributes) {
        return Ok(());
    }
    Err(attributes.forbidden(caller))
}

/// What RBAC is asked about a request for a resource.
pub(crate) fn attributes(
    path: &crate::path::ResourcePath,
    verb: Verb,
    selected: Option<&str>,
) -> Attributes {
    Attributes {
        verb: verb.as_str().to_owned(),
        group: path.group.clone(),
        resource: path.resource.clone(),
        subresource: path.subresource.clone(),
        namespace: path.namespace.clone(),
        name: if path.name.is_empty() {
            selected.unwrap_or_default().to_owned()
        } else {
            path.name.clone()
        },
        path: String::new(),
    }
}
