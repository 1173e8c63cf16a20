//! The one binary, `astrago`.
//!
//! Everything that talks to a running system goes through the REST API, as any other client
//! does; `up`, `serve`, `controllers` and `node` put the other crates together and hold no logic
//! of their own.

mod args;
mod client;
mod commands;
mod exit;
mod output;
mod server;
mod tls;
mod up;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};

fn main() -> ExitCode {
    // A pod's supervisor is this same program; it must not start a runtime or threads of ours.
    let mut raw = std::env::args_os();
    if raw.nth(1).is_some_and(|argument| argument == "supervise") {
        return astrago_node::supervise(raw);
    }
    let arguments = Arguments::parse();
    exit::from(commands::dispatch(arguments))
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
