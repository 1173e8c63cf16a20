//! Samples as objects of the API.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{ContainerSample, GROUP, NodeSample, PodSample, VERSION};

pub(super) fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "apiVersion": api_version(), "metadata": {}, "items": items})
}

pub(super) fn pod(pod: &Pod, sample: &PodSample) -> Value {
    let containers: Vec<Value> = sample
        .containers
        .iter()
        .map(|container| json!({"name": container.name, "usage": usage(container)}))
        .collect();
    json!({
        "kind": "PodMetrics", "apiVersion": api_version(),
        "metadata": metadata(&pod.metadata),
        "timestamp": seconds(sample.at), "window": window(sample.window),
        "containers": containers,
    })
}

pub(super) fn node(node: &Node, sample: &NodeSample) -> Value {
    let usage = quantities(sample.cpu_nanocores, sample.memory_bytes);
    json!({
        "kind": "NodeMetrics", "apiVersion": api_version(),
        "metadata": metadata(&node.metadata),
        "timestamp": seconds(sample.at), "window": window(sample.window),
        "usage": usage,
    })
}

fn usage(container: &ContainerSample) -> Value {
    quantities(container.cpu_nanocores, container.memory_bytes)
}

fn quantities(cpu_nanocores: u64, memory_bytes: u64) -> Value {
    json!({"cpu": format!("{cpu_nanocores}n"), "memory": format!("{}Ki", memory_bytes / 1024)})
}

fn metadata(of: &ObjectMeta) -> Value {
    let mut metadata = json!({"name": of.name, "creationTimestamp": seconds(Timestamp::now())});
    if let Some(namespace) = &of.namespace {
        metadata["namespace"] = json!(namespace);
    }
    if let Some(labels) = &of.labels {
        metadata["labels"] = json!(labels);
    }
    metadata
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A duration in Go's words.
fn window(window: Duration) -> String {
    format!("{}.{:03}s", window.as_secs(), window.subsec_millis())
}
