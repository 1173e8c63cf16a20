//! What pods and the node use, as `kubectl top` asks for it: the API `metrics.k8s.io/v1beta1`.
//!
//! [`Collector`] asks each pod's supervisor for its counters, every few seconds and once more when
//! a pod is too young to have been asked twice; CPU use is the difference of two answers.
//! Supervisors keep the counters, so a restart of the agent loses nothing but one interval.
//! [`router`] joins that with the objects: names, labels and selectors are the API server's
//! business, so it is asked, with the caller's own selectors.

mod collector;
mod node;
mod objects;

use axum::Json;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

pub use collector::{Collector, ContainerSample, PodSample};
pub use node::{NodeCounters, NodeSample};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";

/// The group's resources, for discovery.
pub fn resources() -> Vec<Value> {
    let resource = |name: &str, kind: &str, namespaced: bool| {
        json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
            "verbs": ["get", "list"]})
    };
    vec![
        resource("nodes", "NodeMetrics", false),
        resource("pods", "PodMetrics", true),
    ]
}

/// The group's paths, in full. Whoever mounts it authenticates and authorises.
pub fn router(collector: Collector) -> Router {
    let root = format!("/apis/{GROUP}/{VERSION}");
    Router::new()
        .route(&root, get(discovery))
        .route(&format!("{root}/pods"), get(list_pods))
        .route(
            &format!("{root}/namespaces/{{namespace}}/pods"),
            get(list_pods_in),
        )
        .route(
            &format!("{root}/namespaces/{{namespace}}/pods/{{name}}"),
            get(get_pod),
        )
        .route(&format!("{root}/nodes"), get(list_nodes))
        .route(&format!("{root}/nodes/{{name}}"), get(get_node))
        .with_state(collector)
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selection {
    label_selector: Option<String>,
    field_selector: Option<String>,
}

impl Selection {
    fn parameters(&self) -> ListParams {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        ListParams {
            label_selector: given(&self.label_selector),
            field_selector: given(&self.field_selector),
            ..ListParams::default()
        }
    }
}

async fn discovery() -> Json<Value> {
    Json(json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"), "resources": resources()}))
}

async fn list_pods(
    State(collector): State<Collector>,
    Query(selection): Query<Selection>,
) -> Result<Json<Value>> {
    pod_list(&collector, Api::all(collector.client()?), &selection).await
}

async fn list_pods_in(
    State(collector): State<Collector>,
    Path(namespace): Path<String>,
    Query(selection): Query<Selection>,
) -> Result<Json<Value>> {
    pod_list(
        &collector,
        Api::namespaced(collector.client()?, &namespace),
        &selection,
    )
    .await
}

async fn pod_list(
    collector: &Collector,
    pods: Api<Pod>,
    selection: &Selection,
) -> Result<Json<Value>> {
    let pods = pods.list(&selection.parameters()).await?;
    let samples = collector.pods().await;
    let items: Vec<Value> = pods
        .iter()
        .filter_map(|pod| {
            Some(objects::pod(
                pod,
                samples.get(pod.metadata.uid.as_deref()?)?,
            ))
        })
        .collect();
    Ok(Json(objects::list("PodMetricsList", &items)))
}

async fn get_pod(
    State(collector): State<Collector>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let missing = || Error::NotFound {
        resource: "pods",
        name: name.clone(),
    };
    let pods: Api<Pod> = Api::namespaced(collector.client()?, &namespace);
    let pod = pods.get_opt(&name).await?.ok_or_else(missing)?;
    let samples = collector.pods().await;
    let sample = pod
        .uid()
        .and_then(|uid| samples.get(&uid).cloned())
        .ok_or_else(missing)?;
    Ok(Json(objects::pod(&pod, &sample)))
}

async fn list_nodes(
    State(collector): State<Collector>,
    Query(selection): Query<Selection>,
) -> Result<Json<Value>> {
    let nodes: Api<Node> = Api::all(collector.client()?);
    let nodes = nodes.list(&selection.parameters()).await?;
    let sample = collector.node().await;
    let items: Vec<Value> = nodes
        .iter()
        .filter(|node| node.name_any() == collector.node_name())
        .filter_map(|node| Some(objects::node(node, sample.as_ref()?)))
        .collect();
    Ok(Json(objects::list("NodeMetricsList", &items)))
}

async fn get_node(
    State(collector): State<Collector>,
    Path(name): Path<String>,
) -> Result<Json<Value>> {
    let missing = || Error::NotFound {
        resource: "nodes",
        name: name.clone(),
    };
    if name != collector.node_name() {
        return Err(missing());
    }
    let nodes: Api<Node> = Api::all(collector.client()?);
    let node = nodes.get_opt(&name).await?.ok_or_else(missing)?;
    let sample = collector.node().await.ok_or_else(missing)?;
    Ok(Json(objects::node(&node, &sample)))
}

type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the node has not started yet")]
    Starting,
    #[error("{resource}.{GROUP} {name:?} not found")]
    NotFound {
        resource: &'static str,
        name: String,
    },
    #[error("failed to read objects from the API server")]
    Api(#[from] kube::Error),
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (code, reason) = match &self {
            Self::Starting => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "NotFound"),
            // Its own refusals, such as of a bad selector, are the caller's to see.
            Self::Api(kube::Error::Api(status)) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                return (code, Json(json!(status))).into_response();
            }
            Self::Api(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.to_string(), "reason": reason,
            "code": code.as_u16()});
        (code, Json(status)).into_response()
    }
}

#[cfg(test)]
mod tests;
