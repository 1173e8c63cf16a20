//! Generated files and house rules.
//!
//! ```text
//! cargo xtask gen            write the generated files
//! cargo xtask gen --check    fail if one of them is not what it would be
//! cargo xtask tidy           fail if a house rule is broken
//! ```

mod generate;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["gen"] => generate::write(&repository()),
        ["gen", "--check"] => generate::check(&repository()),
        ["tidy"] => tidy::check(&repository()),
        _ => bail!("usage: cargo xtask gen [--check] | tidy"),
    }
}

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

#[expect(clippy::print_stderr, reason = "a tool of ours talks to its user")]
fn report(line: &str) {
    eprintln!("{line}");
}
