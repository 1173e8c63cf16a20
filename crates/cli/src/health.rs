//! What a cluster asks controllers that run alone: whether they live, whether they can work, and what they have done.

use std::sync::Arc;
use std::time::Duration;

use astrago_controllers::report::{Counter, Metrics};
use astrago_net::Exposition;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use kube::Client;

/// How long the API server has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn router(client: Client, metrics: Arc<Metrics>) -> Router {
    let ready = move || {
        let client = client.clone();
        async move {
            match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
                Ok(Ok(_)) => (StatusCode::OK, "ok\n"),
                _ => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the API server does not answer\n",
                ),
            }
        }
    };
    let count = move || {
        let text = render(&metrics);
        async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(count))
}

fn render(metrics: &Metrics) -> String {
    let counts = metrics.snapshot();
    let mut out = Exposition::default();
    let help = "Times that a controller looked at an object.";
    out.metric("astrago_controller_reconciles_total", "counter", help);
    for (counter, count) in &counts {
        if let Counter::Reconciles(controller) = counter {
            out.value(&[("controller", controller)], count);
        }
    }
    let help = "Looks that failed, by reason.";
    out.metric("astrago_controller_failures_total", "counter", help);
    for (counter, count) in &counts {
        if let Counter::Failures(controller, reason) = counter {
            out.value(&[("controller", controller), ("reason", reason)], count);
        }
    }
    let help = "Objects that a controller wrote.";
    out.metric("astrago_controller_writes_total", "counter", help);
    for (counter, count) in &counts {
        if let Counter::Writes(controller) = counter {
            out.value(&[("controller", controller)], count);
        }
    }
    out.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_stands_below_its_own_head() {
        let metrics = Metrics::default();
        metrics.wrote("job");
        metrics.reconciled("job");
        metrics.failed("jobset", "CreatePods");
        let text = render(&metrics);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "astrago_controller_reconciles_total{controller=\"job\"} 1",
                "astrago_controller_failures_total{controller=\"jobset\",reason=\"CreatePods\"} 1",
                "astrago_controller_writes_total{controller=\"job\"} 1",
            ]
        );
    }
}
