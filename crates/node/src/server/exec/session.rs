//! A program that a supervisor started for us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use rustix::termios::Winsize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::super::pods::Found;
use super::super::{Error, Result};
use crate::control::{self, Exec, Failure, Request, Response};
use crate::sandbox::terminal;

/// A supervisor that is alive answers at once, however busy its pod is.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Session {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) terminal: Option<Terminal>,
    pub(super) exit: Exit,
}

pub(super) enum Ended {
    Exited(i32),
    Failed(String),
}

impl Session {
    /// Starts the program. The inner error is one that happened in the container, which clients
    /// expect to hear on the upgraded connection.
    pub(super) async fn start(found: &Found, mut exec: Exec) -> Result<Result<Self, String>> {
        let pod = found.name.clone();
        let container = exec.container.clone();
        let not_running = || Error::NotRunning {
            pod: pod.clone(),
            container: container.clone(),
        };
        let (folder, _) = found.folder.as_ref().ok_or_else(not_running)?;
        let folder = folder.path().to_owned();
        let (sent, ours) = tokio::task::spawn_blocking(move || {
            if exec.tty {
                exec.env
                    .entry("TERM".to_owned())
                    .or_insert_with(|| "xterm".to_owned());
            }
            let (ours, theirs) = streams(&folder, &exec).map_err(Error::Streams)?;
            let channel = control::Channel::connect(&folder)?;
            channel.set_timeout(PATIENCE).map_err(Error::Streams)?;
            let borrowed: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
            channel.send(&Request::Exec(exec), &borrowed)?;
            Ok::<_, Error>((channel.into_stream(), ours))
        })
        .await
        .map_err(|error| Error::Streams(io::Error::other(error)))?
        .map_err(|error| match error {
            // Nobody listens at the socket of a pod that has ended.
            Error::Control(control::Error::Connect { .. }) => not_running(),
            error => error,
        })?;
        let mut exit = Exit::new(sent).map_err(Error::Streams)?;
        let answer = tokio::time::timeout(PATIENCE, exit.next()).await;
        match answer.ok().flatten() {
            Some(Response::Started) => Ok(Ok(ours.into_session(exit).map_err(Error::Streams)?)),
            Some(Response::Failed { reason, message }) => match reason {
                Failure::NoSuchContainer => Err(Error::NoSuchContainer { pod, container }),
                Failure::NotRunning => Err(not_running()),
                Failure::Invalid => Err(Error::BadRequest(message)),
                Failure::NotExecutable | Failure::Internal => Ok(Err(format!(
                    "error executing command in container: {message}"
                ))),
            },
            _ => Ok(Err("the pod's supervisor did not answer".to_owned())),
        }
    }
}

/// Our ends of the program's streams.
struct Ours {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl Ours {
    fn into_session(self, exit: Exit) -> io::Result<Session> {
        if let Some(master) = self.terminal {
            let flags = rustix::fs::fcntl_getfl(&master)?;
            rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
            // A terminal is not a pipe, but is waited for, read and written like one.
            let stdin = pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?;
            let stdout = pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?;
            let (stdin, stdout) = (Some(stdin), Some(stdout));
            return Ok(Session {
                stdin,
                stdout,
                stderr: None,
                terminal: Some(Terminal(master)),
                exit,
            });
        }
        Ok(Session {
            stdin: self.stdin.map(pipe::Sender::from_owned_fd).transpose()?,
            stdout: self.stdout.map(pipe::Receiver::from_owned_fd).transpose()?,
            stderr: self.stderr.map(pipe::Receiver::from_owned_fd).transpose()?,
            terminal: None,
            exit,
        })
    }
}

/// Makes the program's streams: our ends, and those to pass on.
fn streams(folder: &Path, exec: &Exec) -> io::Result<(Ours, Vec<OwnedFd>)> {
    let mut ours = Ours {
        stdin: None,
        stdout: None,
        stderr: None,
        terminal: None,
    };
    let mut theirs = Vec::new();
    if exec.tty {
        let (master, slave) = open_terminal(folder, &exec.container)?;
        ours.terminal = Some(master);
        theirs.push(slave);
        return Ok((ours, theirs));
    }
    if exec.stdin {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        ours.stdin = Some(writer);
        theirs.push(reader);
    }
    for (wanted, end) in [
        (exec.stdout, &mut ours.stdout),
        (exec.stderr, &mut ours.stderr),
    ] {
        if wanted {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            *end = Some(reader);
            theirs.push(writer);
        }
    }
    Ok((ours, theirs))
}

/// Opens a terminal of the container, or one of this machine if its supervisor has none to give: it may be
/// of an earlier version.
fn open_terminal(folder: &Path, container: &str) -> io::Result<(OwnedFd, OwnedFd)> {
    ask_for_terminal(folder, container).map_or_else(terminal::open, Ok)
}

fn ask_for_terminal(folder: &Path, container: &str) -> Option<(OwnedFd, OwnedFd)> {
    let mut channel = control::Channel::connect(folder).ok()?;
    channel.set_timeout(PATIENCE).ok()?;
    let container = container.to_owned();
    channel.send(&Request::Terminal { container }, &[]).ok()?;
    let (_, descriptors) = channel.receive::<Response>().ok()??;
    let [near, far] = descriptors.try_into().ok()?;
    Some((near, far))
}

/// The near end of a terminal.
pub(super) struct Terminal(OwnedFd);

impl Terminal {
    pub(super) fn resize(&self, width: u16, height: u16) {
        let size = Winsize {
            ws_row: height,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // A program that has ended needs no size.
        let _ = rustix::termios::tcsetwinsize(&self.0, size);
    }
}

/// The supervisor's answers. Dropping it ends the program.
pub(super) struct Exit {
    lines: tokio::io::Lines<BufReader<UnixStream>>,
}

impl Exit {
    fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            lines: BufReader::new(UnixStream::from_std(stream)?).lines(),
        })
    }

    async fn next(&mut self) -> Option<Response> {
        let line = self.lines.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Waits for the program's end; may be called again if it was interrupted.
    pub(super) async fn wait(&mut self) -> Ended {
        loop {
            match self.next().await {
                Some(Response::Exited { code }) => return Ended::Exited(code),
                Some(Response::Failed { message, .. }) => return Ended::Failed(message),
                Some(_) => {}
                None => return Ended::Failed("the pod has ended".to_owned()),
            }
        }
    }
}
