//! The one binary, `astrago`.

mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use commands::preview::{self, PreviewArgs};

/// Distributed training with only training code
#[derive(Parser)]
#[command(version)]
enum Command {
    Preview(PreviewArgs),
}

fn main() -> ExitCode {
    let Command::Preview(args) = Command::parse();
    let answer = preview::run(&args, &mut anstream::stdout().lock());
    let Err(error) = answer else {
        return ExitCode::SUCCESS;
    };
    // A reader that went away is no failure of ours; nor is there anybody to tell otherwise.
    let _ = writeln!(anstream::stderr(), "error: {error}");
    ExitCode::from(1)
}
