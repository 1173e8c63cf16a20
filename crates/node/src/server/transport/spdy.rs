//! SPDY/3.1, which clients before 1.31 use, and which a real API server speaks to kubelets.
//!
//! Only what they need: the client opens one stream per kind (its header `streamtype` says which),
//! both sides send data on them, and pings are answered. There is no flow control, as there is
//! none in Kubernetes' own implementation; TCP does it.

pub(in super::super) mod frame;
pub(in super::super) mod headers;

use std::future::Future;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use self::frame::Frame;
use super::super::{Error, Result};
use super::{Channel, Input, Output, Wanted, hand_over, until_farewell, values};

const PROTOCOL: &str = "v4.channel.k8s.io";
static PROTOCOL_HEADER: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Data of one frame.
const DATA_MAX: usize = 32 << 10;

pub(in super::super) struct Upgrade {
    on_upgrade: OnUpgrade,
    wanted: Wanted,
}

impl Upgrade {
    pub(super) fn negotiate(parts: Parts, wanted: Wanted) -> Result<Self> {
        let on_upgrade = negotiate(parts, PROTOCOL)?;
        Ok(Self { on_upgrade, wanted })
    }

    pub(super) fn on_upgrade(
        self,
        input: mpsc::Sender<Input>,
        output: mpsc::Receiver<Output>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Response {
        let Self { on_upgrade, wanted } = self;
        tokio::spawn(async move {
            let carry = async move {
                if let Ok(connection) = on_upgrade.await {
                    carry(TokioIo::new(connection), wanted, input, output).await;
                }
            };
            tokio::join!(task, carry);
        });
        switching(PROTOCOL)
    }
}

/// Takes the connection of a caller that speaks `protocol` over SPDY.
pub(in super::super) fn negotiate(mut parts: Parts, protocol: &str) -> Result<OnUpgrade> {
    let refuse = |text: String| Error::BadRequest(format!("unable to upgrade: {text}"));
    if !values(&parts.headers, &PROTOCOL_HEADER).any(|offered| offered == protocol) {
        return Err(refuse(format!("over SPDY the server speaks {protocol}")));
    }
    let on_upgrade = parts.extensions.remove::<OnUpgrade>();
    on_upgrade.ok_or_else(|| refuse("the connection cannot be taken over".to_owned()))
}

/// The answer after which the connection is SPDY.
pub(in super::super) fn switching(protocol: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "SPDY/3.1"),
        (PROTOCOL_HEADER.clone(), protocol),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// What the reading half tells the writing half.
enum Event {
    Opened { id: u32, kind: String },
    Ping(u32),
}

async fn carry(
    connection: impl AsyncRead + AsyncWrite + Send,
    wanted: Wanted,
    input: mpsc::Sender<Input>,
    output: mpsc::Receiver<Output>,
) {
    let (reader, writer) = tokio::io::split(connection);
    // The two halves never wait for each other in a circle: the reader may wait for a program
    // that does not read, while the writer goes on.
    let (events, event_receiver) = mpsc::channel(16);
    let reading = Box::pin(receive(reader, input, events));
    let writing = Box::pin(send(writer, wanted, output, event_receiver));
    until_farewell(writing, reading).await;
}

async fn receive(
    mut reader: impl AsyncRead + Unpin,
    input: mpsc::Sender<Input>,
    events: mpsc::Sender<Event>,
) -> Option<()> {
    let mut headers = headers::Decoder::new();
    let mut received = BytesMut::new();
    let (mut stdin, mut resize) = (None, None);
    let mut sizes = Vec::new();
    loop {
        let Some(frame) = frame::take(&mut received).ok()? else {
            if reader.read_buf(&mut received).await.ok()? == 0 {
                return None;
            }
            continue;
        };
        match frame {
            Frame::Open { id, block } => {
                let kind = headers
                    .decode(&block)?
                    .remove("streamtype")
                    .unwrap_or_default();
                match kind.as_str() {
                    "stdin" => stdin = Some(id),
                    "resize" => resize = Some(id),
                    _ => {}
                }
                let _ = events.send(Event::Opened { id, kind }).await;
            }
            // Not used, but the decoder must see every block.
            Frame::Headers { block } => drop(headers.decode(&block)?),
            Frame::Ping(id) => drop(events.send(Event::Ping(id)).await),
            Frame::Data { id, bytes, last } if Some(id) == stdin => {
                hand_over(&input, bytes, Input::Stdin).await;
                if last {
                    let _ = input.send(Input::StdinEnd).await;
                }
            }
            Frame::Data { id, bytes, .. } if Some(id) == resize => {
                sizes.extend_from_slice(&bytes);
                // One JSON object per line.
                while let Some(end) = memchr::memchr(b'\n', &sizes) {
                    let line: Vec<u8> = sizes.drain(..=end).collect();
                    if let Some(size) = Input::resize(&line) {
                        let _ = input.send(size).await;
                    }
                }
                if sizes.len() > DATA_MAX {
                    return None;
                }
            }
            Frame::Data { .. } | Frame::Reset { .. } | Frame::Other => {}
            Frame::Farewell => return None,
        }
    }
}

#[derive(Default)]
struct Streams {
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    error: Option<u32>,
    resize: Option<u32>,
}

impl Streams {
    fn of(&mut self, kind: &str) -> Option<&mut Option<u32>> {
        Some(match kind {
            "stdin" => &mut self.stdin,
            "stdout" => &mut self.stdout,
            "stderr" => &mut self.stderr,
            "error" => &mut self.error,
            "resize" => &mut self.resize,
            _ => return None,
        })
    }

