//! What the server counts, in Prometheus' text form, under Kubernetes' names.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use astrago_net::Exposition;

use crate::store::Store;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, String, u16), u64>>,
    latencies: Mutex<BTreeMap<&'static str, Latency>>,
}

#[derive(Debug, Default, Clone)]
struct Latency {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    pub(crate) fn record(&self, verb: &'static str, resource: &str, code: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests
            .entry((verb, resource.to_owned(), code))
            .or_default() += 1;
        drop(requests);
        let mut latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let latency = latencies.entry(verb).or_default();
        let seconds = took.as_secs_f64();
        for (bucket, bound) in latency.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
        latency.count += 1;
        latency.sum += seconds;
    }

    pub(crate) fn render(&self, store: &Store) -> String {
        let mut out = Exposition::default();
        let help = "Requests by verb, resource and code.";
        out.metric("apiserver_request_total", "counter", help);
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for ((verb, resource, code), count) in requests {
            let code = code.to_string();
            out.value(
                &[("verb", verb), ("resource", &resource), ("code", &code)],
                count,
            );
        }
        let help = "Time to answer, by verb.";
        out.metric("apiserver_request_duration_seconds", "histogram", help);
        let latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (verb, latency) in latencies {
            for (bound, count) in BUCKETS.iter().zip(latency.buckets) {
                out.part(
                    "_bucket",
                    &[("verb", verb), ("le", &bound.to_string())],
                    count,
                );
            }
            out.part("_bucket", &[("verb", verb), ("le", "+Inf")], latency.count);
            out.part("_sum", &[("verb", verb)], latency.sum);
            out.part("_count", &[("verb", verb)], latency.count);
        }
        out.metric("apiserver_storage_objects", "gauge", "Objects by resource.");
        for resource in store.resources() {
            out.value(&[("resource", &*resource)], store.count(&resource));
        }
        out.metric(
            "apiserver_storage_revision",
            "gauge",
            "The newest resourceVersion.",
        );
        out.value(&[], store.revision());
        out.into_text()
    }
}
