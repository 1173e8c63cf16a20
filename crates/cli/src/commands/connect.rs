//! `astrago shell`, `exec`, `cp` and `port-forward`: into a worker of a job.
//!
//! The words on the connection are Kubernetes' own: every message begins with the number of its channel.

mod copy;

use std::io::{IsTerminal, Read, stderr, stdin, stdout};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::SplitStream;
use futures::{SinkExt, StreamExt};
use reqwest::Upgraded;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::bytes::Bytes;

use super::job::path;
use crate::args::{Connection, Exec, PortForward, Shell};
use crate::client::Client;
use crate::exit::Failure;
use crate::output;

pub(crate) use copy::copy;

type Socket = WebSocketStream<Upgraded>;

const INPUT: u8 = 0;
const OUTPUT: u8 = 1;
const ERRORS: u8 = 2;
const STATUS: u8 = 3;
const SIZE: u8 = 4;
/// Says that a channel has come to its end.
const CLOSE: u8 = 255;

/// How a connection is kept, and when it is given up.
#[derive(Clone, Copy)]
struct Pace {
    /// Proxies take a connection that says nothing for longer for dead.
    keep_alive: Duration,
    /// And so do we, when several questions whether anybody is there were not answered.
    silence: Duration,
}

const PACE: Pace = Pace {
    keep_alive: Duration::from_secs(20),
    silence: Duration::from_mins(1),
};
/// A program that does not read what it is sent keeps our questions from being read, too; with less than this on its way
/// it does not.
const UNREAD: usize = 16 << 10;
const CHUNK: usize = 32 << 10;

/// The best shell that the container has, with the terminal that we have.
const BEST_SHELL: &str = "export TERM=\"$1\"; command -v bash >/dev/null && exec bash; exec sh";

pub(crate) async fn shell(connection: &Connection, wanted: &Shell) -> Result<ExitCode> {
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned());
    let command = ["sh", "-c", BEST_SHELL, "sh", &terminal].map(str::to_owned);
    let has_terminal = stdin().is_terminal() && stdout().is_terminal();
    run(
        connection,
        &wanted.name,
        wanted.worker,
        &command,
        has_terminal,
    )
    .await
}

pub(crate) async fn exec(connection: &Connection, wanted: &Exec) -> Result<ExitCode> {
    if wanted.tty && !stdin().is_terminal() {
        let failure = Failure::theirs("--tty needs a terminal, and standard input is not one");
        return Err(failure.hint("leave --tty out").into());
    }
    let Exec { name, worker, .. } = wanted;
    run(connection, name, *worker, &wanted.command, wanted.tty).await
}

async fn run(
    connection: &Connection,
    job: &str,
    worker: u32,
    command: &[String],
    terminal: bool,
) -> Result<ExitCode> {
    let socket = start(connection, job, worker, command, terminal).await?;
    let raw = terminal.then(Raw::enter).transpose()?;
    let print = |data: &[u8]| output::pass(stdout(), data);
    let status = converse(socket, terminal, PACE, typed(), print).await;
    // Before anything is printed: what is printed needs the terminal as it was.
    drop(raw);
    verdict(&status?)
}

/// Starts a program in a worker's container.
async fn start(
    connection: &Connection,
    job: &str,
    worker: u32,
    command: &[String],
    terminal: bool,
) -> Result<Socket> {
    let client = Client::connect(connection).await?;
    let mut query = vec![
        ("namespace", client.namespace().await?),
        ("worker", worker.to_string()),
        ("stdin", "true".to_owned()),
        ("tty", terminal.to_string()),
    ];
    query.extend(command.iter().map(|word| ("command", word.clone())));
    let address = path(job, "/exec");
    client
        .connect_to(&address, &query, "v5.channel.k8s.io")
        .await
}

