//! `/portForward`: connections from the caller's machine to ports of a pod, as `kubectl port-forward` makes
//! them, say to a TensorBoard that runs beside the training.
//!
//! Three ways to carry them, for all clients: SPDY on the connection itself (kubectl before 1.31), SPDY in
//! the messages of a WebSocket (kubectl since), and numbered channels of a WebSocket (the Python client).
//! All end at a port of the pod's loopback: the supervisor hands out a socket that lives in the pod's
//! network, so nothing else of this machine can be reached.

mod channels;
mod spdy;
mod tunnel;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};

use super::pods::Found;
use super::transport::{self, bounded, names};
use super::{Error, Result, State};
use crate::control::{self, Request as Ask, Response as Answer};

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: &str = "v4.channel.k8s.io";
/// A supervisor that is alive answers at once, however busy its pod is.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn serve(
    axum::extract::State(options): State,
    Path((namespace, pod)): Path<(String, String)>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Response> {
    let target = tokio::task::spawn_blocking(move || {
        let found = Found::find(&options, &namespace, &pod)?;
        let not_running = Error::PodNotRunning { pod };
        let (folder, _) = found.folder.ok_or(not_running)?;
        Ok::<_, Error>(Target {
            folder: folder.path().into(),
        })
    })
    .await
    .map_err(|error| Error::Pods(std::io::Error::other(error)))??;
    let (mut parts, _) = request.into_parts();
    if names(&parts.headers, &header::UPGRADE, "websocket") {
        let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
            .await
            .map_err(|rejection| Error::BadRequest(rejection.body_text()))?;
        let upgrade = bounded(upgrade).protocols([TUNNELLED, CHANNELS]);
        let selected = upgrade.selected_protocol();
        return match selected.and_then(|protocol| protocol.to_str().ok()) {
            Some(TUNNELLED) => Ok(upgrade.on_upgrade(|socket| tunnel::carry(socket, target))),
            Some(_) => {
                let ports = channels::ports(&pairs)?;
                Ok(upgrade.on_upgrade(|socket| channels::carry(socket, ports, target)))
            }
            None => Err(Error::BadRequest(format!(
                "unable to upgrade: the server speaks {TUNNELLED}, {CHANNELS}"
            ))),
        };
    }
    let on_upgrade = transport::spdy::negotiate(parts, PROTOCOL)?;
    tokio::spawn(async move {
        if let Ok(connection) = on_upgrade.await {
            spdy::carry(TokioIo::new(connection), target).await;
        }
    });
    Ok(transport::spdy::switching(PROTOCOL))
}

/// A pod whose ports are wanted.
#[derive(Clone)]
struct Target {
    folder: Arc<std::path::Path>,
}

impl Target {
    /// Connects to a port of the pod. The error is for the user who asked.
    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let folder: PathBuf = self.folder.to_path_buf();
        let socket = tokio::task::spawn_blocking(move || socket(&folder))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|_| "the pod is not running any more".to_owned())?
            .ok_or_else(|| "the pod's supervisor did not answer".to_owned())?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpSocket::from_std_stream(socket).connect(address).await;
        let stream = stream.map_err(|error| {
            format!(
                "failed to connect to port {port} of the pod: {error}; does something listen there?"
            )
        })?;
        // Of no use to a caller to hear about.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// A socket in the pod's network.
fn socket(folder: &std::path::Path) -> control::Result<Option<std::net::TcpStream>> {
    let mut channel = control::Channel::connect(folder)?;
    // Without it a supervisor that is stopped would hold a thread of ours.
    let _ = channel.set_timeout(PATIENCE);
    channel.send(&Ask::Socket, &[])?;
    let answer = channel.receive::<Answer>()?;
    let socket = answer.and_then(|(_, descriptors)| descriptors.into_iter().next());
    Ok(socket.map(Into::into))
}
