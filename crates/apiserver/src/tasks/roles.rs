//! Keeps the rules of aggregating ClusterRoles written out, for those who read them.

use std::sync::Arc;

use serde_json::Value;

use crate::auth::policy::CLUSTER_ROLES;
use crate::auth::rbac::{Rule, rules, selectors};
use crate::server::Core;
use crate::store::{Name, Query};
use crate::verbs::commit::edit;

/// Works until the server stops. The policy itself does not wait for it.
pub(crate) async fn run(core: Arc<Core>) {
    let resource: Arc<str> = CLUSTER_ROLES.into();
    let mut changes = core.rights.subscribe();
    loop {
        for (name, rules) in outdated(&core) {
            let fill = |role: &mut Value| {
                if let Some(role) = role.as_object_mut() {
                    role.insert("rules".to_owned(), rules.clone());
                }
            };
            if let Err(error) = edit(&core, &resource, &name, fill).await {
                tracing::warn!(role = %name.name, %error, "failed to write the rules of a role");
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = core.stopping.cancelled() => return,
        }
    }
}

/// The roles whose rules are not those of the roles that they select.
fn outdated(core: &Core) -> Vec<(Name, Value)> {
    let page = core.store.list(CLUSTER_ROLES, &Query::default());
    let objects = page.map(|page| page.objects).unwrap_or_default();
    let roles: Vec<Value> = objects.iter().map(|object| object.value()).collect();
    let aggregating = objects.iter().zip(&roles);
    let aggregating = aggregating.filter(|(_, role)| !selectors(role).is_empty());
    aggregating
        .filter_map(|(object, role)| {
            let wanted: Value = rules(role, &roles).iter().map(Rule::to_value).collect();
            (role["rules"] != wanted).then(|| (object.name.clone(), wanted))
        })
        .collect()
}