/// Passes everything on until the program has ended. Returns what is said about its end.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    terminal: bool,
    pace: Pace,
    mut input: mpsc::Receiver<Vec<u8>>,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Value> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut keep_alive = tokio::time::interval(pace.keep_alive);
    let (mut sink, messages) = socket.split();
    let mut heard = Heard::new(messages, pace);
    let sent = Arc::clone(&heard.sent);
    // Neither waits for the other: a program may write before it has read everything.
    let speaking = async {
        let mut open = true;
        let mut message = terminal.then(size);
        loop {
            // What is wrong is heard from there, after what the program wrote.
            if let Some(message) = message
                && sink.send(message).await.is_err()
            {
                return std::future::pending().await;
            }
            message = Some(tokio::select! {
                data = input.recv(), if open => {
                    open = data.is_some();
                    sent.fetch_add(data.as_ref().map_or(0, Vec::len), Ordering::Relaxed);
                    data.map_or_else(|| say(CLOSE, &[INPUT]), |data| say(INPUT, &data))
                }
                _ = resized.recv(), if terminal => size(),
                _ = keep_alive.tick() => Message::Ping(Bytes::new()),
            });
        }
    };
    let listening = async {
        while let Some(message) = heard.next().await? {
            match message {
                Message::Binary(message) => match message.split_first() {
                    Some((&OUTPUT, data)) => take(data)?,
                    Some((&ERRORS, data)) => output::pass(stderr(), data)?,
                    Some((&STATUS, data)) => return Ok(serde_json::from_slice(data)?),
                    _ => {}
                },
                Message::Close(_) => break,
                _ => {}
            }
        }
        let failure = Failure::ours("the connection ended before the program did");
        let hint = "the worker has ended, or your right to enter it was withdrawn";
        Err(failure.hint(hint).into())
    };
    tokio::select! {
        status = listening => status,
        never = speaking => never,
    }
}

