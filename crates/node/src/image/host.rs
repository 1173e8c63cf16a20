//! The host image: which Python a container sees.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{Config, Root, Source};

/// A Python environment of the host, as the interpreter itself describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Python {
    /// The interpreter's own path, as it was asked for: in a virtual environment this one matters,
    /// not the file that it links to.
    pub executable: PathBuf,
    pub version: String,
    /// The environment: `sys.prefix`.
    pub prefix: PathBuf,
    /// The installation beneath it: `sys.base_prefix`. The same where there is no virtual
    /// environment.
    pub base_prefix: PathBuf,
    /// More directories that the interpreter or its links live in and that lie in neither prefix.
    #[serde(default)]
    pub also: Vec<PathBuf>,
    /// To be put first on `PATH`.
    pub bin: PathBuf,
}

impl Python {
    /// Every directory that must be visible for the interpreter to work, without those that lie in
    /// another of them.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut all = vec![self.prefix.clone(), self.base_prefix.clone()];
        all.extend(self.also.iter().cloned());
        all.sort();
        let mut kept: Vec<PathBuf> = Vec::new();
        for directory in all {
            if !kept.iter().any(|above| directory.starts_with(above)) {
                kept.push(directory);
            }
        }
        kept
    }
}

impl Root {
    /// The host image with this interpreter, or with `python3` from `PATH`; none of that name is
    /// no error, for pods need no Python. Runs the interpreter once, so call it once and keep the
    /// result.
    pub fn host(python: Option<&Path>) -> Result<Self> {
        let executable = match python {
            Some(path) => Some(search(path).ok_or_else(|| Error::NotFound(path.to_owned()))?),
            None => search(Path::new("python3")),
        };
        let python = executable.as_deref().map(describe).transpose()?;
        Ok(Self {
            source: Source::Host { python },
            lowers: Vec::new(),
            config: Config::default(),
        })
    }
}

/// Finds a program as a shell does.
fn search(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program
            .is_file()
            .then(|| std::path::absolute(program).ok())
            .flatten();
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Written for every Python 3; `-I` keeps the caller's environment and directory out of it. It imports nothing that is
/// not there anyway: that would take most of the time.
const QUESTION: &str = "\
import os, sys
answer = [sys.executable, sys.version.split()[0], sys.prefix, sys.base_prefix]
sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, answer)))";

fn describe(executable: &Path) -> Result<Python> {
    let output = Command::new(executable)
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Run {
            executable: executable.to_owned(),
            source,
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Failed {
            executable: executable.to_owned(),
            output: text.lines().last().unwrap_or_default().to_owned(),
        });
    }
    let parts: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    let [reported, version, prefix, base_prefix] = parts[..] else {
        return Err(Error::Answer {
            executable: executable.to_owned(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
        });
    };
    let version = String::from_utf8_lossy(version).into_owned();
    let [reported, prefix, base_prefix] =
        [reported, prefix, base_prefix].map(|path| PathBuf::from(OsStr::from_bytes(path)));
    // A pyenv shim is a shell script; the interpreter knows better where it is.
    let executable = if reported.is_file() {
        reported
    } else {
        executable.to_owned()
    };
    let bin = executable
        .parent()
        .unwrap_or(Path::new("/usr/bin"))
        .to_owned();
    let also = link_targets(&executable)
        .into_iter()
        .filter(|path| !path.starts_with(&prefix) && !path.starts_with(&base_prefix))
        .filter_map(|path| path.parent().map(Path::to_owned))
        .collect();
    Ok(Python {
        executable,
        version,
        prefix,
        base_prefix,
        also,
        bin,
    })
}

/// The files that a chain of symbolic links passes through.
fn link_targets(path: &Path) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    let mut at = path.to_owned();
    // As many links as the kernel follows.
    while let (Ok(target), true) = (std::fs::read_link(&at), targets.len() < 40) {
        at = at.parent().unwrap_or(Path::new("/")).join(target);
        targets.push(at.clone());
    }
    targets.extend(path.canonicalize());
    targets
}

type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no Python interpreter at {}", .0.display())]
    NotFound(PathBuf),
    #[error("failed to run {}", executable.display())]
    Run {
        executable: PathBuf,
        source: io::Error,
    },
    #[error("{} does not work as a Python interpreter: {output}", executable.display())]
    Failed { executable: PathBuf, output: String },
    #[error("{} says of itself what is not understood: {output}", executable.display())]
    Answer { executable: PathBuf, output: String },
    #[error("the node was interrupted while it looked for Python")]
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_lie_in_others_are_left_out() {
        let python = Python {
            executable: "/home/a/venv/bin/python3".into(),
            version: "3.11.4".into(),
            prefix: "/home/a/venv".into(),
            base_prefix: "/usr".into(),
            also: vec!["/usr/bin".into(), "/home/a/venv2/bin".into()],
            bin: "/home/a/venv/bin".into(),
        };
        let want: Vec<PathBuf> = ["/home/a/venv", "/home/a/venv2/bin", "/usr"]
            .map(Into::into)
            .to_vec();
        assert_eq!(python.directories(), want);
    }

    #[test]
    fn a_program_that_is_no_python_is_said_to_be_none() {
        assert!(matches!(
            Root::host(Some(Path::new("/nonexistent/python"))),
            Err(Error::NotFound(_))
        ));
        let error = Root::host(Some(Path::new("/bin/false"))).unwrap_err();
        assert!(matches!(error, Error::Failed { .. }), "{error}");
    }

    #[test]
    fn the_hosts_python_describes_itself() {
        let root = Root::host(None).unwrap();
        let Source::Host {
            python: Some(python),
        } = root.source
        else {
            println!("skipped: no python3 on PATH");
            assert!(env::var_os("CI").is_none());
            return;
        };
        assert!(python.version.starts_with("3."));
        assert!(python.executable.is_file());
        assert!(python.prefix.join("lib").is_dir());
    }
}
