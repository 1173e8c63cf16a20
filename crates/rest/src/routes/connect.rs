//! Into workers: connections, as WebSockets, and what their processes are doing.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use utoipa_axum::router::OpenApiRouter;

use crate::app::Error;
use crate::app::connect::{self, Wanted};
use crate::app::stacks;
use crate::context::Context;
use crate::error::Result;
use crate::extract::{self, OfJob, Parameters};
use crate::model::{ErrorBody, JobStacks};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(exec; port_forward; stacks)
}

/// Run a program in a worker's container. A WebSocket with Kubernetes' subprotocol `v5.channel.k8s.io`; `command` is
/// given once for each word.
#[utoipa::path(get, path = "/api/trainjobs/{name}/exec", tag = "jobs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "Which worker; the first by default", minimum = 0),
        ("command" = Vec<String>, Query, description = "The program and its arguments"),
        ("stdin" = Option<bool>, Query),
        ("tty" = Option<bool>, Query, description = "Give the program a terminal")),
    responses((status = 101, description = "The connection is the program's"), (status = "4XX", body = ErrorBody)))]
async fn exec(of: OfJob, parameters: Parameters, request: Request) -> Result<Response> {
    let terminal = parameters.flag("tty")?;
    let mut query = "stdout=true".to_owned();
    // A terminal has one stream for both.
    query.push_str(if terminal {
        "&tty=true"
    } else {
        "&stderr=true"
    });
    if parameters.flag("stdin")? {
        query.push_str("&stdin=true");
    }
    // As they were written: they are escaped already.
    let written = request.uri().query().unwrap_or_default();
    for word in written
        .split('&')
        .filter(|pair| pair.starts_with("command="))
    {
        query.push('&');
        query.push_str(word);
    }
    open(of, &parameters, request, "exec", query).await
}

/// Reach a port of a worker. A WebSocket with Kubernetes' subprotocol `v4.channel.k8s.io`.
#[utoipa::path(get, path = "/api/trainjobs/{name}/port-forward", tag = "jobs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "Which worker; the first by default", minimum = 0),
        ("port" = i64, Query, minimum = 1, maximum = 65535)),
    responses((status = 101, description = "The connection is the port's"), (status = "4XX", body = ErrorBody)))]
async fn port_forward(of: OfJob, parameters: Parameters, request: Request) -> Result<Response> {
    let port = parameters.integer("port", 1..=65_535)?;
    let port = port.ok_or_else(|| Error::Malformed("port: say which one".to_owned()))?;
    open(
        of,
        &parameters,
        request,
        "portforward",
        format!("ports={port}"),
    )
    .await
}

/// What every process of a job is doing: its state, and the stacks of those that run Python. Needs the right to run
/// programs in the job's pods.
#[utoipa::path(get, path = "/api/trainjobs/{name}/stacks", tag = "jobs",
    params(
        ("name" = String, Path),
        ("namespace" = Option<String>, Query),
        ("worker" = Option<i64>, Query, description = "Only this worker", minimum = 0)),
    responses((status = 200, body = JobStacks), (status = "4XX", body = ErrorBody)))]
async fn stacks(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<Answer<JobStacks>> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    stacks::of_job(&context, &caller, &key, worker)
        .await
        .map(Answer)
}

async fn open(
    OfJob(context, caller, key): OfJob,
    parameters: &Parameters,
    mut request: Request,
    subresource: &'static str,
    query: String,
) -> Result<Response> {
    let worker = parameters.integer("worker", 0..=i64::from(i32::MAX))?;
    let here = request.extensions_mut().remove::<OnUpgrade>();
    let token = extract::token(request.headers());
    let wanted = Wanted {
        subresource,
        worker: worker.unwrap_or_default(),
        query,
        headers: request.headers().clone(),
    };
    let answer = connect::connect(&context, &caller, token, &key, wanted, here).await?;
    Ok(answer.map(|()| Body::empty()))
}