    /// Nothing is sent before: a client still waits for the answer to the last stream that it
    /// opens when a short program has ended.
    fn are_complete(&self, wanted: Wanted) -> bool {
        self.error.is_some()
            && (self.stdin.is_some() || !wanted.stdin)
            && (self.stdout.is_some() || !wanted.stdout)
            && (self.stderr.is_some() || !wanted.stderr)
            && (self.resize.is_some() || !wanted.resize)
    }
}

async fn send(
    mut writer: impl AsyncWrite + Unpin,
    wanted: Wanted,
    mut output: mpsc::Receiver<Output>,
    mut events: mpsc::Receiver<Event>,
) -> Option<()> {
    let mut headers = headers::Encoder::new()?;
    let mut streams = Streams::default();
    loop {
        let is_ready = streams.are_complete(wanted);
        tokio::select! {
            event = events.recv() => match event? {
                Event::Ping(id) => writer.write_all(&frame::ping(id)).await.ok()?,
                Event::Opened { id, kind } => {
                    if let Some(stream) = streams.of(&kind) {
                        *stream = Some(id);
                    }
                    let reply = frame::reply(id, &headers.empty()?);
                    writer.write_all(&reply).await.ok()?;
                }
            },
            message = output.recv(), if is_ready => match message? {
                Output::Data(channel, bytes) => {
                    let id = match channel {
                        Channel::Stdout => streams.stdout,
                        Channel::Stderr => streams.stderr,
                    };
                    write_data(&mut writer, id?, bytes, false).await?;
                }
                Output::Status(status) => {
                    for id in [streams.stdout, streams.stderr].into_iter().flatten() {
                        write_data(&mut writer, id, Bytes::new(), true).await?;
                    }
                    // Success is told by saying nothing: clients read an empty stream as such.
                    let bytes = if status["status"] == "Success" {
                        Bytes::new()
                    } else {
                        Bytes::from(status.to_string())
                    };
                    write_data(&mut writer, streams.error?, bytes, true).await?;
                    return writer.flush().await.ok();
                }
            },
        }
        writer.flush().await.ok()?;
    }
}

async fn write_data(
    writer: &mut (impl AsyncWrite + Unpin),
    id: u32,
    mut bytes: Bytes,
    last: bool,
) -> Option<()> {
    loop {
        let piece = bytes.split_to(bytes.len().min(DATA_MAX));
        let is_last = last && bytes.is_empty();
        writer
            .write_all(&frame::data(id, piece.len(), is_last))
            .await
            .ok()?;
        writer.write_all(&piece).await.ok()?;
        if bytes.is_empty() {
            return Some(());
        }
    }
}
