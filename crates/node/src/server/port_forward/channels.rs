//! One connection for each `ports` of the request, as channels of a WebSocket: twice its number for the
//! data, one more for the error. The first message of either is the port, low byte first.

use axum::extract::ws::{Message, WebSocket};
use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Target;
use crate::server::transport::{hand_over, until_farewell};
use crate::server::{Error, Result};

/// For each, a program that does not read lets something wait.
const PORTS_MAX: usize = 32;
const CHUNK_BYTES: usize = 32 << 10;
/// Pieces that wait for a slow side before the fast one waits too.
const QUEUE: usize = 2;

/// The ports that a request names.
pub(super) fn ports(pairs: &[(String, String)]) -> Result<Vec<u16>> {
    let values = pairs
        .iter()
        .filter(|(name, _)| name == "ports" || name == "port");
    let ports: Option<Vec<u16>> = values
        .flat_map(|(_, value)| value.split(','))
        .map(|port| port.parse().ok().filter(|port| *port > 0))
        .collect();
    match ports {
        Some(ports) if (1..=PORTS_MAX).contains(&ports.len()) => Ok(ports),
        _ => Err(Error::BadRequest(format!(
            "ports: 1 to {PORTS_MAX} numbers from 1 to 65535 are needed"
        ))),
    }
}

pub(super) async fn carry(socket: WebSocket, ports: Vec<u16>, target: Target) {
    let (mut sink, mut messages) = socket.split();
    let (output, mut queue) = mpsc::channel::<Bytes>(QUEUE);
    let mut connections = JoinSet::new();
    let mut inputs = Vec::new();
    for (channel, port) in (0_u8..).step_by(2).zip(ports) {
        let (input, bytes) = mpsc::channel(QUEUE);
        inputs.push(input);
        connections.spawn(connect(
            target.clone(),
            port,
            channel,
            bytes,
            output.clone(),
        ));
    }
    drop(output);
    let outwards = async {
        // It ends when every connection has.
        while let Some(message) = queue.recv().await {
            if sink.send(Message::Binary(message)).await.is_err() {
                return;
            }
        }
        let _ = sink.send(Message::Close(None)).await;
    };
    let inwards = async {
        while let Some(Ok(message)) = messages.next().await {
            match message {
                Message::Binary(mut bytes) if !bytes.is_empty() => {
                    let channel = bytes.split_to(1)[0];
                    let input = inputs.get(usize::from(channel / 2));
                    if let Some(input) = input.filter(|_| channel % 2 == 0) {
                        hand_over(input, bytes, |piece| piece).await;
                    }
                }
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    until_farewell(outwards, inwards).await;
}

async fn connect(
    target: Target,
    port: u16,
    channel: u8,
    mut input: mpsc::Receiver<Bytes>,
    output: mpsc::Sender<Bytes>,
) {
    for greeting in [channel, channel + 1] {
        let _ = output.send(frame(greeting, &port.to_le_bytes())).await;
    }
    let connection = match target.connect(port).await {
        Ok(connection) => connection,
        Err(text) => {
            let _ = output.send(frame(channel + 1, text.as_bytes())).await;
            return;
        }
    };
    let (from, mut to) = connection.into_split();
    let outwards = async {
        while let Some(bytes) = input.recv().await {
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = outwards => {}
        () = pass(from, channel, &output) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, channel: u8, output: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if output.send(frame(channel, &buffer[..read])).await.is_err() {
            return;
        }
    }
}

fn frame(channel: u8, content: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(content.len() + 1);
    bytes.put_u8(channel);
    bytes.put_slice(content);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_and_there_is_one_at_least() {
        let ask = |text: &str| ports(&[("ports".to_owned(), text.to_owned())]).ok();
        assert_eq!(ask("6006"), Some(vec![6006]));
        assert_eq!(ask("80,443"), Some(vec![80, 443]));
        for wrong in ["", "0", "http", "70000", "80,"] {
            assert_eq!(ask(wrong), None, "{wrong}");
        }
        assert!(ports(&[]).is_err());
    }
}
