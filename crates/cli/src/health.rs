//! What a cluster asks controllers that run alone: whether they live, whether they can work, and what they have done.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use astrago_controllers::report::{Counter, Metrics};
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

/// The counters in Prometheus' text form.
fn render(metrics: &Metrics) -> String {
    let [mut reconciles, mut failures, mut writes] = [
        ("reconciles", "Times that a controller looked at an object."),
        ("failures", "Looks that failed, by reason."),
        ("writes", "Objects that a controller wrote."),
    ]
    .map(|(name, help)| {
        let name = format!("astrago_controller_{name}_total");
        format!("# HELP {name} {help}\n# TYPE {name} counter\n")
    });
    for (counter, count) in metrics.snapshot() {
        let _ = match counter {
            Counter::Reconciles(controller) => writeln!(
                reconciles,
                "astrago_controller_reconciles_total{{controller=\"{controller}\"}} {count}"
            ),
            Counter::Failures(controller, reason) => writeln!(
                failures,
                "astrago_controller_failures_total{{controller=\"{controller}\",reason=\"{reason}\"}} {count}"
            ),
            Counter::Writes(controller) => writeln!(
                writes,
                "astrago_controller_writes_total{{controller=\"{controller}\"}} {count}"
            ),
        };
    }
    reconciles + &failures + &writes
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
