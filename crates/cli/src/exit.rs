//! How the program ends: exit codes, and errors with their causes and a hint.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use owo_colors::OwoColorize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A failure that knows its exit code and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) details: Vec<String>,
    pub(crate) hint: Option<String>,
    pub(crate) code: u8,
}

impl Failure {
    /// The user's input or job is at fault.
    pub(crate) fn theirs(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: Vec::new(),
            hint: None,
            code: 1,
        }
    }

    /// We are at fault, or there is no server.
    pub(crate) fn ours(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            ..Self::theirs(message)
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Failure {}

/// What the command line says, or why it cannot be understood; printed by clap itself.
#[derive(Debug, thiserror::Error)]
#[error("the command line cannot be understood")]
pub(crate) struct Usage(pub(crate) clap::Error);

/// Ends the program with the code of a command's result.
pub(crate) fn from(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        // Whoever read our output has seen enough; that is no failure.
        Err(error) if is_broken_pipe(&error) && is_unread() => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => usage(&error),
        Err(error) => report(&error),
    }
}

/// Prints help, or what is wrong with the command line, where each belongs.
fn usage(error: &anyhow::Error) -> ExitCode {
    let Some(Usage(error)) = error.downcast_ref::<Usage>() else {
        return ExitCode::from(2);
    };
    // Nobody reads it when it cannot be printed.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

/// Prints an error, its causes and its hint on stderr.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let failure = error.downcast_ref::<Failure>();
    anstream::eprintln!("{}: {error}", "error".red().bold());
    for detail in failure.iter().flat_map(|failure| &failure.details) {
        anstream::eprintln!("  {detail}");
    }
    for cause in error.chain().skip(1) {
        anstream::eprintln!("  caused by: {cause}");
    }
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        anstream::eprintln!("\n{}: {hint}", "hint".cyan().bold());
    }
    ExitCode::from(failure.map_or(2, |failure| failure.code))
}

/// Whether nobody reads any longer what we print.
fn is_unread() -> bool {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let mut streams = [
        PollFd::new(&stdout, PollFlags::empty()),
        PollFd::new(&stderr, PollFlags::empty()),
    ];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut streams, Some(&Timespec::default())).is_ok()
        && streams.iter().any(|one| one.revents().intersects(gone))
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
