//! `/stats/summary` for those who know kubelets, `/metrics` for Prometheus.

use std::sync::Arc;

use astrago_net::Exposition;
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
    let mut out = Exposition::default();
    let seconds = |nanos| std::time::Duration::from_nanos(nanos).as_secs_f64();
    let samples = samples(&options).await?;
    let containers = || {
        samples.iter().flat_map(|(pod, sample)| {
            let of_pod = [("namespace", &*pod.namespace), ("pod", &*pod.name)];
            let containers = sample.containers.iter();
            containers.map(move |it| ([of_pod[0], of_pod[1], ("container", &*it.name)], it))
        })
    };
    let (name, kind) = ("container_cpu_usage_seconds_total", "counter");
    out.metric(name, kind, "CPU time used.");
    for (labels, container) in containers() {
        out.value(&labels, seconds(container.cpu_nanoseconds));
    }
    let (name, kind) = ("container_memory_working_set_bytes", "gauge");
    out.metric(name, kind, "Memory in use.");
    for (labels, container) in containers() {
        out.value(&labels, container.memory_bytes);
    }
    if let Some(node) = options.collector.node().await {
        let (name, kind) = ("node_cpu_usage_seconds_total", "counter");
        out.metric(name, kind, "CPU time used by all.");
        out.value(&[], seconds(node.cpu_nanoseconds));
        let (name, kind) = ("node_memory_working_set_bytes", "gauge");
        out.metric(name, kind, "Memory in use by all.");
        out.value(&[], node.memory_bytes);
    }
    let gpus = tokio::task::spawn_blocking(gpu::load)
        .await
        .unwrap_or_default();
    if !gpus.is_empty() {
        let help = "Share of time in which the GPU worked.";
        out.metric("gpu_busy_ratio", "gauge", help);
        for (index, load) in &gpus {
            if let Some(percent) = load.busy_percent {
                out.value(&[("gpu", &index.to_string())], f64::from(percent) / 100.0);
            }
        }
        out.metric("gpu_memory_used_bytes", "gauge", "GPU memory in use.");
        for (index, load) in &gpus {
            if let Some(bytes) = load.memory_used_bytes {
                out.value(&[("gpu", &index.to_string())], bytes);
            }
        }
    }
    let media = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], out.into_text()).into_response())
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
