//! A WebSocket whose binary messages are the bytes of a SPDY connection.

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Target, spdy};
use crate::server::transport::until_farewell;

const BUFFER_BYTES: usize = 64 << 10;

pub(super) async fn carry(socket: WebSocket, target: Target) {
    let (mut sink, mut messages) = socket.split();
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let (mut from, mut to) = tokio::io::split(near);
    let inwards = async {
        while let Some(Ok(message)) = messages.next().await {
            match message {
                // What comes after the end is not for anybody.
                Message::Binary(bytes) => drop(to.write_all(&bytes).await),
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let outwards = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let message = Message::Binary(Bytes::copy_from_slice(&buffer[..read]));
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.send(Message::Close(None)).await;
    };
    let carrying = async { tokio::join!(spdy::carry(far, target), outwards) };
    until_farewell(carrying, inwards).await;
}
