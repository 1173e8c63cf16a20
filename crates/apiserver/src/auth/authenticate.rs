//! From a request to the caller: identity in process, client certificate, bearer token, then impersonation.

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;

use super::identity::{ANONYMOUS, Identity};
use super::policy::Attributes;
use crate::http::path::Verb;
use crate::server::Core;
use crate::status::{ApiError, Result};

/// Who sent the request. No credentials make the anonymous user; wrong ones are refused.
pub(crate) fn identify(
    core: &Core,
    known: Option<&Identity>,
    headers: &HeaderMap,
) -> Result<Identity> {
    let identity = match known {
        Some(identity) => identity.clone(),
        None => match bearer(headers)? {
            Some(token) => {
                let now = (core.options.clock)().as_second();
                core.tokens
                    .identify(&core.store, token, now)
                    .ok_or(ApiError::Unauthorized)?
            }
            None => Identity::anonymous(),
        },
    };
    impersonated(core, identity, headers)
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

/// Whom the caller wants to be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Impersonation {
    user: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: Vec<(String, Vec<String>)>,
}

impl Impersonation {
    /// Reads the headers, if there are any. Whoever sends one of them does not mean to act as themselves, so none of
    /// them is ever passed over.
    fn parse(headers: &HeaderMap) -> Result<Option<Self>> {
        let mut found = Self::default();
        let mut users = Vec::new();
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix("impersonate-") else {
                continue;
            };
            let text = std::str::from_utf8(value.as_bytes()).map_err(|_| {
                ApiError::bad_request(format!("the header Impersonate-{name} is not valid UTF-8"))
            })?;
            if text.is_empty() {
                return Err(ApiError::bad_request(format!(
                    "the header Impersonate-{name} is empty"
                )));
            }
            let text = text.to_owned();
            let extra = name.strip_prefix("extra-").map(percent_decode_str);
            match extra.map(|key| key.decode_utf8_lossy().into_owned()) {
                Some(key) => match found.extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, values)) => values.push(text),
                    None => found.extra.push((key, vec![text])),
                },
                None => match name {
                    "user" => users.push(text),
                    "group" => found.groups.push(text),
                    "uid" if found.uid.is_none() => found.uid = Some(text),
                    _ => {
                        return Err(ApiError::bad_request(format!(
                            "the header Impersonate-{name} is unknown or there twice"
                        )));
                    }
                },
            }
        }
        let mut users = users.into_iter();
        match (users.next(), users.next()) {
            (Some(user), None) => Ok(Some(Self { user, ..found })),
            (None, _) if found == Self::default() => Ok(None),
            (None, _) => Err(ApiError::bad_request(
                "requested impersonation of groups, a uid or extra fields without a user; \
                 send Impersonate-User, too",
            )),
            (Some(_), Some(_)) => Err(ApiError::bad_request(
                "requested impersonation of several users",
            )),
        }
    }
}

/// Acts as somebody else, where the caller may.
fn impersonated(core: &Core, caller: Identity, headers: &HeaderMap) -> Result<Identity> {
    let Some(Impersonation {
        user,
        groups,
        uid,
        extra,
    }) = Impersonation::parse(headers)?
    else {
        return Ok(caller);
    };
    let account = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    let check = |resource: &str, key: &str, namespace: &str, name: &str| {
        let attributes = Attributes {
            verb: "impersonate".to_owned(),
            group: match resource {
                "uids" | "userextras" => "authentication.k8s.io".to_owned(),
                _ => String::new(),
            },
            resource: resource.to_owned(),
            subresource: key.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        if core.policy.get(&core.store).allows(&caller, &attributes) {
            return Ok(());
        }
        Err(attributes.forbidden(&caller))
    };
    match account {
        Some((namespace, name)) => check("serviceaccounts", "", namespace, name)?,
        None => check("users", "", "", &user)?,
    }
    for group in &groups {
        check("groups", "", "", group)?;
    }
    if let Some(uid) = &uid {
        check("uids", "", "", uid)?;
    }
    for (key, values) in &extra {
        for value in values {
            check("userextras", key, "", value)?;
        }
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
    identity.extra = extra.into();
    Ok(identity)
}

/// What RBAC is asked about a request for a resource.
pub(crate) fn attributes(
    path: &crate::http::path::ResourcePath,
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

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use rstest::rstest;

    use super::*;

    fn parsed(headers: &[(&str, &[u8])]) -> Result<Option<Impersonation>> {
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        });
        Impersonation::parse(&headers.collect())
    }

    #[rstest]
    #[case::not_utf8(&[("impersonate-user", &b"\xff"[..])])]
    #[case::empty(&[("impersonate-user", &b""[..])])]
    #[case::empty_group(&[("impersonate-user", &b"ann"[..]), ("impersonate-group", b"")])]
    #[case::group_alone(&[("impersonate-group", &b"team"[..])])]
    #[case::uid_alone(&[("impersonate-uid", &b"1"[..])])]
    #[case::extra_alone(&[("impersonate-extra-scope", &b"x"[..])])]
    #[case::unknown(&[("impersonate-usr", &b"ann"[..])])]
    #[case::two(&[("impersonate-user", &b"ann"[..]), ("impersonate-user", b"bob")])]
    fn who_half_impersonates_is_refused(#[case] headers: &[(&str, &[u8])]) {
        assert!(matches!(parsed(headers), Err(ApiError::BadRequest(_))));
    }

    #[test]
    fn names_may_be_of_any_script() {
        let found = parsed(&[("impersonate-user", "김철수".as_bytes())]);
        assert_eq!(found.unwrap().unwrap().user, "김철수");
        assert_eq!(parsed(&[("accept", b"*/*")]).unwrap(), None);
    }
}
