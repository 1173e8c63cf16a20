//! The two ways in which Kubernetes' clients carry several streams over one connection.
//!
//! Both end in the same two queues: what the caller sends ([`Input`]) and what it gets
//! ([`Output`]). They are short, so a slow side slows the other one down.

pub(super) mod spdy;
pub(super) mod websocket;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Error, Result};

/// Streams that the caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) resize: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Stdout,
    Stderr,
}

#[derive(Debug, PartialEq)]
pub(super) enum Input {
    Stdin(Bytes),
    StdinEnd,
    Resize { width: u16, height: u16 },
}

#[derive(Debug, PartialEq)]
pub(super) enum Output {
    Data(Channel, Bytes),
    /// How it ended; the last message.
    Status(Value),
}

const QUEUE: usize = 16;
/// The largest message, which is held until all of it has come. Clients send pieces of 32 KiB to 1 MiB.
pub(super) const MESSAGE_MAX: usize = 2 << 20;
/// What waits in a queue is in pieces of so many bytes, for a queue counts its messages.
const PIECE: usize = 32 << 10;
/// After the last word the caller closes the connection; one that does not is not waited for.
const FAREWELL: Duration = Duration::from_secs(5);

/// A request that can become a connection with several streams.
pub(super) enum Upgrade {
    WebSocket(WebSocketUpgrade, Wanted),
    Spdy(spdy::Upgrade),
}

impl Upgrade {
    /// Looks at what the caller offers. Refuses before anything is started.
    pub(super) async fn negotiate(request: Request, wanted: Wanted) -> Result<Self> {
        let (mut parts, _) = request.into_parts();
        if names(&parts.headers, &header::UPGRADE, "websocket") {
            let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
                .await
                .map_err(|rejection| Error::BadRequest(rejection.body_text()))?;
            return websocket::negotiate(upgrade).map(|upgrade| Self::WebSocket(upgrade, wanted));
        }
        if names(&parts.headers, &header::UPGRADE, "SPDY/3.1") {
            return spdy::Upgrade::negotiate(parts, wanted).map(Self::Spdy);
        }
        let text = "unable to upgrade: the request asks for neither WebSocket nor SPDY/3.1";
        Err(Error::BadRequest(text.to_owned()))
    }

    /// Answers the request; `serve` then has the connection until it returns.
    pub(super) fn run<F, R>(self, serve: F) -> Response
    where
        F: FnOnce(mpsc::Receiver<Input>, mpsc::Sender<Output>) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let (input_sender, input) = mpsc::channel(QUEUE);
        let (output, output_receiver) = mpsc::channel(QUEUE);
        let task = serve(input, output);
        match self {
            Self::WebSocket(upgrade, wanted) => upgrade.on_upgrade(move |socket| async move {
                let carry = websocket::carry(socket, wanted, input_sender, output_receiver);
                tokio::join!(task, carry);
            }),
            Self::Spdy(upgrade) => upgrade.on_upgrade(input_sender, output_receiver, task),
        }
    }
}

/// A WebSocket whose messages have an end.
pub(super) fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    let upgrade = upgrade.max_message_size(MESSAGE_MAX);
    upgrade.max_frame_size(MESSAGE_MAX)
}

/// Puts what a caller sent into a queue. Whoever reads it may have ended, which the caller need not know.
pub(super) async fn hand_over<T>(
    queue: &mpsc::Sender<T>,
    mut bytes: Bytes,
    message: impl Fn(Bytes) -> T,
) {
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(PIECE));
        if queue.send(message(piece)).await.is_err() {
            return;
        }
    }
}

/// Sends until all is sent, or the caller is gone. Then it reads what the caller still says: a connection that is
/// closed with something unread in it is torn off, and with it goes what the caller has not read yet.
pub(super) async fn until_farewell(sending: impl Future, receiving: impl Future) {
    let mut receiving = pin!(receiving);
    tokio::select! {
        _ = &mut receiving => {}
        _ = sending => {
            let _ = tokio::time::timeout(FAREWELL, receiving).await;
        }
    }
}

/// One of a header's values, which may stand in one line or in several, is this one.
pub(super) fn names(headers: &HeaderMap, header: &header::HeaderName, value: &str) -> bool {
    values(headers, header).any(|found| found.eq_ignore_ascii_case(value))
}

fn values<'a>(
    headers: &'a HeaderMap,
    header: &header::HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let lines = headers
        .get_all(header)
        .into_iter()
        .filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// A terminal's size as clients send it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

impl Input {
    fn resize(bytes: &[u8]) -> Option<Self> {
        let size: Size = serde_json::from_slice(bytes).ok()?;
        Some(Self::Resize {
            width: size.width,
            height: size.height,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_reads_is_held_in_small_pieces() {
        let (queue, mut unread) = mpsc::channel(QUEUE);
        let number = |at: usize| u8::try_from(at / PIECE).unwrap();
        let sent: Bytes = (0..MESSAGE_MAX).map(number).collect();
        let mut handing = pin!(hand_over(&queue, sent.clone(), |piece| piece));
        assert!(futures::poll!(&mut handing).is_pending());
        let (mut held, mut came) = (0, Vec::new());
        while let Ok(piece) = unread.try_recv() {
            held += piece.len();
            came.push(piece);
        }
        assert_eq!(held, QUEUE * PIECE);
        // Whoever reads gets all of it, in its order.
        let reading = async {
            while came.iter().map(Bytes::len).sum::<usize>() < MESSAGE_MAX {
                came.extend(unread.recv().await);
            }
        };
        tokio::join!(handing, reading);
        assert!(came.concat() == sent);
    }
}
