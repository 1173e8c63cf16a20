//! What the node agent and a pod's supervisor say to each other over `control.sock`.
//!
//! Every pod directory holds the supervisor's unix socket. A client connects, sends **one**
//! [`Request`] as one line of JSON and reads [`Response`] lines until the one that ends the
//! exchange. One request per connection keeps both sides free of bookkeeping: a connection *is*
//! the exchange, and its end is the end of whatever was asked for.
//!
//! | request | file descriptors with it | answers |
//! |---|---|---|
//! | `Stop` | – | `Done` at once; the pod then ends by SIGTERM, grace, SIGKILL |
//! | `Stats` | – | `Stats` |
//! | `Exec` | see below | `Started`, and later `Exited` |
//! | `Watch` | – | `State` at once and after every change, until the supervisor ends |
//! | `Terminal` | – | `Done` with two descriptors: a terminal of the container, the near end first |
//! | `Bridges` | – | `Done` with one descriptor: the network namespace that holds the bridges |
//! | `Stacks` | – | `Stacks`, and then `Exited` with the process that has read them |
//! | `Socket` | – | `Done` with one descriptor: a TCP socket in the pod's network, not yet connected |
//!
//! Anything may be answered by `Failed` instead, which always ends the exchange.
//!
//! # Exec
//!
//! The client makes the pipes or asks for a terminal, and passes the container's ends by `SCM_RIGHTS`
//! with the first byte of the request, so that the program's bytes never pass through the
//! supervisor:
//!
//! - with `tty`: one descriptor, the terminal's slave. The supervisor makes it the controlling
//!   terminal of a new session (`setsid`, `TIOCSCTTY`) and duplicates it to 0, 1 and 2. The client
//!   keeps the master, and with it resizes the window itself.
//! - without: the descriptors for those of `stdin`, `stdout`, `stderr` that are `true`, in this
//!   order. The others become `/dev/null`. The program still gets a session of its own.
//!
//! The supervisor runs `argv` in the container's namespaces, cgroup, user, working directory and
//! environment (the container's, with `env` on top), closes its copies of the descriptors and
//! answers `Started`. When the program has ended it answers `Exited`. A program that cannot be
//! started is `Failed` with [`Failure::NotExecutable`]. If the client closes the connection first,
//! the supervisor kills the program's whole session: nobody is left to read what it writes.

mod channel;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stacks::Stacks;
use crate::state::State;

pub use channel::{Channel, Error, Result, listen};

/// The socket's file name in the pod's directory.
pub const SOCKET: &str = "control.sock";

/// The most descriptors that travel with one message.
pub const DESCRIPTORS_MAX: usize = 3;

/// What is asked of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Request {
    /// End the pod. `None` is the pod's own `terminationGracePeriodSeconds`. A second request may
    /// shorten the grace period of a stop that is under way, never lengthen it.
    #[serde(rename_all = "camelCase")]
    Stop {
        grace_seconds: Option<u64>,
        /// Why the node ends the pod, when that is the node's own wish and not that of the pod's owner.
        #[serde(default)]
        disruption: Option<String>,
    },
    /// Fail the pod so many seconds after its start, and no later than before.
    Deadline { seconds: u64 },
    /// What the pod uses right now.
    Stats,
    /// Run a program in one of the pod's running containers.
    Exec(Exec),
    /// Tell what the processes of a running container are doing.
    Stacks { container: String },
    /// Open a terminal among those that a running container sees in its `/dev/pts`.
    Terminal { container: String },
    /// Send the state now and whenever it changes.
    Watch,
    /// Hand over the network namespace of the bridges, which every supervisor keeps alive.
    Bridges,
    /// Hand over a TCP socket that belongs to the pod's network, whoever then connects it.
    Socket,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    pub container: String,
    pub argv: Vec<String>,
    /// Added to the container's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub tty: bool,
    #[serde(default)]
    pub stdin: bool,
    #[serde(default)]
    pub stdout: bool,
    #[serde(default)]
    pub stderr: bool,
}

impl Exec {
    /// How many descriptors belong to this request.
    pub fn descriptors(&self) -> usize {
        if self.tty {
            1
        } else {
            usize::from(self.stdin) + usize::from(self.stdout) + usize::from(self.stderr)
        }
    }
}

/// What a supervisor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Response {
    Done,
    Stats(Stats),
    Started,
    /// The exit code as a shell tells it: 128 + n for a program that signal n ended.
    Exited {
        code: i32,
    },
    Failed {
        reason: Failure,
        message: String,
    },
    State(Box<State>),
    Stacks(Stacks),
}

/// Why a request was refused, as far as the client must tell cases apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// The request itself makes no sense.
    Invalid,
    /// The pod has no container of that name.
    NoSuchContainer,
    /// The container is there but does not run.
    NotRunning,
    /// The program is not there, or may not be executed (126 or 127 for a shell).
    NotExecutable,
    /// The machine refused something; the message says what.
    Internal,
}

/// What a pod uses. Numbers that could not be had are `None`, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The pod as a whole, where it has a cgroup of its own.
    #[serde(default)]
    pub pod: Usage,
    #[serde(default)]
    pub containers: Vec<ContainerStats>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    pub name: String,
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU time used since the start, user and system, in nanoseconds.
    #[serde(default)]
    pub cpu_nanoseconds: Option<u64>,
    /// Memory that cannot be given back under pressure: usage less inactive file pages.
    #[serde(default)]
    pub working_set_bytes: Option<u64>,
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    #[serde(default)]
    pub processes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_as_plain_json() {
        let request = Request::Exec(Exec {
            container: "node".into(),
            argv: vec!["sh".into()],
            tty: true,
            ..Exec::default()
        });
        let text = serde_json::to_value(&request).unwrap();
        assert_eq!(text["type"], "exec");
        assert_eq!(text["container"], "node");
        assert_eq!(serde_json::from_value::<Request>(text).unwrap(), request);
        let stop: Request = serde_json::from_str(r#"{"type":"stop","graceSeconds":3}"#).unwrap();
        assert_eq!(
            stop,
            Request::Stop {
                grace_seconds: Some(3),
                disruption: None,
            }
        );
    }

    #[test]
    fn a_terminal_needs_one_descriptor_whatever_the_streams() {
        let exec = Exec {
            tty: true,
            stdin: true,
            stdout: true,
            stderr: false,
            ..Exec::default()
        };
        assert_eq!(exec.descriptors(), 1);
        assert_eq!(Exec { tty: false, ..exec }.descriptors(), 2);
    }
}
