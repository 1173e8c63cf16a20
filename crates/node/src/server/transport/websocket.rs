//! `v5.channel.k8s.io`, `v4.channel.k8s.io` and the first, `channel.k8s.io`: every message begins with its channel's
//! number. Logs have one channel, and no number.

use std::pin::pin;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderValue;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, Stream, StreamExt};
use tokio::sync::mpsc;

use super::super::Error;
use super::{Channel, Input, Output, Wanted, bounded, hand_over, until_farewell};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Since version 5: the channel that is named by the next byte ends.
const CLOSE: u8 = 255;

/// In the order of our preference.
const PROTOCOLS: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"];
const LOGS: &str = "binary.k8s.io";

pub(super) fn negotiate(upgrade: WebSocketUpgrade) -> Result<WebSocketUpgrade, Error> {
    let upgrade = bounded(upgrade).protocols(PROTOCOLS);
    if upgrade.selected_protocol().is_none() {
        let text = format!(
            "unable to upgrade: the server speaks {}",
            PROTOCOLS.join(", ")
        );
        return Err(Error::BadRequest(text));
    }
    Ok(upgrade)
}

pub(super) async fn carry(
    socket: WebSocket,
    wanted: Wanted,
    input: mpsc::Sender<Input>,
    output: mpsc::Receiver<Output>,
) {
    let protocol = socket.protocol().map(HeaderValue::as_bytes);
    let speaks = |name: &str| protocol == Some(name.as_bytes());
    let (closes, is_first) = (speaks(PROTOCOLS[0]), speaks(PROTOCOLS[2]));
    let (sink, stream) = socket.split();
    let sending = Box::pin(send(sink, wanted, is_first, output));
    until_farewell(sending, receive(stream, closes, input)).await;
}

/// Answers with a log, and ends with it, or when the caller leaves.
pub(in crate::server) fn logs<E: Send + 'static>(
    upgrade: WebSocketUpgrade,
    text: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Response {
    bounded(upgrade)
        .protocols([LOGS])
        .on_upgrade(|socket| async move {
            let (mut sink, mut stream) = socket.split();
            let sending = async {
                let mut text = pin!(text);
                while let Some(Ok(bytes)) = text.next().await {
                    if sink.send(Message::Binary(bytes)).await.is_err() {
                        return;
                    }
                }
                let _ = sink.send(farewell()).await;
            };
            let leaving = async { while let Some(Ok(_)) = stream.next().await {} };
            until_farewell(sending, leaving).await;
        })
}

async fn receive(mut stream: SplitStream<WebSocket>, closes: bool, input: mpsc::Sender<Input>) {
    while let Some(Ok(message)) = stream.next().await {
        let Message::Binary(mut bytes) = message else {
            if matches!(message, Message::Close(_)) {
                return;
            }
            continue;
        };
        if bytes.is_empty() {
            continue;
        }
        let channel = bytes.split_to(1)[0];
        let message = match channel {
            STDIN => {
                hand_over(&input, bytes, Input::Stdin).await;
                None
            }
            RESIZE => Input::resize(&bytes),
            CLOSE if closes && bytes[..] == [STDIN] => Some(Input::StdinEnd),
            _ => None,
        };
        if let Some(message) = message {
            // A program that has ended reads nothing more; its caller need not know.
            let _ = input.send(message).await;
        }
    }
}

async fn send(
    mut sink: SplitSink<WebSocket, Message>,
    wanted: Wanted,
    is_first: bool,
    mut output: mpsc::Receiver<Output>,
) {
    // Clients take the first message, empty as it is, as a sign that the streams are up.
    let first = match wanted {
        Wanted { stdout: true, .. } => STDOUT,
        Wanted { stderr: true, .. } => STDERR,
        _ => STATUS,
    };
    if sink.send(frame(first, b"")).await.is_err() {
        return;
    }
    while let Some(message) = output.recv().await {
        let message = match message {
            Output::Data(Channel::Stdout, bytes) => frame(STDOUT, &bytes),
            Output::Data(Channel::Stderr, bytes) => frame(STDERR, &bytes),
            // The first protocol says what went wrong in plain words, and nothing if nothing did.
            Output::Status(status) if is_first => {
                if status["status"] == "Success" {
                    continue;
                }
                frame(
                    STATUS,
                    status["message"].as_str().unwrap_or_default().as_bytes(),
                )
            }
            Output::Status(status) => frame(STATUS, status.to_string().as_bytes()),
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.send(farewell()).await;
}

fn farewell() -> Message {
    Message::Close(Some(CloseFrame {
        code: close_code::NORMAL,
        reason: "".into(),
    }))
}

fn frame(channel: u8, content: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(content.len() + 1);
    bytes.put_u8(channel);
    bytes.put_slice(content);
    Message::Binary(Bytes::from(bytes))
}
