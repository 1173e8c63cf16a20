//! `/exec`: a program in a container, with its streams on the caller's connection.
//!
//! The program is started before the connection is upgraded, so that a pod or container that is
//! not there is a plain HTTP error. If the connection ends first, so does the program: the
//! supervisor kills it when our end of its socket closes.

mod session;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Path, Query, Request};
use axum::response::Response;
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use self::session::{Ended, Session};
use super::pods::Found;
use super::transport::{self, Channel, Input, Output, Wanted};
use super::{Error, Result, State};
use crate::control::Exec;

/// How long output may lag behind the program's end. What it wrote is in the pipes by then; only
/// a process that it left behind can write more.
const LAG: Duration = Duration::from_millis(100);
const CHUNK_BYTES: usize = 32 << 10;

pub(super) async fn serve(
    axum::extract::State(options): State,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Response> {
    let exec = parse(container, &pairs)?;
    let wanted = Wanted {
        stdin: exec.stdin,
        stdout: exec.stdout,
        stderr: exec.stderr,
        resize: exec.tty,
    };
    let upgrade = transport::Upgrade::negotiate(request, wanted).await?;
    let found = tokio::task::spawn_blocking({
        let (options, container) = (Arc::clone(&options), exec.container.clone());
        move || {
            let found = Found::find(&options, &namespace, &pod)?;
            found.check_container(&container)?;
            Ok::<_, Error>(found)
        }
    })
    .await
    .map_err(|error| Error::Pods(std::io::Error::other(error)))??;
    let session = Session::start(&found, exec).await?;
    Ok(upgrade.run(|input, output| async move {
        let status = match session {
            Ok(session) => run(session, input, &output).await,
            Err(message) => status::failure(&message),
        };
        let _ = output.send(Output::Status(status)).await;
    }))
}

/// Reads the request, in the words of the kubelet's API or of the pod's own.
fn parse(container: String, pairs: &[(String, String)]) -> Result<Exec> {
    let flag = |names: [&str; 2]| {
        let found = pairs
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()));
        found.is_some_and(|(_, value)| !(value == "0" || value.eq_ignore_ascii_case("false")))
    };
    let argv: Vec<String> = pairs
        .iter()
        .filter(|(name, _)| name == "command")
        .map(|(_, value)| value.clone())
        .collect();
    if argv.is_empty() {
        return Err(Error::BadRequest(
            "you must specify at least 1 command".to_owned(),
        ));
    }
    let tty = flag(["tty", "tty"]);
    let exec = Exec {
        container,
        argv,
        tty,
        stdin: flag(["stdin", "input"]),
        stdout: flag(["stdout", "output"]),
        // A terminal has only one way out.
        stderr: flag(["stderr", "error"]) && !tty,
        ..Exec::default()
    };
    if !(exec.stdin || exec.stdout || exec.stderr) {
        let text = "you must specify at least 1 of stdin, stdout, stderr";
        return Err(Error::BadRequest(text.to_owned()));
    }
    Ok(exec)
}

/// Moves bytes both ways until the program or the connection has ended; returns the status.
async fn run(
    session: Session,
    input: mpsc::Receiver<Input>,
    output: &mpsc::Sender<Output>,
) -> Value {
    let Session {
        stdin,
        stdout,
        stderr,
        terminal,
        mut exit,
    } = session;
    let moved = AtomicU64::new(0);
    let mut outputs = Box::pin(async {
        tokio::join!(
            pump(stdout, Channel::Stdout, output, &moved),
            pump(stderr, Channel::Stderr, output, &moved),
        )
    });
    let mut inputs = Box::pin(feed(stdin, terminal, input));
    let (mut is_fed, mut is_read) = (true, true);
    let ended = loop {
        tokio::select! {
            ended = exit.wait() => break ended,
            () = &mut inputs, if is_fed => is_fed = false,
            _ = &mut outputs, if is_read => is_read = false,
            // Nobody listens any longer: leaving closes the supervisor's socket.
            () = output.closed() => break Ended::Failed("the connection was closed".to_owned()),
        }
    };
    let mut before = None;
    while is_read && tokio::time::timeout(LAG, &mut outputs).await.is_err() {
        // A pause is the end, unless it is the caller that is slow.
        let now = moved.load(Ordering::Relaxed);
        if output.is_closed() || (before == Some(now) && output.capacity() > 0) {
            break;
        }
        before = Some(now);
    }
    match ended {
        Ended::Exited(code) => status::exited(code),
        Ended::Failed(message) => status::failure(&message),
    }
}

/// Passes a stream of the program on.
async fn pump(
    from: Option<pipe::Receiver>,
    channel: Channel,
    output: &mpsc::Sender<Output>,
    moved: &AtomicU64,
) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    // A terminal whose other end is closed reports an error instead of the end.
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        moved.fetch_add(1, Ordering::Relaxed);
        let bytes = Bytes::copy_from_slice(&buffer[..read]);
        if output.send(Output::Data(channel, bytes)).await.is_err() {
            return;
        }
    }
}

/// Does what the caller says, until it is gone.
async fn feed(
    mut stdin: Option<pipe::Sender>,
    terminal: Option<session::Terminal>,
    mut input: mpsc::Receiver<Input>,
) {
    while let Some(message) = input.recv().await {
        match message {
            Input::Stdin(bytes) => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(&bytes).await.is_err()
                {
                    // The program no longer reads; it may still be writing.
                    stdin = None;
                }
            }
            Input::StdinEnd => stdin = None,
            Input::Resize { width, height } => {
                if let Some(terminal) = &terminal {
                    terminal.resize(width, height);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Vec<(String, String)> {
        text.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn both_dialects_are_understood() {
        let pod = [
            ("command", "sh"),
            ("command", "-c"),
            ("stdin", "true"),
            ("tty", "false"),
        ];
        let exec = parse("main".into(), &pairs(&pod)).unwrap();
        assert_eq!(exec.argv, ["sh", "-c"]);
        assert!(exec.stdin && !exec.tty && !exec.stdout);
        let kubelet = [
            ("command", "sh"),
            ("output", "1"),
            ("error", "1"),
            ("tty", "1"),
        ];
        let exec = parse("main".into(), &pairs(&kubelet)).unwrap();
        assert!(exec.tty && exec.stdout && !exec.stderr);
    }

    #[test]
    fn a_request_for_nothing_is_refused() {
        assert!(parse("main".into(), &pairs(&[("stdout", "1")])).is_err());
        assert!(parse("main".into(), &pairs(&[("command", "sh")])).is_err());
    }
}
