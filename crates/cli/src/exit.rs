//! How the program ends: exit codes, and errors with their causes and a hint.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use owo_colors::OwoColorize;

use crate::output::{self, Unread};

/// A failure that knows its exit code and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) details: Vec<String>,
    /// What is wrong with which field of a request; the message and the details say it.
    fields: Vec<(String, String)>,
    pub(crate) hint: Option<String>,
    pub(crate) code: u8,
}

impl Failure {
    /// The user's input or job is at fault.
    pub(crate) fn theirs(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: Vec::new(),
            fields: Vec::new(),
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

    pub(crate) fn unreadable(path: &Path) -> Self {
        Self::theirs(format!("failed to read {}", path.display()))
    }

    /// Says what is wrong with which field.
    pub(crate) fn fields(mut self, fields: Vec<(String, String)>) -> Self {
        let mut lines: Vec<String> = fields
            .iter()
            .map(|(field, message)| format!("{field}: {message}"))
            .collect();
        if lines.len() == 1 {
            self.message = lines.remove(0);
        } else if !lines.is_empty() {
            "the request is invalid".clone_into(&mut self.message);
        }
        self.details = lines;
        self.fields = fields;
        self
    }

    /// Calls the fields by the names that the user knows; what then reads the same is said once.
    pub(crate) fn rename(&mut self, name: impl Fn(&str) -> Option<String>) {
        let mut fields = std::mem::take(&mut self.fields);
        if fields.is_empty() {
            return;
        }
        for (field, _) in &mut fields {
            if let Some(name) = name(field) {
                *field = name;
            }
        }
        let mut said = std::collections::HashSet::new();
        fields.retain(|field| said.insert(field.clone()));
        let before = std::mem::replace(self, Self::theirs(""));
        *self = before.fields(fields);
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
        Err(error) if error.chain().any(<dyn std::error::Error>::is::<Unread>) => ExitCode::SUCCESS,
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
    output::say(&told(error));
    let failure = error.downcast_ref::<Failure>();
    ExitCode::from(failure.map_or(2, |failure| failure.code))
}

/// An error with its causes and its hint.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let failure = error.downcast_ref::<Failure>();
    let mut text = format!("{}: {error}\n", "error".red().bold());
    for detail in failure.iter().flat_map(|failure| &failure.details) {
        let _ = writeln!(text, "  {detail}");
    }
    for cause in error.chain().skip(1) {
        let _ = writeln!(text, "  caused by: {cause}");
    }
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        let _ = writeln!(text, "\n{}: {hint}", "hint".cyan().bold());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    use super::*;
    use crate::output::printed;

    #[test]
    fn only_our_own_output_may_go_unread() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let ended = |result: anyhow::Result<()>| from(result.map(|()| ExitCode::SUCCESS));
        assert_eq!(ended(printed(Err(broken()))), ExitCode::SUCCESS);
        let deeper = printed(Err(broken())).context("failed to print");
        assert_eq!(ended(deeper), ExitCode::SUCCESS);
        for theirs in [
            Err(broken().into()),
            Err(broken()).context("the connection to the server broke"),
            printed(Err(io::ErrorKind::StorageFull.into())),
        ] {
            assert_eq!(ended(theirs), ExitCode::from(2));
        }
    }
}
