//! The one binary, `astrago`.
//!
//! Everything that talks to a running system goes through the REST API, as any other client
//! does; `up`, `serve`, `controllers` and `node` put the other crates together and hold no logic
//! of their own.

mod args;
mod chosen;
mod client;
mod commands;
mod config;
mod definitions;
mod exit;
mod folder;
mod health;
mod job_file;
mod output;
mod server;
mod tls;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::args::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // A pod's supervisor is this same program; it must not start a runtime or threads of ours.
    let mut raw = std::env::args_os();
    if raw.nth(1).is_some_and(|argument| argument == "supervise") {
        return astrago_node::supervise(raw);
    }
    astrago_node::launch::keep_descriptors();
    exit::from(parse().and_then(commands::dispatch))
}

/// Reads the command line, with what files say as its defaults: a server's configuration, a job's `astrago.yaml`.
fn parse() -> anyhow::Result<Arguments> {
    let raw: Vec<OsString> = std::env::args_os().collect();
    let command = config::apply(Arguments::command(), &raw)?;
    // A variable of the environment counts as an argument, and none given here means that none is known.
    let help = (raw.len() == 1).then(|| OsString::from("--help"));
    let read = command
        .try_get_matches_from(raw.iter().cloned().chain(help))
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    // Help and versions come as errors too; they end well.
    let read = read.map_err(exit::Usage)?;
    job_file::apply(read, &raw)
}

impl Command {
    /// Whether the command is a server, which logs, and not a client, which prints.
    fn is_server(&self) -> bool {
        matches!(
            self,
            Self::Up(_) | Self::Serve(_) | Self::Controllers(_) | Self::Node(_)
        )
    }
}
