//! PodDisruptionBudgets: what they allow, said in their status and asked by evictions.
//!
//! An eviction does not rely on the status, which follows a moment later: it counts the pods itself, one eviction at a
//! time, so that two cannot both take the last disruption that a budget allows.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Notify};

use crate::kinds::metadata;
use crate::kinds::selector::Labels;
use crate::server::Core;
use crate::store::{Name, Object, Query, Store};
use crate::verbs::commit::edit;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// How long a pod that is said to be disrupted may take until it ends; after that it counts again.
const DISRUPTED: SignedDuration = SignedDuration::from_mins(2);
/// Pods come and go together; their budgets are counted once.
const GATHER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct Disruptions {
    changed: Notify,
    /// Held by an eviction from its question until its pod is marked.
    pub(crate) turn: Mutex<()>,
}

impl Disruptions {
    /// Follows a committed event. Runs on the writer's thread.
    pub(crate) fn observe(&self, store: &Store, resource: &str) {
        if resource == BUDGETS || (resource == "pods" && store.count(BUDGETS) > 0) {
            self.changed.notify_one();
        }
    }
}

/// Keeps the status of all budgets until the server stops.
pub(crate) async fn run(core: Arc<Core>) {
    let resource: Arc<str> = BUDGETS.into();
    loop {
        let mut some_expire = false;
        for budget in list(&core.store, BUDGETS, "") {
            let now = (core.options.clock)();
            let count = Count::of(&core.store, &budget, now);
            let namespace = &budget.name.namespace;
            let show = |budget: &mut Value| {
                let disrupted = disrupted(&core.store, namespace, budget, now);
                count.show(budget, disrupted, &metadata::timestamp(now));
            };
            match edit(&core, &resource, &budget.name, show).await {
                Ok(budget) => {
                    let status = budget.map(|budget| budget.value()["status"].take());
                    some_expire |= status.is_some_and(|one| one["disruptedPods"].is_object());
                }
                Err(error) => {
                    tracing::warn!(budget = %budget.name.name, %error, "failed to write the status of a budget");
                }
            }
        }
        tokio::select! {
            () = core.disruptions.changed.notified() => {}
            () = tokio::time::sleep(DISRUPTED.unsigned_abs()), if some_expire => {}
            () = core.stopping.cancelled() => return,
        }
        tokio::time::sleep(GATHER).await;
    }
}

/// Why a pod may not go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Budget(String),
    /// Which of its budgets would count is not said anywhere.
    Several,
}

