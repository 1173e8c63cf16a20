//! Machines, queue, runtimes, namespaces, volumes, secrets.

use std::sync::Arc;

use axum::Json as Answer;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

use crate::app::{self, Error, apply, sampling};
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Call, Json, Name, Parameters};
use crate::identity::Access;
use crate::metrics;
use crate::model::{
    Claim, ClaimRequest, ClusterInfo, ErrorBody, Namespace, NewNamespace, NewRuntime, NodeInfo,
    Priority, Queue, Quota, Runtime, SecretInfo, SecretRequest, UsageOverTime,
};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(nodes; machine_usage; queue; priorities; runtimes; runtime; runtime_manifest;
        copy_runtime; set_max_restarts; namespaces, create_namespace; quota, set_quota;
        claims, create_claim; secrets, put_secret; apply_object; cluster; version; prometheus)
}

/// The machines and what runs on them.
#[utoipa::path(get, path = "/api/nodes", tag = "cluster",
    responses((status = 200, body = Vec<NodeInfo>), (status = "4XX", body = ErrorBody)))]
async fn nodes(Call(context, caller): Call) -> Result<Answer<Vec<NodeInfo>>> {
    Ok(Answer(app::nodes::nodes(&context, &caller).await?))
}

/// What a machine used over the last day.
#[utoipa::path(get, path = "/api/nodes/{name}/usage", tag = "cluster", params(("name" = String, Path)),
    responses((status = 200, body = UsageOverTime), (status = "4XX", body = ErrorBody)))]
async fn machine_usage(
    Call(context, caller): Call,
    Name(name): Name,
) -> Result<Answer<UsageOverTime>> {
    sampling::of_machine(&context, &caller, &name)
        .await
        .map(Answer)
}

/// The priorities that jobs can have, the highest first.
#[utoipa::path(get, path = "/api/priorities", tag = "cluster",
    responses((status = 200, body = Vec<Priority>), (status = "4XX", body = ErrorBody)))]
async fn priorities(Call(context, _): Call) -> Result<Answer<Vec<Priority>>> {
    Ok(Answer(app::queue::priorities(&context).await?))
}

/// The jobs that wait, in the order in which they will start, and why they wait.
#[utoipa::path(get, path = "/api/queue", tag = "cluster",
    responses((status = 200, body = Queue), (status = "4XX", body = ErrorBody)))]
async fn queue(Call(context, caller): Call) -> Result<Answer<Queue>> {
    Ok(Answer(app::queue::queue(&context, &caller).await?))
}

/// The runtimes that jobs can use.
#[utoipa::path(get, path = "/api/runtimes", tag = "cluster",
    responses((status = 200, body = Vec<Runtime>), (status = "4XX", body = ErrorBody)))]
async fn runtimes(Call(context, _): Call) -> Answer<Vec<Runtime>> {
    Answer(app::runtimes::list(&context))
}

/// One runtime.
#[utoipa::path(get, path = "/api/runtimes/{name}", tag = "cluster", params(("name" = String, Path)),
    responses((status = 200, body = Runtime), (status = "4XX", body = ErrorBody)))]
async fn runtime(Call(context, _): Call, Name(name): Name) -> Result<Answer<Runtime>> {
    Ok(Answer(app::runtimes::find(&context, &name)?))
}

/// A runtime as YAML, ready for `kubectl apply`.
#[utoipa::path(get, path = "/api/runtimes/{name}/manifest", tag = "cluster", params(("name" = String, Path)),
    responses((status = 200, body = Object, content_type = "application/yaml"), (status = "4XX", body = ErrorBody)))]
async fn runtime_manifest(Call(context, _): Call, Name(name): Name) -> Result<impl IntoResponse> {
    let yaml = app::runtimes::manifest(&context, &name)?;
    Ok(([("content-type", "application/yaml")], yaml))
}

/// Make another runtime like this one; for administrators.
#[utoipa::path(post, path = "/api/runtimes/{name}/copy", tag = "cluster", request_body = NewRuntime,
    params(("name" = String, Path)),
    responses((status = 200, body = Runtime), (status = "4XX", body = ErrorBody)))]
async fn copy_runtime(
    Call(context, caller): Call,
    Name(name): Name,
    Json(body): Json<NewRuntime>,
) -> Result<Answer<Runtime>> {
    app::runtimes::copy(&context, &caller, &name, &body.name)
        .await
        .map(Answer)
}

/// How often jobs are restarted.
#[derive(Deserialize, ToSchema)]
struct MaxRestarts {
    #[schema(minimum = 0, maximum = 1000)]
    max_restarts: i64,
}

/// Set how often the jobs of a runtime are restarted; for administrators.
#[utoipa::path(put, path = "/api/runtimes/{name}/max-restarts", tag = "cluster", request_body = MaxRestarts,
    params(("name" = String, Path)),
    responses((status = 200, body = Runtime), (status = "4XX", body = ErrorBody)))]
async fn set_max_restarts(
    Call(context, caller): Call,
    Name(name): Name,
    Json(body): Json<MaxRestarts>,
) -> Result<Answer<Runtime>> {
    if !(0..=1000).contains(&body.max_restarts) {
        return Err(Error::invalid("max_restarts", "must be between 0 and 1000"));
    }
    app::runtimes::set_max_restarts(&context, &caller, &name, body.max_restarts)
        .await
        .map(Answer)
}

