//! Nobody hands out rights that they do not have.
//!
//! Whoever writes a role must hold its rules, or be allowed to `escalate` it; whoever binds a role must
//! hold its rules, or be allowed to `bind` it. Without this, the right to write RBAC objects in one
//! namespace would be the right to everything there.

use serde_json::Value;

use super::policy::{Attributes, CLUSTER_ROLES, Policy, ROLES};
use super::rbac::{Rule, rules};
use crate::auth::{Identity, MASTERS};
use crate::kinds::metadata;
use crate::status::{ApiError, Result};
use crate::store::{Name, Query};
use crate::verbs::call::Call;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses a role with rules that its author does not have.
pub(crate) fn check_role(call: &Call, role: &Value, old: Option<&Value>) -> Result<()> {
    check(call, role, old, || {
        let name = metadata::text(role, "name");
        let given = rules(role, &cluster_roles(call));
        Ok(("escalate", &*call.kind.plural, name, given))
    })
}

/// Refuses the binding of a role with rules that its author does not have.
pub(crate) fn check_binding(call: &Call, binding: &Value, old: Option<&Value>) -> Result<()> {
    check(call, binding, old, || {
        let reference = &binding["roleRef"];
        let name = reference["name"].as_str().unwrap_or_default();
        let cluster = reference["kind"] == "ClusterRole";
        let plural = if cluster { "clusterroles" } else { "roles" };
        Ok(("bind", plural, name, referenced(call, cluster, name)?))
    })
}

/// `given` is the verb that allows it nevertheless, plural and name of the role, and its rules.
fn check<'a>(
    call: &Call,
    object: &Value,
    old: Option<&Value>,
    given: impl FnOnce() -> Result<(&'static str, &'a str, &'a str, Vec<Rule>)>,
) -> Result<()> {
    let unchanged = old.is_some_and(|old| {
        ["rules", "aggregationRule", "roleRef", "subjects"]
            .iter()
            .all(|field| old[*field] == object[*field])
    });
    if unchanged || call.identity.is_in(MASTERS) {
        return Ok(());
    }
    let (verb, plural, name, given) = given()?;
    let policy = call.core.policy.get(&call.core.store);
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
