//! `/stats/summary` for those who know kubelets, `/metrics` for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::pods::Identity;
use super::{Error, Result, Server, State};
use crate::gpu;
use crate::metrics::{ContainerSample, PodSample};

pub(super) async fn summary(axum::extract::State(options): State) -> Result<Json<Value>> {
    let pods: Vec<Value> = samples(&options)
        .await?
        .iter()
        .map(|(spec, sample)| {
            let time = sample.at.to_string();
            let containers: Vec<Value> = sample
                .containers
                .iter()
                .map(|container| with_usage(json!({"name": container.name}), &time, container))
                .collect();
            let pod = json!({
                "podRef": {"name": spec.name, "namespace": spec.namespace, "uid": spec.uid},
                "containers": containers,
            });
            with_usage(pod, &time, &sample.total)
        })
        .collect();
    let mut node = json!({"nodeName": options.node_name});
    if let Some(sample) = options.collector.node().await {
        let time = sample.at.to_string();
        node["cpu"] = json!({"time": time, "usageNanoCores": sample.cpu_nanocores,
            "usageCoreNanoSeconds": sample.cpu_nanoseconds});
        node["memory"] = json!({"time": time, "workingSetBytes": sample.memory_bytes,
            "availableBytes": sample.memory_total_bytes.saturating_sub(sample.memory_bytes)});
    }
    Ok(Json(json!({"node": node, "pods": pods})))
}

fn with_usage(mut object: Value, time: &str, sample: &ContainerSample) -> Value {
    object["cpu"] = json!({"time": time, "usageNanoCores": sample.cpu_nanocores,
        "usageCoreNanoSeconds": sample.cpu_nanoseconds});
    object["memory"] = json!({"time": time, "workingSetBytes": sample.memory_bytes});
    object
}

pub(super) async fn prometheus(axum::extract::State(options): State) -> Result<Response> {
    let mut text = String::new();
    describe(
        &mut text,
        "container_cpu_usage_seconds_total",
        "counter",
        "CPU time used.",
    );
    let samples = samples(&options).await?;
    for (labels, container) in containers(&samples) {
        let seconds = std::time::Duration::from_nanos(container.cpu_nanoseconds).as_secs_f64();
        let _ = writeln!(
            text,
            "container_cpu_usage_seconds_total{{{labels}}} {seconds}"
        );
    }
    describe(
        &mut text,
        "container_memory_working_set_bytes",
        "gauge",
        "Memory in use.",
    );
    for (labels, container) in containers(&samples) {
        let bytes = container.memory_bytes;
        let _ = writeln!(
            text,
            "container_memory_working_set_bytes{{{labels}}} {bytes}"
        );
    }
    if let Some(node) = options.collector.node().await {
        describe(
            &mut text,
            "node_cpu_usage_seconds_total",
            "counter",
            "CPU time used by all.",
        );
        let seconds = std::time::Duration::from_nanos(node.cpu_nanoseconds).as_secs_f64();
        let _ = writeln!(text, "node_cpu_usage_seconds_total {seconds}");
        describe(
            &mut text,
            "node_memory_working_set_bytes",
            "gauge",
            "Memory in use by all.",
        );
        let _ = writeln!(text, "node_memory_working_set_bytes {}", node.memory_bytes);
    }
    let gpus = tokio::task::spawn_blocking(gpu::load)
        .await
        .unwrap_or_default();
    if !gpus.is_empty() {
        describe(
            &mut text,
            "gpu_busy_ratio",
            "gauge",
            "Share of time in which the GPU worked.",
        );
        for (index, load) in &gpus {
            if let Some(percent) = load.busy_percent {
                let _ = writeln!(
                    text,
                    "gpu_busy_ratio{{gpu=\"{index}\"}} {}",
                    f64::from(percent) / 100.0
                );
            }
        }
        describe(
            &mut text,
            "gpu_memory_used_bytes",
            "gauge",
            "GPU memory in use.",
        );
        for (index, load) in &gpus {
            if let Some(bytes) = load.memory_used_bytes {
                let _ = writeln!(text, "gpu_memory_used_bytes{{gpu=\"{index}\"}} {bytes}");
            }
        }
    }
    let headers = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((headers, text).into_response())
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// Names in Kubernetes need no escaping within quotes.
fn containers(
    samples: &[(Arc<Identity>, PodSample)],
) -> impl Iterator<Item = (String, &ContainerSample)> {
    samples.iter().flat_map(|(spec, sample)| {
        sample.containers.iter().map(move |container| {
            let labels = format!(
                "namespace=\"{}\",pod=\"{}\",container=\"{}\"",
                spec.namespace, spec.name, container.name
            );
            (labels, container)
        })
    })
}

async fn samples(server: &Server) -> Result<Vec<(Arc<Identity>, PodSample)>> {
    let samples = server.collector.pods().await;
    let pods = server.identities.find(&server.data_dir, |_| true);
    Ok(pods
        .map_err(Error::Pods)?
        .into_iter()
        .filter_map(|(_, spec)| {
            let sample = samples.get(&spec.uid)?.clone();
            Some((spec, sample))
        })
        .collect())
}