/// The namespaces that the caller may see.
#[utoipa::path(get, path = "/api/namespaces", tag = "cluster",
    responses((status = 200, body = Vec<Namespace>), (status = "4XX", body = ErrorBody)))]
async fn namespaces(Call(context, caller): Call) -> Result<Answer<Vec<Namespace>>> {
    Ok(Answer(app::namespaces::visible(&context, &caller).await?))
}

/// Make a namespace that belongs to the caller. Jobs go there only when it is named.
#[utoipa::path(post, path = "/api/namespaces", tag = "cluster", request_body = NewNamespace,
    responses((status = 200, body = NewNamespace), (status = "4XX", body = ErrorBody)))]
async fn create_namespace(
    Call(context, caller): Call,
    Json(wanted): Json<NewNamespace>,
) -> Result<Answer<NewNamespace>> {
    app::namespaces::create(&context, &caller, &wanted.name).await?;
    Ok(Answer(wanted))
}

/// A namespace's quota, and how much of it is used.
#[utoipa::path(get, path = "/api/namespaces/{name}/quota", tag = "cluster", params(("name" = String, Path)),
    responses((status = 200, body = Quota), (status = "4XX", body = ErrorBody)))]
async fn quota(Call(context, caller): Call, Name(name): Name) -> Result<Answer<Quota>> {
    Ok(Answer(app::quotas::find(&context, &caller, &name).await?))
}

/// Set a namespace's quota; for administrators.
#[utoipa::path(put, path = "/api/namespaces/{name}/quota", tag = "cluster", request_body = Quota,
    params(("name" = String, Path)),
    responses((status = 200, body = Quota), (status = "4XX", body = ErrorBody)))]
async fn set_quota(
    Call(context, caller): Call,
    Name(name): Name,
    Json(quota): Json<Quota>,
) -> Result<Answer<Quota>> {
    app::quotas::set(&context, &caller, &name, &quota)
        .await
        .map(Answer)
}

/// The volumes of a namespace.
#[utoipa::path(get, path = "/api/volumes", tag = "cluster", params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = Vec<Claim>), (status = "4XX", body = ErrorBody)))]
async fn claims(Call(context, caller): Call, parameters: Parameters) -> Result<Answer<Vec<Claim>>> {
    let namespace = parameters.namespace(&caller)?;
    app::claims::list(&context, &caller, &namespace)
        .await
        .map(Answer)
}

/// Create a volume.
#[utoipa::path(post, path = "/api/volumes", tag = "cluster", request_body = ClaimRequest,
    responses((status = 200, body = Claim), (status = "4XX", body = ErrorBody)))]
async fn create_claim(
    Call(context, caller): Call,
    Json(request): Json<ClaimRequest>,
) -> Result<Answer<Claim>> {
    app::claims::create(&context, &caller, &request)
        .await
        .map(Answer)
}

/// The secrets of a namespace, without their values.
#[utoipa::path(get, path = "/api/secrets", tag = "cluster", params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = Vec<SecretInfo>), (status = "4XX", body = ErrorBody)))]
async fn secrets(
    Call(context, caller): Call,
    parameters: Parameters,
) -> Result<Answer<Vec<SecretInfo>>> {
    let namespace = parameters.namespace(&caller)?;
    app::secrets::list(&context, &caller, &namespace)
        .await
        .map(Answer)
}

/// Write a secret; its values cannot be read back.
#[utoipa::path(post, path = "/api/secrets", tag = "cluster", request_body = SecretRequest,
    responses((status = 200, body = SecretInfo), (status = "4XX", body = ErrorBody)))]
async fn put_secret(
    Call(context, caller): Call,
    Json(request): Json<SecretRequest>,
) -> Result<Answer<SecretInfo>> {
    app::secrets::put(&context, &caller, &request)
        .await
        .map(Answer)
}

/// Create or change a Kubernetes object, as `kubectl apply --server-side` does.
#[utoipa::path(post, path = "/api/apply", tag = "cluster", request_body = Object,
    params(("namespace" = Option<String>, Query)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody)))]
async fn apply_object(
    Call(context, caller): Call,
    parameters: Parameters,
    Json(object): Json<Value>,
) -> Result<Answer<Value>> {
    let namespace = parameters.text("namespace").unwrap_or("default");
    apply::apply(&context, &caller, namespace, object)
        .await
        .map(Answer)
}

/// The cluster: whose Trainer it has, and what else it offers.
#[utoipa::path(get, path = "/api/cluster", tag = "cluster",
    responses((status = 200, body = ClusterInfo), (status = "4XX", body = ErrorBody)))]
async fn cluster(Call(context, _): Call) -> Answer<ClusterInfo> {
    Answer(context.cluster().info(context.is_connected()))
}

/// The version of the server.
#[utoipa::path(get, path = "/api/version", tag = "cluster", responses((status = 200, body = Object)))]
async fn version() -> Answer<Value> {
    Answer(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

/// Numbers for Prometheus; for those who may see all jobs.
#[utoipa::path(get, path = "/metrics", tag = "cluster",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "4XX", body = ErrorBody)))]
async fn prometheus(Call(context, caller): Call) -> Result<String> {
    context
        .gate
        .demand(&caller, &Access::jobs("list", ""))
        .await?;
    Ok(metrics::render(&context))
}
