//! A caller's own connection into a worker: to a program in its container, or to one of its ports.
//!
//! The words on it are Kubernetes' own (`v5.channel.k8s.io`, and `v4.channel.k8s.io` for ports). They pass through
//! here only so that the connection ends with the right to it.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http_body_util::{BodyExt, Collected, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1 as near_end;
use hyper::server::conn::http1 as far_end;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kube::{Client, ResourceExt};

use super::lease::Lease;
use super::{Error, Result, jobs, logs};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::world::Key;

/// What of a request the pod's machine has to know. Cookies and tokens are none of its business.
const PASSED_ON: [http::HeaderName; 5] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
    SEC_WEBSOCKET_PROTOCOL,
];

/// So much is read of a refusal.
const WORDS_MAX: usize = 64 << 10;
/// So much may be under way in each direction.
const PIPE: usize = 64 << 10;

/// What a connection is for: a subresource of the pod, and what it is to be told.
pub(crate) struct Wanted {
    pub(crate) subresource: &'static str,
    pub(crate) worker: i64,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
}

/// Joins the connection behind `here` with the worker, and answers what its client is to be told.
pub(crate) async fn connect(
    context: &Arc<Context>,
    caller: &Caller,
    token: Option<String>,
    key: &Key,
    wanted: Wanted,
    here: Option<OnUpgrade>,
) -> Result<http::Response<()>> {
    let subresource = wanted.subresource;
    let access = Access {
        subresource,
        ..Access::core("create", "pods", &key.namespace)
    };
    context.gate.demand(caller, &access).await?;
    let here = here.ok_or_else(|| {
        let only = "this address is for WebSockets: the request must ask for an upgrade";
        Error::Malformed(only.to_owned())
    })?;
    let job = jobs::find(context, caller, key).await?;
    let pod = logs::pod_of(&job, key, wanted.worker)?.ok_or_else(|| {
        let (name, worker) = (&key.name, wanted.worker);
        Error::Conflict(format!("worker {worker} of {name} is not running"))
    })?;
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        let (name, worker) = (&key.name, wanted.worker);
        return Err(Error::Conflict(format!(
            "worker {worker} of {name} has ended"
        )));
    }
    let name = pod.name_any();
    // Ports are the pod's, programs run in the container that trains.
    let container = match subresource {
        "exec" => format!("&container={}", logs::container_of(pod)),
        _ => String::new(),
    };
    let mut request = http::Request::get(format!(
        "/api/v1/namespaces/{}/pods/{name}/{subresource}?{}{container}",
        key.namespace, wanted.query
    ));
    for name in PASSED_ON {
        if let Some(value) = wanted.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Empty::new()).map_err(|_| {
        Error::Malformed("the query cannot be passed on: escape what is no letter".to_owned())
    })?;
    let unreachable = |error: hyper::Error| Error::Internal {
        operation: "connect to the worker",
        source: error.into(),
    };
    let client = context.gate.client(caller);
    let mut answer = ask(client, request).await.map_err(unreachable)?;
    if !answer.status().is_informational() {
        return Err(refused(answer).await);
    }
    let lease = Lease {
        context: Arc::clone(context),
        caller: caller.clone(),
        token,
        access: Some(access),
    };
    let there = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        tokio::select! {
            () = join(here, there) => {}
            () = lease.ended() => {}
        }
    });
    Ok(answer.map(|_| ()))
}

/// Sends a request on a connection of its own to the API server, so that the connection can become the caller's. In
/// this process there is none to a server that answers in it: its two ends are made here.
async fn ask(
    client: Client,
    request: http::Request<Empty<Bytes>>,
) -> hyper::Result<http::Response<Incoming>> {
    let (near, far) = tokio::io::duplex(PIPE);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let client = client.clone();
        async move {
            let here = request.extensions().get::<OnUpgrade>().cloned();
            let request = request.map(|_| kube::client::Body::empty());
            let mut answer = client.send(request).await?;
            // A server elsewhere has answered on a connection of ours, which is now one end.
            let elsewhere = answer.extensions().get::<OnUpgrade>().is_some();
            if let Some(here) = here.filter(|_| elsewhere) {
                tokio::spawn(join(here, hyper::upgrade::on(&mut answer)));
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    let serving = far_end::Builder::new().serve_connection(TokioIo::new(far), service);
    tokio::spawn(serving.with_upgrades());
    let (mut sender, connection) = near_end::handshake(TokioIo::new(near)).await?;
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await
}

/// Copies bytes both ways until one side ends.
async fn join(here: OnUpgrade, there: OnUpgrade) {
    if let (Ok(here), Ok(there)) = tokio::join!(here, there) {
        let (mut here, mut there) = (TokioIo::new(here), TokioIo::new(there));
        // An end that was torn off is an end.
        let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
    }
}

async fn refused(answer: http::Response<Incoming>) -> Error {
    let code = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), WORDS_MAX).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let mut status: kube::core::Status = serde_json::from_slice(&body).unwrap_or_default();
    status.code = code;
    if status.message.is_empty() {
        status.message = String::from_utf8_lossy(&body).into_owned();
    }
    Error::cluster("connect to the worker", kube::Error::Api(Box::new(status)))
}