/// Asks the budgets of a pod's namespace.
pub(crate) fn may_evict(store: &Store, pod: &Object, now: Timestamp) -> Result<(), Refusal> {
    let value = pod.value();
    let phase = value["status"]["phase"].as_str().unwrap_or_default();
    // What does not run, or ends already, is nobody's loss.
    if pod.meta.terminating || matches!(phase, "Succeeded" | "Failed" | "Pending") {
        return Ok(());
    }
    let mut found = list(store, BUDGETS, &pod.name.namespace)
        .into_iter()
        .filter(|budget| selector(&budget.value()).is_some_and(|selector| selector.matches(pod)));
    let (budget, other) = (found.next(), found.next());
    let Some(budget) = budget else { return Ok(()) };
    if other.is_some() {
        return Err(Refusal::Several);
    }
    let count = Count::of(store, &budget, now);
    let allowed = if is_healthy(&value) {
        count.allowed() > 0
    } else {
        let policy = &budget.value()["spec"]["unhealthyPodEvictionPolicy"];
        policy == "AlwaysAllow" || (count.healthy > 0 && count.healthy >= count.desired)
    };
    if allowed {
        return Ok(());
    }
    let (name, healthy, desired) = (&budget.name.name, count.healthy, count.desired);
    Err(Refusal::Budget(format!(
        "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    )))
}

/// The pods of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    expected: i64,
    healthy: i64,
    desired: i64,
}

impl Count {
    fn of(store: &Store, budget: &Object, now: Timestamp) -> Self {
        let value = budget.value();
        let Some(selector) = selector(&value) else {
            return Self::default();
        };
        let namespace = &budget.name.namespace;
        let disrupted = disrupted(store, namespace, &value, now);
        let pods = list(store, "pods", namespace).into_iter();
        let pods = pods.filter(|pod| selector.matches(pod) && !pod.meta.terminating);
        let mut count = Self::default();
        for (name, pod) in pods.map(|pod| (pod.name.clone(), pod.value())) {
            if !matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed")
            ) {
                count.expected += 1;
                let stays = !disrupted.contains_key(&*name.name);
                count.healthy += i64::from(stays && is_healthy(&pod));
            }
        }
        count.desired = desired(&value["spec"], count.expected);
        count
    }

    fn allowed(self) -> i64 {
        (self.healthy - self.desired).max(0)
    }

    fn show(self, budget: &mut Value, disrupted: Map<String, Value>, now: &str) {
        let allowed = self.allowed();
        let (word, reason) = if allowed > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let generation = budget["metadata"]["generation"].as_i64().unwrap_or(1);
        let conditions = budget["status"]["conditions"].as_array();
        let before = conditions
            .into_iter()
            .flatten()
            .find(|one| one["type"] == "DisruptionAllowed" && one["status"] == word);
        let since = before.map_or_else(|| now.into(), |one| one["lastTransitionTime"].clone());
        let mut status = json!({
            "observedGeneration": generation,
            "expectedPods": self.expected,
            "currentHealthy": self.healthy,
            "desiredHealthy": self.desired,
            "disruptionsAllowed": allowed,
            "conditions": [{
                "type": "DisruptionAllowed", "status": word, "reason": reason, "message": "",
                "observedGeneration": generation, "lastTransitionTime": since,
            }],
        });
        if !disrupted.is_empty() {
            status["disruptedPods"] = disrupted.into();
        }
        if let Some(budget) = budget.as_object_mut() {
            budget.insert("status".to_owned(), status);
        }
    }
}

/// The pods of which the status says that they are about to go, and which have neither gone nor taken too long for it.
fn disrupted(store: &Store, namespace: &str, budget: &Value, now: Timestamp) -> Map<String, Value> {
    let said = budget["status"]["disruptedPods"].as_object();
    said.into_iter()
        .flatten()
        .filter(|(name, since)| {
            let since: Option<Timestamp> = since.as_str().and_then(|text| text.parse().ok());
            since.is_some_and(|since| now.duration_since(since) < DISRUPTED)
                && store
                    .get("pods", &Name::new(namespace, name))
                    .is_some_and(|pod| !pod.meta.terminating)
        })
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect()
}

/// How many pods a budget wants to be healthy.
fn desired(spec: &Value, expected: i64) -> i64 {
    let amount = |value: &Value| {
        let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
        match percent.and_then(|text| text.parse::<i64>().ok()) {
            Some(percent) => (percent.clamp(0, 100) * expected + 99) / 100,
            None => value.as_i64().unwrap_or(0),
        }
    };
    if spec["maxUnavailable"].is_null() {
        let least = &spec["minAvailable"];
        if least.is_null() { 1 } else { amount(least) }
    } else {
        expected
            .saturating_sub(amount(&spec["maxUnavailable"]))
            .max(0)
    }
}

/// Whether a pod is one that a budget counts on.
fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(ready))
        && !metadata::is_terminating(pod)
}

/// An absent selector is one of nothing, an empty one of all.
fn selector(budget: &Value) -> Option<Labels> {
    let selector = &budget["spec"]["selector"];
    selector.is_object().then(|| Labels::of(selector))?
}

fn list(store: &Store, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
    let query = Query {
        namespace,
        ..Query::default()
    };
    let page = store.list(resource, &query);
    page.map(|page| page.objects).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::number(json!({ "minAvailable": 2 }), 2)]
    #[case::share(json!({ "minAvailable": "50%" }), 3)]
    #[case::most(json!({ "maxUnavailable": 1 }), 4)]
    #[case::most_share(json!({ "maxUnavailable": "30%" }), 3)]
    #[case::more_than_there_are(json!({ "maxUnavailable": 9 }), 0)]
    #[case::largest(json!({ "maxUnavailable": i64::MIN }), i64::MAX)]
    #[case::neither(json!({}), 1)]
    fn budgets_say_how_many_of_five_must_be_healthy(#[case] spec: Value, #[case] want: i64) {
        assert_eq!(desired(&spec, 5), want);
    }
}
