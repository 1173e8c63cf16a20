//! The one road from a pod to a service of the host: reports of progress.
//!
//! Kubeflow's SDK and Hugging Face's trainer post progress to the address in the variable
//! [`VARIABLE`]. A pod cannot reach the host's addresses, with or without a way out; so its supervisor
//! listens for it, and hands each connection over:
//!
//! ```text
//! container ── TCP ──> 127.0.10.43:10443 in the pod's own network (the supervisor listens)
//!                           │ the accepted socket itself, over <data dir>/relay/control.sock
//!                           v
//!                         agent ── bytes, unchanged, both ways ──> Options::status_relay
//! ```
//!
//! # Contract with whoever serves the reports
//!
//! - Set [`crate::Options::status_relay`] to where the server listens on this machine: a loopback
//!   address or a unix socket. `None` switches the road off.
//! - Bytes pass unchanged, so TLS ends at the server. Its certificate must be valid for [`HOST`].
//! - A pod has the road when one of its containers has the variable [`VARIABLE`] (from `env`, as the
//!   plan writes it; the value is not looked at) and it does not use the host's network. [`HOST`] is in
//!   its hosts file, in the forms `….svc` and `….svc.cluster.local`, and [`PORT`] of its wildcard
//!   address is taken.
//! - Who calls is told by the token in the request, not by the connection: all pods look the same.
//! - It works for root and for ordinary users alike. While `astrago up` is away, connections wait in the
//!   kernel's queue; those that were under way are cut, and clients try again.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use crate::control::{self, Channel};
use crate::layout;

/// The name by which pods know the server.
pub const HOST: &str = "kubeflow-trainer-controller-manager.kubeflow-system.svc";
/// The port at which pods reach the server.
pub const PORT: u16 = 10443;
/// The variable that a container has when it is to report.
pub const VARIABLE: &str = "KUBEFLOW_TRAINER_SERVER_URL";

/// Where the supervisor listens; on the loopback interface, so that no other pod can call.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 10, 43);

/// How many connections of one pod are served at the same time.
const MOST_PER_POD: usize = 16;
/// How long a connection may last; a report takes milliseconds.
const LONGEST: Duration = Duration::from_mins(5);
/// How long a supervisor may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What comes with a pod's socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub(crate) uid: String,
}

/// Serves the pods' connections for as long as it is polled.
pub(crate) async fn serve(data_dir: PathBuf, target: Target) {
    let listener = match listen(&data_dir) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(error = %astrago_net::chain(&error), "pods cannot report progress");
            return std::future::pending().await;
        }
    };
    let served = Served::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(relay(stream, target.clone(), served.clone()));
            }
            Err(error) => {
                // Out of descriptors, most likely; some will be free again.
                tracing::warn!(%error, "a report of progress was not taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn listen(data_dir: &Path) -> control::Result<UnixListener> {
    let directory = layout::relay(data_dir);
    let failed = |source| control::Error::Listen {
        path: directory.clone(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(failed)?;
    let listener = control::listen(&directory)?;
    listener.set_nonblocking(true).map_err(failed)?;
    UnixListener::from_std(listener).map_err(failed)
}

async fn relay(supervisor: UnixStream, target: Target, served: Served) {
    let Some((caller, mut pod)) = receive(supervisor).await else {
        return;
    };
    let Some(_place) = served.enter(&caller.uid) else {
        tracing::warn!(
            uid = caller.uid,
            "a pod has too many connections for reports"
        );
        return;
    };
    let passed = tokio::time::timeout(LONGEST, pass(&mut pod, &target)).await;
    if let Ok(Err(error)) = passed {
        tracing::debug!(uid = caller.uid, %error, "a report of progress was cut");
    }
}

/// The pod's socket, from its supervisor.
async fn receive(supervisor: UnixStream) -> Option<(Caller, TcpStream)> {
    let stream = supervisor.into_std().ok()?;
    let received = tokio::task::spawn_blocking(move || {
        stream.set_nonblocking(false).ok()?;
        let mut channel = Channel::new(stream);
        channel.set_timeout(PATIENCE).ok()?;
        let (caller, descriptors) = channel.receive::<Caller>().ok()??;
        Some((caller, descriptors.into_iter().next()?))
    });
    let (caller, socket) = received.await.ok()??;
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(true).ok()?;
    Some((caller, TcpStream::from_std(socket).ok()?))
}

async fn pass(pod: &mut TcpStream, target: &Target) -> io::Result<()> {
    async fn copy(
        pod: &mut TcpStream,
        mut server: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        copy_bidirectional(pod, &mut server).await.map(drop)
    }
    match target {
        Target::Tcp(address) => copy(pod, TcpStream::connect(address).await?).await,
        Target::Unix(path) => copy(pod, UnixStream::connect(path).await?).await,
    }
}

/// How many connections each pod has.
#[derive(Clone, Debug, Default)]
struct Served(Arc<Mutex<BTreeMap<String, usize>>>);

/// One connection that counts until it is dropped.
struct Place {
    served: Served,
    uid: String,
}

impl Served {
    fn enter(&self, uid: &str) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(uid.to_owned()).or_default();
        (*count < MOST_PER_POD).then(|| {
            *count += 1;
            Place {
                served: self.clone(),
                uid: uid.to_owned(),
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.served.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pod_cannot_take_all_connections() {
        let served = Served::default();
        let places: Vec<_> = (0..MOST_PER_POD).map(|_| served.enter("a")).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(served.enter("a").is_none());
        assert!(served.enter("b").is_some());
        drop(places);
        assert!(served.enter("a").is_some());
        assert!(served.0.lock().unwrap().is_empty());
    }
}
