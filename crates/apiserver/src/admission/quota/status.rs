//! The status of quotas, kept true by one task that writes only what is newest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Account, Limits, RESOURCE, charge};
use crate::server::Core;
use crate::store::Name;
use crate::verbs::commit::edit;

/// How long to wait when the store refuses writes.
const RETRY: Duration = Duration::from_millis(500);

/// What the status of a quota should say of the keys that are counted here.
type Used = BTreeMap<String, String>;

/// Writes the status of quotas until the server stops.
pub(crate) async fn run(core: Arc<Core>) {
    let resource: Arc<str> = RESOURCE.into();
    let stopping = core.stopping.clone();
    loop {
        tokio::select! {
            () = core.quotas.changed.notified() => {}
            () = stopping.cancelled() => return,
        }
        for (name, used) in take(&core) {
            let written = edit(&core, &resource, &name, |quota| show(quota, &used)).await;
            if let Err(error) = written {
                tracing::warn!(quota = %name.name, namespace = %name.namespace, %error, "failed to write the status of a quota");
                if let Some(account) = core.quotas.lock().get_mut(&name.namespace) {
                    account.dirty = true;
                }
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => core.quotas.changed.notify_one(),
                    () = stopping.cancelled() => return,
                }
            }
        }
    }
}

/// The quotas whose status may be out of date.
fn take(core: &Core) -> Vec<(Name, Used)> {
    let mut found = Vec::new();
    for (namespace, account) in core.quotas.lock().iter_mut() {
        if !std::mem::take(&mut account.dirty) {
            continue;
        }
        for (name, limits) in &account.quotas {
            let name = Name {
                namespace: Arc::clone(namespace),
                name: Arc::clone(name),
            };
            found.push((name, used(account, limits)));
        }
    }
    found
}

fn used(account: &Account, limits: &Limits) -> Used {
    let keys = limits.keys();
    keys.map(|key| {
        let amount = account.used.get(key).copied().unwrap_or(0);
        (key.clone(), charge::shown(key, amount))
    })
    .collect()
}

/// Whether the status of a quota says what it should.
pub(super) fn is_shown(quota: &Value, account: &Account, limits: &Limits) -> bool {
    let mut right = quota.clone();
    show(&mut right, &used(account, limits));
    right["status"] == quota["status"]
}

/// Sets `status`: what is not counted here stays as its accountant left it.
fn show(quota: &mut Value, counted: &Used) {
    let hard = quota["spec"]["hard"].clone();
    let keys = hard.as_object().into_iter().flatten();
    let used: Map<String, Value> = keys
        .map(|(key, _)| {
            let value = match (counted.get(key), &quota["status"]["used"][key]) {
                (Some(amount), _) => amount.as_str().into(),
                (None, Value::Null) => "0".into(),
                (None, other) => other.clone(),
            };
            (key.clone(), value)
        })
        .collect();
    if hard.is_object() {
        quota["status"] = json!({ "hard": hard, "used": used });
    }
}
