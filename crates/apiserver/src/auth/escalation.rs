//! Nobody hands out rights that they do not have.
//!
//! Whoever writes a role must hold its rules, or be allowed to `escalate` it; whoever binds a role must
//! hold its rules, or be allowed to `bind` it. Without this, the right to write RBAC objects in one
//! namespace would be the right to everything there.

use serde_json::Value;

use super::policy::{Attributes, CLUSTER_ROLES, Policy, ROLES};
use super::rbac::{Rule, rules};
use crate::auth::{Identity, MASTERS};
use crate::call::Call;
use crate::metadata;
use crate::status::{ApiError, Result};
use crate::store::{Name, Query};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses an RBAC object that would give out more than its author has.
pub(crate) fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    if &*call.kind.group != GROUP || call.identity.is_in(MASTERS) {
        return Ok(());
    }
    let unchanged = old.is_some_and(|old| {
        ["rules", "aggregationRule", "roleRef", "subjects"]
            .iter()
            .all(|field| old[*field] == object[*field])
    });
    if unchanged {
        return Ok(());
    }
    let policy = call.core.policy.get(&call.core.store);
    let (verb, plural, name, given) = match &*call.kind.kind {
        "Role" | "ClusterRole" => {
            let name = metadata::text(object, "name");
            (
                "escalate",
                &*call.kind.plural,
                name,
                rules(object, &cluster_roles(call)),
            )
        }
        _ => {
            let reference = &object["roleRef"];
            let name = reference["name"].as_str().unwrap_or_default();
            let cluster = reference["kind"] == "ClusterRole";
            let plural = if cluster { "clusterroles" } else { "roles" };
            ("bind", plural, name, referenced(call, cluster, name)?)
        }
    };
    let permission = Attributes {
        verb: verb.to_owned(),
        group: GROUP.to_owned(),
        resource: plural.to_owned(),
        namespace: call.namespace().to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    if policy.allows(&call.identity, &permission) {
        return Ok(());
    }
    match missing(&policy, &call.identity, call.namespace(), &given) {
        None => Ok(()),
        Some(rule) => Err(ApiError::Forbidden {
            subject: call.kind.subject(metadata::text(object, "name")),
            reason: format!(
                "user {:?} is attempting to grant RBAC permissions not currently held: {}",
                call.identity.user,
                rule.to_value()
            ),
        }),
    }
}

/// The first rule that the identity does not hold itself.
fn missing<'a>(
    policy: &Policy,
    identity: &Identity,
    namespace: &str,
    given: &'a [Rule],
) -> Option<&'a Rule> {
    given.iter().find(|rule| {
        rule.questions().into_iter().any(|mut question| {
            namespace.clone_into(&mut question.namespace);
            !policy.allows(identity, &question)
        })
    })
}

fn referenced(call: &Call, cluster: bool, name: &str) -> Result<Vec<Rule>> {
    let (resource, namespace) = if cluster {
        (CLUSTER_ROLES, "")
    } else {
        (ROLES, call.namespace())
    };
    let role = call
        .core
        .store
        .get(resource, &Name::new(namespace, name))
        .ok_or_else(|| {
            ApiError::NotFound(crate::status::Subject {
                group: GROUP.to_owned(),
                resource: resource.split('.').next().unwrap_or_default().to_owned(),
                name: name.to_owned(),
            })
        })?;
    Ok(rules(&role.value(), &cluster_roles(call)))
}

fn cluster_roles(call: &Call) -> Vec<Value> {
    let page = call.core.store.list(CLUSTER_ROLES, &Query::default());
    page.map(|page| page.objects.iter().map(|object| object.value()).collect())
        .unwrap_or_default()
}
