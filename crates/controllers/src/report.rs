//! The one place where a failed reconcile is told: to the log, to the user as an event, and to the metrics.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;

use crate::context::Context;
use crate::controller::{Category, Retry};
use crate::events::Notice;

/// An error and its sources, from the outermost in: `failed to create the pod: connection refused`.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = match source.downcast_ref::<kube::Error>() {
            // kube repeats the whole answer in its own text; what the server said is the message.
            Some(kube::Error::Api(status)) => status.message.clone(),
            _ => source.to_string(),
        };
        if !part.is_empty() && !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = if source.is::<kube::Error>() {
            None
        } else {
            source.source()
        };
    }
    text
}

/// Tells a failed reconcile of the object `regarding`.
pub fn failure<E: Category>(
    context: &Context,
    controller: &'static str,
    regarding: ObjectReference,
    error: &E,
) {
    context.metrics.failed(controller, error.category());
    if error.retry() == Retry::Soon {
        return;
    }
    let text = chain(error);
    tracing::warn!(
        controller,
        namespace = regarding.namespace,
        name = regarding.name,
        reason = error.category(),
        "{text}"
    );
    if error.notable() {
        context
            .events
            .send(Notice::warning(regarding, error.category(), text));
    }
}

/// Counters of one run of the controllers.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: Mutex<BTreeMap<Counter, u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    Reconciles(&'static str),
    /// Failed reconciles of a controller, by category.
    Failures(&'static str, &'static str),
    /// Writes to the API server by a controller.
    Writes(&'static str),
}

impl Metrics {
    pub fn reconciled(&self, controller: &'static str) {
        self.add(Counter::Reconciles(controller));
    }

    pub fn failed(&self, controller: &'static str, category: &'static str) {
        self.add(Counter::Failures(controller, category));
    }

    pub fn wrote(&self, controller: &'static str) {
        self.add(Counter::Writes(controller));
    }

    pub fn snapshot(&self) -> BTreeMap<Counter, u64> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, counter: Counter) {
        *self
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(counter)
            .or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create the pod")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_chain_names_every_source_once() {
        let error = Outer(std::io::Error::other("disk full"));
        assert_eq!(chain(&error), "failed to create the pod: disk full");
    }

    #[test]
    fn counters_add_up() {
        let metrics = Metrics::default();
        metrics.reconciled("job");
        metrics.reconciled("job");
        metrics.wrote("job");
        assert_eq!(
            metrics.snapshot().get(&Counter::Reconciles("job")),
            Some(&2)
        );
        assert_eq!(metrics.snapshot().get(&Counter::Writes("job")), Some(&1));
    }
}
