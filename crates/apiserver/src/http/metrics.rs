//! What the server counts, in Prometheus' text form, under Kubernetes' names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
        let mut out = String::from(
            "# HELP apiserver_request_total Requests by verb, resource and code.\n\
             # TYPE apiserver_request_total counter\n",
        );
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for ((verb, resource, code), count) in requests {
            let _ = writeln!(
                out,
                "apiserver_request_total{{verb=\"{verb}\",resource=\"{resource}\",code=\"{code}\"}} {count}"
            );
        }
        out.push_str(
            "# HELP apiserver_request_duration_seconds Time to answer, by verb.\n\
             # TYPE apiserver_request_duration_seconds histogram\n",
        );
        let latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (verb, latency) in latencies {
            let name = "apiserver_request_duration_seconds";
            for (bound, count) in BUCKETS.iter().zip(latency.buckets) {
                let _ = writeln!(
                    out,
                    "{name}_bucket{{verb=\"{verb}\",le=\"{bound}\"}} {count}"
                );
            }
            let (count, sum) = (latency.count, latency.sum);
            let _ = writeln!(out, "{name}_bucket{{verb=\"{verb}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{verb=\"{verb}\"}} {sum}");
            let _ = writeln!(out, "{name}_count{{verb=\"{verb}\"}} {count}");
        }
        out.push_str(
            "# HELP apiserver_storage_objects Objects by resource.\n\
             # TYPE apiserver_storage_objects gauge\n",
        );
        for resource in store.resources() {
            let count = store.count(&resource);
            let _ = writeln!(
                out,
                "apiserver_storage_objects{{resource=\"{resource}\"}} {count}"
            );
        }
        let revision = store.revision();
        let _ = writeln!(
            out,
            "# HELP apiserver_storage_revision The newest resourceVersion.\n\
             # TYPE apiserver_storage_revision gauge\napiserver_storage_revision {revision}"
        );
        out
    }
}