/// What comes from the other end, as long as it is there. A server that stands still keeps its connections, and whoever
/// has a terminal in raw mode could not even leave.
struct Heard<S> {
    messages: SplitStream<WebSocketStream<S>>,
    silence: Duration,
    /// Bytes that were sent since anything was heard.
    sent: Arc<AtomicUsize>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Heard<S> {
    fn new(messages: SplitStream<WebSocketStream<S>>, pace: Pace) -> Self {
        Self {
            messages,
            silence: pace.silence,
            sent: Arc::default(),
        }
    }

    async fn next(&mut self) -> Result<Option<Message>, Failure> {
        loop {
            match timeout(self.silence, self.messages.next()).await {
                Ok(message) => {
                    self.sent.store(0, Ordering::Relaxed);
                    let broke = |error| format!("the connection to the worker broke: {error}");
                    return message
                        .transpose()
                        .map_err(|error| Failure::ours(broke(error)));
                }
                Err(_) if self.sent.load(Ordering::Relaxed) >= UNREAD => {}
                Err(_) => {
                    let seconds = self.silence.as_secs();
                    let message = format!("the other end has not answered for {seconds} s");
                    let hint = "the server or the network may hang; what runs there goes on";
                    return Err(Failure::ours(message).hint(hint));
                }
            }
        }
    }
}

/// What comes in on standard input, piece by piece. It is read by a thread that the end of the program leaves behind.
fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = stdin().read(&mut buffer) {
            if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(channel: u8, data: &[u8]) -> Message {
    let mut message = Vec::with_capacity(data.len() + 1);
    message.push(channel);
    message.extend_from_slice(data);
    Message::Binary(message.into())
}

fn size() -> Message {
    let (width, height) = tcgetwinsize(stdout()).map_or((80, 24), |it| (it.ws_col, it.ws_row));
    let size = json!({ "Width": width, "Height": height });
    say(SIZE, size.to_string().as_bytes())
}

/// Ends as the program did.
fn verdict(status: &Value) -> Result<ExitCode> {
    if status["status"] == "Success" {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status["details"]["causes"].as_array();
    let code = causes.into_iter().flatten().find_map(|cause| {
        let code = (cause["reason"] == "ExitCode").then(|| cause["message"].as_str());
        code.flatten()?.parse::<u8>().ok()
    });
    code.map(ExitCode::from).ok_or_else(|| {
        let message = status["message"].as_str();
        let message = message.unwrap_or("the program could not be started");
        // Kubernetes says so of every program that it cannot start.
        let shorter = message.strip_prefix("Internal error occurred: ");
        Failure::theirs(shorter.unwrap_or(message)).into()
    })
}

/// Our terminal, which passes on every key while this lives.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Self> {
        let before = tcgetattr(stdin()).context("failed to read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("failed to set up the terminal")?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

pub(crate) async fn port_forward(connection: &Connection, wanted: &PortForward) -> Result<()> {
    let client = Client::connect(connection).await?;
    let namespace = client.namespace().await?;
    let mut listening = Vec::new();
    for (here, there) in &wanted.ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *here)).await;
        let listener = listener.with_context(|| {
            Failure::theirs(format!("failed to listen on port {here}"))
                .hint(format!("choose another, such as 0:{there}"))
        })?;
        let road = Road {
            client: client.clone(),
            address: path(&wanted.name, "/port-forward"),
            query: vec![
                ("namespace", namespace.clone()),
                ("worker", wanted.worker.to_string()),
                ("port", there.to_string()),
            ],
        };
        // Whether there is such a worker, and the right to reach it, is known before anybody knocks.
        road.open().await?;
        let here = listener.local_addr()?;
        output::write(&format!(
            "forwarding {here} to port {there} of worker {}\n",
            wanted.worker
        ))?;
        listening.push(tokio::spawn(road.serve(listener)));
    }
    tokio::signal::ctrl_c().await?;
    Ok(())
}

/// The way to one port of a worker.
#[derive(Clone)]
struct Road {
    client: Client,
    address: String,
    query: Vec<(&'static str, String)>,
}

impl Road {
    async fn open(&self) -> Result<Socket> {
        self.client
            .connect_to(&self.address, &self.query, "v4.channel.k8s.io")
            .await
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let road = self.clone();
            tokio::spawn(async move {
                let carried = async { carry(road.open().await?, stream).await };
                if let Err(error) = carried.await {
                    output::say(&format!("a connection failed: {error:#}\n"));
                }
            });
        }
    }
}

/// Carries one connection: channel 0 has its bytes, channel 1 what goes wrong; the first message of each names the port.
async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    mut stream: TcpStream,
) -> Result<()> {
    let (mut reader, mut writer) = stream.split();
    let (mut sink, messages) = socket.split();
    let mut heard = Heard::new(messages, PACE);
    let sent = Arc::clone(&heard.sent);
    let mut keep_alive = tokio::time::interval(PACE.keep_alive);
    let speaking = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let message = tokio::select! {
                read = reader.read(&mut buffer) => match read? {
                    0 => return Ok(sink.close().await?),
                    read => {
                        sent.fetch_add(read, Ordering::Relaxed);
                        say(0, &buffer[..read])
                    }
                },
                _ = keep_alive.tick() => Message::Ping(Bytes::new()),
            };
            if sink.send(message).await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    let listening = async {
        let mut named = [false; 2];
        while let Some(message) = heard.next().await? {
            match message {
                Message::Binary(message) => match message.split_first() {
                    Some((&channel @ 0..=1, _)) if !named[usize::from(channel)] => {
                        named[usize::from(channel)] = true;
                    }
                    Some((0, data)) => writer.write_all(data).await?,
                    Some((1, words)) => {
                        let words = String::from_utf8_lossy(words).into_owned();
                        return Err(Failure::theirs(words).into());
                    }
                    _ => {}
                },
                Message::Close(_) => break,
                _ => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = listening => ended,
        ended = speaking => ended,
    }
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    async fn ends() -> [WebSocketStream<tokio::io::DuplexStream>; 2] {
        let (near, far) = tokio::io::duplex(1 << 20);
        let near = WebSocketStream::from_raw_socket(near, Role::Client, None);
        let far = WebSocketStream::from_raw_socket(far, Role::Server, None);
        [near.await, far.await]
    }

    #[tokio::test]
    async fn a_server_that_stands_still_is_left() {
        let [near, _far] = ends().await;
        let pace = Pace {
            silence: MOMENT,
            ..PACE
        };
        let (_keys, input) = mpsc::channel(1);
        let still = converse(near, false, pace, input, |_| Ok(())).await;
        let error = still.unwrap_err();
        assert_eq!(error.to_string(), "the other end has not answered for 0 s");
    }

    #[tokio::test]
    async fn a_quiet_program_is_asked_for_and_stays() {
        let [near, mut far] = ends().await;
        let pace = Pace {
            keep_alive: MOMENT,
            ..PACE
        };
        let quiet = async {
            for _ in 0..5 {
                let asked = far.next().await.unwrap().unwrap();
                assert!(matches!(asked, Message::Ping(_)), "{asked:?}");
            }
            let status = say(STATUS, br#"{"status":"Success"}"#);
            far.send(status).await.unwrap();
        };
        let (_keys, input) = mpsc::channel(1);
        let talk = converse(near, false, pace, input, |_| Ok(()));
        let (status, ()) = tokio::join!(talk, quiet);
        assert_eq!(status.unwrap()["status"], "Success");
    }

    /// What asks whether anybody is there waits behind what the program does not read.
    #[tokio::test]
    async fn a_program_that_does_not_read_yet_is_waited_for() {
        let [near, mut far] = ends().await;
        let pace = Pace {
            silence: MOMENT,
            ..PACE
        };
        let (keys, input) = mpsc::channel(1);
        keys.send(vec![0; CHUNK]).await.unwrap();
        let busy = async {
            let later = timeout(MOMENT * 10, std::future::pending::<()>());
            assert!(later.await.is_err());
            let status = say(STATUS, br#"{"status":"Success"}"#);
            far.send(status).await.unwrap();
        };
        let talk = converse(near, false, pace, input, |_| Ok(()));
        let (status, ()) = tokio::join!(talk, busy);
        assert_eq!(status.unwrap()["status"], "Success");
    }
}
