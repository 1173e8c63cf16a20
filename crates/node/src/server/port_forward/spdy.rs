//! Many connections as streams of one SPDY connection.
//!
//! For each one the client opens two streams with the same `requestid`: `error`, on which it hears what went
//! wrong, and `data`. Tasks: one reads frames and hands data to its connection; one writes frames; each
//! connection is a task of its own, which ends both of its streams when it is over.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::server::transport::hand_over;
use crate::server::transport::spdy::frame::{self, Frame};
use crate::server::transport::spdy::headers;

/// Connections at a time; a browser opens a handful.
const CONNECTIONS_MAX: usize = 128;
const CHUNK_BYTES: usize = 32 << 10;
/// Pieces that wait for a slow side before the fast one waits too.
const QUEUE: usize = 2;

type Frames = mpsc::Sender<Bytes>;

pub(super) async fn carry(connection: impl AsyncRead + AsyncWrite + Send, target: Target) {
    let (reader, writer) = tokio::io::split(connection);
    let (frames, queue) = mpsc::channel(QUEUE);
    // Whichever half ends first, the other has nobody left; connections end with the reader's set.
    tokio::select! {
        _ = receive(reader, frames, target) => {}
        _ = send(writer, queue) => {}
    }
}

async fn send(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(frame) = queue.recv().await {
        writer.write_all(&frame).await?;
        if queue.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

/// The client's end of one connection, while it has one.
struct Stream {
    data: mpsc::Sender<Bytes>,
    cancelled: CancellationToken,
}

/// Streams that wait for their partner.
#[derive(Default)]
struct Pair {
    error: Option<u32>,
    data: Option<(u32, u16)>,
}

async fn receive(mut reader: impl AsyncRead + Unpin, frames: Frames, target: Target) -> Option<()> {
    let (mut decoder, mut encoder) = (headers::Decoder::new(), headers::Encoder::new()?);
    let mut received = BytesMut::new();
    let mut pairs: HashMap<String, Pair> = HashMap::new();
    let mut streams: HashMap<u32, Stream> = HashMap::new();
    let mut connections = JoinSet::new();
    loop {
        let Some(frame) = frame::take(&mut received).ok()? else {
            if reader.read_buf(&mut received).await.ok()? == 0 {
                return None;
            }
            continue;
        };
        while connections.try_join_next().is_some() {}
        match frame {
            Frame::Open { id, block } => {
                let headers = decoder.decode(&block)?;
                frames
                    .send(frame::reply(id, &encoder.empty()?))
                    .await
                    .ok()?;
                let header = |name| headers.get(name).map(String::as_str);
                let kind = header("streamtype")?;
                // Clients of old times number no requests: their data stream follows its error stream.
                let request = header("requestid").map_or_else(
                    || {
                        (if kind == "data" {
                            id.saturating_sub(2)
                        } else {
                            id
                        })
                        .to_string()
                    },
                    ToOwned::to_owned,
                );
                let pair = pairs.entry(request.clone()).or_default();
                match kind {
                    "error" => pair.error = Some(id),
                    "data" => pair.data = Some((id, header("port")?.parse().ok()?)),
                    _ => return None,
                }
                let Pair {
                    error: Some(error),
                    data: Some((data, port)),
                } = *pair
                else {
                    if pairs.len() > CONNECTIONS_MAX {
                        return None;
                    }
                    continue;
                };
                pairs.remove(&request);
                streams.retain(|_, stream| !stream.data.is_closed());
                if connections.len() >= CONNECTIONS_MAX {
                    let text = format!("{CONNECTIONS_MAX} connections are open already");
                    end(&frames, data, error, text).await?;
                    continue;
                }
                let (sender, queue) = mpsc::channel(QUEUE);
                let cancelled = CancellationToken::new();
                let (target, frames, token) = (target.clone(), frames.clone(), cancelled.clone());
                connections.spawn(async move {
                    let text = tokio::select! {
                        ended = connect(&target, port, data, queue, &frames) => ended.err(),
                        () = token.cancelled() => None,
                    };
                    end(&frames, data, error, text.unwrap_or_default()).await;
                });
                let stream = Stream {
                    data: sender,
                    cancelled,
                };
                streams.insert(data, stream);
            }
            // Not used, but the decoder must see every block.
            Frame::Headers { block } => drop(decoder.decode(&block)?),
            Frame::Data { id, bytes, last } => {
                if let Some(stream) = streams.get(&id) {
                    hand_over(&stream.data, bytes, |piece| piece).await;
                }
                if last {
                    streams.remove(&id);
                }
            }
            Frame::Reset { id } => {
                if let Some(stream) = streams.remove(&id) {
                    stream.cancelled.cancel();
                }
            }
            Frame::Ping(id) => frames.send(frame::ping(id)).await.ok()?,
            Frame::Other => {}
            Frame::Farewell => return None,
        }
    }
}

/// One connection, both ways, until the pod's side has ended.
async fn connect(
    target: &Target,
    port: u16,
    id: u32,
    mut queue: mpsc::Receiver<Bytes>,
    frames: &Frames,
) -> Result<(), String> {
    let mut connection = target.connect(port).await?;
    let (mut from, mut to) = connection.split();
    let outwards = async {
        while let Some(bytes) = queue.recv().await {
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
        // The client has said all; the answer may still be on its way.
        std::future::pending::<()>().await;
    };
    let inwards = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if frames.send(data(id, &buffer[..read], false)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = outwards => {}
        () = inwards => {}
    }
    Ok(())
}

/// Ends both streams of a connection, the error stream with the reason if there is one.
async fn end(frames: &Frames, id: u32, error: u32, text: String) -> Option<()> {
    frames.send(data(error, text.as_bytes(), true)).await.ok()?;
    frames.send(data(id, &[], true)).await.ok()
}

fn data(id: u32, bytes: &[u8], last: bool) -> Bytes {
    let mut frame = BytesMut::from(&frame::data(id, bytes.len(), last)[..]);
    frame.extend_from_slice(bytes);
    frame.freeze()
}
