//! RBAC, compiled: for each subject, the rules it has and where.
//!
//! The objects are parsed when they change, not when they are asked: an event of one of the four
//! resources marks the policy stale, and the next question rebuilds it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::identity::{Identity, MASTERS};
use super::rbac::{Rule, rules};
use crate::status::{ApiError, Subject};
use crate::store::{Query, Store};

pub(crate) const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// One question to the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set for paths that are no resource; then only `verb` counts besides.
    pub(crate) path: String,
}

impl Attributes {
    /// `pods/log`, as rules name subresources.
    pub(crate) fn qualified_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The refusal, in the words that kubectl prints.
    pub(crate) fn forbidden(&self, identity: &Identity) -> ApiError {
        let user = &identity.user;
        if !self.path.is_empty() {
            let (verb, path) = (&self.verb, &self.path);
            return ApiError::ForbiddenPath(format!("User {user:?} cannot {verb} path {path:?}"));
        }
        let place = if self.namespace.is_empty() || self.resource == "namespaces" {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        ApiError::Forbidden {
            subject: Subject {
                group: self.group.clone(),
                resource: self.resource.clone(),
                name: self.name.clone(),
            },
            reason: format!(
                "User {user:?} cannot {} resource {:?} in API group {:?} {place}",
                self.verb,
                self.qualified_resource(),
                self.group
            ),
        }
    }
}

/// The rules of every subject.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    grants: HashMap<SubjectKey, Vec<Grant>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SubjectKey {
    User(String),
    Group(String),
}

#[derive(Debug, Clone)]
struct Grant {
    /// Empty for the whole cluster.
    namespace: String,
    rules: Arc<[Rule]>,
}

impl Policy {
    pub(crate) fn allows(&self, identity: &Identity, attributes: &Attributes) -> bool {
        identity.is_in(MASTERS)
            || self
                .rules_of(identity, &attributes.namespace)
                .any(|rule| rule.allows(attributes))
    }

    /// The rules that an identity has in a namespace, those for the whole cluster included.
    pub(crate) fn rules_of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Rule> {
        let user = SubjectKey::User(identity.user.to_string());
        let groups = identity
            .groups
            .iter()
            .map(|group| SubjectKey::Group(group.clone()));
        std::iter::once(user)
            .chain(groups)
            .filter_map(|subject| self.grants.get(&subject))
            .flatten()
            .filter(move |grant| grant.namespace.is_empty() || grant.namespace == namespace)
            .flat_map(|grant| grant.rules.iter())
    }

    fn build(store: &Store) -> Self {
        let all = |resource: &str| -> Vec<Value> {
            let page = store
                .list(resource, &Query::default())
                .map(|page| page.objects);
            page.unwrap_or_default()
                .iter()
                .map(|object| object.value())
                .collect()
        };
        let cluster_roles = all(CLUSTER_ROLES);
        let by_name: HashMap<String, Arc<[Rule]>> = cluster_roles
            .iter()
            .map(|role| {
                (
                    text(&role["metadata"]["name"]),
                    rules(role, &cluster_roles).into(),
                )
            })
            .collect();
        let roles: HashMap<(String, String), Arc<[Rule]>> = all(ROLES)
            .iter()
            .map(|role| {
                let metadata = &role["metadata"];
                (
                    (text(&metadata["namespace"]), text(&metadata["name"])),
                    rules(role, &[]).into(),
                )
            })
            .collect();
        let mut policy = Self::default();
        for binding in all(CLUSTER_ROLE_BINDINGS) {
            if let Some(rules) = by_name.get(&text(&binding["roleRef"]["name"])) {
                policy.grant(&binding, "", rules);
            }
        }
        for binding in all(ROLE_BINDINGS) {
            let namespace = text(&binding["metadata"]["namespace"]);
            let name = text(&binding["roleRef"]["name"]);
            let found = if binding["roleRef"]["kind"] == "ClusterRole" {
                by_name.get(&name)
            } else {
                roles.get(&(namespace.clone(), name))
            };
            if let Some(rules) = found {
                policy.grant(&binding, &namespace, rules);
            }
        }
        policy
    }

    fn grant(&mut self, binding: &Value, namespace: &str, rules: &Arc<[Rule]>) {
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let name = text(&subject["name"]);
            let key = match subject["kind"].as_str() {
                Some("User") => SubjectKey::User(name),
                Some("Group") => SubjectKey::Group(name),
                Some("ServiceAccount") => {
                    let home = subject["namespace"].as_str().unwrap_or(namespace);
                    SubjectKey::User(format!("system:serviceaccount:{home}:{name}"))
                }
                _ => continue,
            };
            let grant = Grant {
                namespace: namespace.to_owned(),
                rules: Arc::clone(rules),
            };
            self.grants.entry(key).or_default().push(grant);
        }
    }
}

/// The policy as of the newest RBAC objects.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache {
    fresh: AtomicBool,
    policy: RwLock<Arc<Policy>>,
}

impl PolicyCache {
    /// Marks the policy stale when the resource is one of RBAC's, and tells whether it is.
    pub(crate) fn observe(&self, resource: &str) -> bool {
        let concerns =
            [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS].contains(&resource);
        if concerns {
            self.fresh.store(false, Ordering::Release);
        }
        concerns
    }

    pub(crate) fn get(&self, store: &Store) -> Arc<Policy> {
        if !self.fresh.load(Ordering::Acquire) {
            // Whoever asks meanwhile waits for the lock. Marked before it is built: a change in
            // between marks it stale again.
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            if !self.fresh.swap(true, Ordering::AcqRel) {
                *policy = Arc::new(Policy::build(store));
            }
        }
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
