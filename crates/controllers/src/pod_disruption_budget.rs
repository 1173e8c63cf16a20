//! Keeps the status of PodDisruptionBudgets: how many of their pods may be evicted now. Who evicts asks for that.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::conditions::{Claim, set};
use crate::context::Context;
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::mirror::Mirror;
use crate::queue::ObjectKey;
use crate::{pod, status};

const CONTROLLER: &str = "poddisruptionbudget";

/// The status could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the status of the budget")]
struct Error(#[source] kube::Error);

impl Category for Error {
    fn category(&self) -> &'static str {
        "WriteStatus"
    }

    fn retry(&self) -> Retry {
        retry_of(&self.0)
    }
}

/// Keeps the budgets until cancelled.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let budgets: Mirror<PodDisruptionBudget> =
        Mirror::new(|budget| budget.namespace().into_iter().collect());
    let queue = context.queue();
    let changed = Arc::clone(&queue);
    budgets.subscribe(move |change| {
        if let Some(budget) = &change.new {
            changed.add(ObjectKey::of(&**budget));
        }
    });
    let (here, of_pods) = (budgets.clone(), Arc::clone(&queue));
    context.mirrors.pods.subscribe(move |change| {
        let namespace = change.latest().and_then(|pod| pod.namespace());
        for budget in here.find(&namespace.unwrap_or_default()) {
            of_pods.add(ObjectKey::of(&*budget));
        }
    });
    let follow = budgets.run(Api::all(context.client.clone()), stop.clone());
    let work = async {
        let ready = async { tokio::join!(budgets.ready(), context.mirrors.pods.ready()) };
        if stop.run_until_cancelled(ready).await.is_some() {
            for budget in budgets.all() {
                queue.add(ObjectKey::of(&*budget));
            }
            let reconcile = |key| reconcile(Arc::clone(&context), budgets.clone(), key);
            drive(&context, CONTROLLER, &queue, 1, &stop, reconcile).await;
        }
    };
    Box::pin(futures::future::join(follow, work)).await;
}

async fn reconcile(
    context: Arc<Context>,
    budgets: Mirror<PodDisruptionBudget>,
    key: ObjectKey,
) -> Result<Next, Error> {
    let Some(budget) = budgets.get(&key) else {
        return Ok(Next::AwaitChange);
    };
    let mut pods = context.mirrors.pods.all();
    pods.retain(|pod| pod.metadata.namespace.as_deref() == Some(key.namespace.as_str()));
    let new = account(&budget, &pods, context.clock.now());
    let api = Api::<PodDisruptionBudget>::namespaced(context.client.clone(), &key.namespace);
    let written = status::write(&api, &*budget, budget.status.as_ref(), &new)
        .await
        .map_err(Error)?;
    if let Some(written) = written {
        context.metrics.wrote(CONTROLLER);
        budgets.observe(written);
    }
    Ok(Next::AwaitChange)
}

/// What `budget` allows, given the `pods` of its namespace.
fn account(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let spec = budget.spec.clone().unwrap_or_default();
    // A budget without a selector is for no pod, one with an empty selector for all.
    let selector: Option<Selector> = spec.selector.and_then(|selector| selector.try_into().ok());
    let meant = |pod: &&Arc<Pod>| {
        let selected = selector
            .as_ref()
            .is_some_and(|selector| selector.matches(pod.labels()));
        selected && !pod::is_terminal(pod)
    };
    let (mut expected, mut healthy) = (0_i32, 0_i32);
    for pod in pods.iter().filter(meant) {
        expected = expected.saturating_add(1);
        healthy += i32::from(pod::is_active(pod) && pod::is_ready(pod));
    }
    let desired = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => share(least, expected),
        (None, Some(most)) => (expected - share(most, expected)).max(0),
        (None, None) => 0,
    };
    let allowed = if expected == 0 {
        0
    } else {
        (healthy - desired).max(0)
    };
    let mut status = budget.status.clone().unwrap_or_default();
    (status.expected_pods, status.current_healthy) = (Some(expected), Some(healthy));
    (status.desired_healthy, status.disruptions_allowed) = (Some(desired), Some(allowed));
    status.observed_generation = budget.metadata.generation;
    let claim = Claim {
        kind: "DisruptionAllowed",
        holds: allowed > 0,
        reason: if allowed > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        },
        message: "",
    };
    let conditions = status.conditions.get_or_insert_default();
    set(conditions, claim, budget.metadata.generation, now);
    status
}

/// A number of pods, or the share of `all` of them, rounded up. What is neither allows no disruption.
fn share(value: &IntOrString, all: i32) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|text| text.parse().ok());
            percent.map_or(i32::MAX, |percent: u32| {
                let pods = (i64::from(all) * i64::from(percent) + 99) / 100;
                i32::try_from(pods).unwrap_or(i32::MAX)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(app: &str, phase: &str, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": { "name": "a", "namespace": "ns", "labels": { "app": app } },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] },
        });
        Arc::new(serde_json::from_value(pod).expect("a valid pod"))
    }

    #[rstest]
    #[case::least(json!({ "minAvailable": 2 }), (2, 1))]
    #[case::least_as_a_share(json!({ "minAvailable": "50%" }), (2, 1))]
    #[case::all_are_needed(json!({ "minAvailable": "100%" }), (4, 0))]
    #[case::more_than_there_are(json!({ "minAvailable": 9 }), (9, 0))]
    #[case::most(json!({ "maxUnavailable": 2 }), (2, 1))]
    #[case::most_as_a_share(json!({ "maxUnavailable": "30%" }), (2, 1))]
    #[case::one_is_away_already(json!({ "maxUnavailable": 1 }), (3, 0))]
    #[case::nonsense_allows_nothing(json!({ "minAvailable": "some" }), (i32::MAX, 0))]
    fn a_budget_counts_its_pods(#[case] mut spec: Value, #[case] want: (i32, i32)) {
        spec["selector"] = json!({ "matchLabels": { "app": "x" } });
        let budget = json!({ "metadata": { "name": "b", "namespace": "ns", "generation": 3 }, "spec": spec });
        let budget = serde_json::from_value(budget).expect("a valid budget");
        let pods = [
            pod("x", "Running", true),
            pod("x", "Running", true),
            pod("x", "Running", true),
            pod("x", "Pending", false),
            pod("x", "Succeeded", false),
            pod("y", "Running", true),
        ];
        let status = account(&budget, &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (status.expected_pods, status.current_healthy),
            (Some(4), Some(3))
        );
        let want = (Some(want.0), Some(want.1));
        assert_eq!((status.desired_healthy, status.disruptions_allowed), want);
        assert_eq!(status.observed_generation, Some(3));
    }

    #[test]
    fn a_budget_without_a_selector_is_for_no_pod() {
        let budget =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "minAvailable": 0 } }));
        let pods = [pod("x", "Running", true)];
        let status = account(
            &budget.expect("a valid budget"),
            &pods,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            (status.expected_pods, status.disruptions_allowed),
            (Some(0), Some(0))
        );
    }
}
