//! JSON lines and file descriptors over a unix socket.
//!
//! The calls block, because the supervisor has no async runtime; the agent turns a channel into a
//! plain stream once its request is sent. Paths of unix sockets are limited to 107 bytes, which a
//! data directory in a deep home folder exceeds, so the directory is opened and the socket named
//! through `/proc/self/fd`.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DESCRIPTORS_MAX, SOCKET};

/// Longest message; a request with a large environment stays far below it.
const MESSAGE_MAX: usize = 4 << 20;
/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// One end of a conversation.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    received: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    /// Connects to the supervisor of the pod that lives in `directory`.
    pub fn connect(directory: &Path) -> Result<Self> {
        Self::connect_with(directory, SocketFlags::CLOEXEC)
    }

    /// The same for a caller that cannot wait: a listener that is too busy is an error. Sending does
    /// not wait either.
    pub fn connect_at_once(directory: &Path) -> Result<Self> {
        Self::connect_with(directory, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }

    fn connect_with(directory: &Path, flags: SocketFlags) -> Result<Self> {
        let failed = |source| Error::Connect {
            path: directory.join(SOCKET),
            source,
        };
        let refused = |error: rustix::io::Errno| failed(error.into());
        let handle = open_directory(directory).map_err(failed)?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(refused)?;
        let stream = UnixStream::from(socket);
        // One that is stopped takes no callers, and its queue may be full.
        stream
            .set_write_timeout(Some(CONNECT_PATIENCE))
            .map_err(failed)?;
        let address = SocketAddrUnix::new(short_path(&handle)).map_err(refused)?;
        rustix::net::connect(&stream, &address).map_err(refused)?;
        Ok(Self::new(stream))
    }

    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            received: Vec::new(),
            descriptors: VecDeque::new(),
        }
    }

    /// Sends a message, and with its first byte the descriptors.
    pub fn send<T: Serialize>(&self, message: &T, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut line = serde_json::to_vec(message).map_err(Error::Encode)?;
        line.push(b'\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Error::TooManyDescriptors);
        }
        let sent = rustix::io::retry_on_intr(|| {
            let part = [IoSlice::new(&line)];
            rustix::net::sendmsg(&self.stream, &part, &mut control, SendFlags::NOSIGNAL)
        })
        .map_err(|error| Error::Send(error.into()))?;
        (&self.stream).write_all(&line[sent..]).map_err(Error::Send)
    }

    /// The next message with the descriptors that came with it; `None` when the other side is
    /// gone.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<OwnedFd>)>> {
        let end = loop {
            if let Some(end) = memchr::memchr(b'\n', &self.received) {
                break end;
            }
            if self.received.len() > MESSAGE_MAX {
                return Err(Error::TooLong);
            }
            if !self.fill()? {
                return Ok(None);
            }
        };
        let message = serde_json::from_slice(&self.received[..end]).map_err(Error::Decode)?;
        self.received.drain(..=end);
        Ok(Some((message, self.descriptors.drain(..).collect())))
    }

    /// Reads once; `false` at the end of the stream.
    fn fill(&mut self) -> Result<bool> {
        let mut chunk = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut part = [IoSliceMut::new(&mut chunk)];
            rustix::net::recvmsg(
                &self.stream,
                &mut part,
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })
        .map_err(|error| Error::Receive(error.into()))?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        // Whoever sends descriptors without end would fill our table of them.
        if self.descriptors.len() > DESCRIPTORS_MAX {
            return Err(Error::TooManyDescriptors);
        }
        self.received.extend_from_slice(&chunk[..received.bytes]);
        Ok(received.bytes > 0)
    }

    /// Bounds how long sending and receiving may take.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    /// The socket itself, for a caller that waits on it in its own way.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Listens at the pod's socket, replacing one that a dead supervisor left.
pub fn listen(directory: &Path) -> Result<UnixListener> {
    let failed = |source| Error::Listen {
        path: directory.join(SOCKET),
        source,
    };
    let handle = open_directory(directory).map_err(failed)?;
    match std::fs::remove_file(directory.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(short_path(&handle)).map_err(failed)?;
    // Whoever may connect may run programs in the pod: the owner alone.
    rustix::fs::chmodat(
        &handle,
        SOCKET,
        Mode::RUSR | Mode::WUSR,
        rustix::fs::AtFlags::empty(),
    )
    .map_err(|error| failed(error.into()))?;
    Ok(listener)
}

fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

fn short_path(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to connect to the pod's supervisor at {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("failed to listen at {}", path.display())]
    Listen { path: PathBuf, source: io::Error },
    #[error("failed to write a control message")]
    Encode(#[source] serde_json::Error),
    #[error("failed to understand a control message")]
    Decode(#[source] serde_json::Error),
    #[error("failed to send a control message")]
    Send(#[source] io::Error),
    #[error("failed to receive a control message")]
    Receive(#[source] io::Error),
    #[error("a control message is longer than {MESSAGE_MAX} bytes")]
    TooLong,
    #[error("a control message comes with more than {DESCRIPTORS_MAX} file descriptors")]
    TooManyDescriptors,
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;
    use crate::control::{Exec, Request, Response};

    #[test]
    fn descriptors_arrive_with_their_message() {
        let directory = tempfile::tempdir().unwrap();
        // Deeper than a socket's path may be long.
        let deep = directory.path().join("x".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let listener = listen(&deep).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let client = Channel::connect(&deep).unwrap();
        let request = Request::Exec(Exec {
            stdout: true,
            ..Exec::default()
        });
        client.send(&request, &[writer.as_fd()]).unwrap();
        drop(writer);

        let mut server = Channel::new(listener.accept().unwrap().0);
        let (got, mut descriptors) = server.receive::<Request>().unwrap().unwrap();
        assert_eq!(got, request);
        File::from(descriptors.remove(0))
            .write_all(b"through")
            .unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        server.send(&Response::Started, &[]).unwrap();
        server.send(&Response::Exited { code: 3 }, &[]).unwrap();
        drop(server);
        let mut client = client;
        assert_eq!(
            client.receive::<Response>().unwrap().unwrap().0,
            Response::Started
        );
        assert_eq!(
            client.receive::<Response>().unwrap().unwrap().0,
            Response::Exited { code: 3 }
        );
        assert!(client.receive::<Response>().unwrap().is_none());
    }

    #[test]
    fn listening_again_replaces_the_socket_of_a_dead_supervisor() {
        let directory = tempfile::tempdir().unwrap();
        drop(listen(directory.path()).unwrap());
        assert!(matches!(
            Channel::connect(directory.path()),
            Err(Error::Connect { .. })
        ));
        let _listener = listen(directory.path()).unwrap();
        Channel::connect(directory.path()).unwrap();
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_hang() {
        let (left, right) = UnixStream::pair().unwrap();
        (&left).write_all(b"{\"type\":\"dance\"}\n").unwrap();
        let mut channel = Channel::new(right);
        assert!(matches!(
            channel.receive::<Request>(),
            Err(Error::Decode(_))
        ));
    }
}
