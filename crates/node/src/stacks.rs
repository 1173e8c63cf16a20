//! What the processes of a container are doing: their state as the kernel tells it, and the stacks of
//! those that run Python.
//!
//! They are not stopped for it and nothing is put into them. All that is read may be forged: reading is
//! bounded in bytes, depth and time, and is the work of a process that ends with it (see
//! `supervisor::requests`). It stands in the pod's PID namespace, so it sees no process of another pod.

mod elf;
mod kernel;
mod lines;
mod memory;
mod python;

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use self::kernel::Process as Entry;
use self::memory::{Memory, Of};

/// What is told of a container.
const PROCESSES: usize = 64;
const THREADS: usize = 64;
const FRAMES: usize = 96;
/// Characters in all names together.
const TEXT: usize = 1 << 20;
/// What a frame counts besides its names.
const FRAME: usize = 64;
/// How long reading goes on.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the processes of a container are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    pub processes: Vec<Process>,
    /// There was more than is told.
    #[serde(default)]
    pub truncated: bool,
}

/// A process, with ids as the container has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub command: String,
    /// The letter that `ps` shows: `R`, `S`, `D`, `T` …
    pub state: String,
    pub cpu_milliseconds: u64,
    /// Which rank it was told to be (`RANK`, or MPI's name for it).
    #[serde(default)]
    pub rank: Option<u32>,
    /// The kernel's call that its first thread is in, and the function it waits in.
    #[serde(default)]
    pub system_call: Option<String>,
    #[serde(default)]
    pub wait_channel: Option<String>,
    /// The version of Python that it runs.
    #[serde(default)]
    pub python: Option<String>,
    /// Threads that run Python, the first one of the process first.
    #[serde(default)]
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Pythons before 3.11 do not tell.
    #[serde(default)]
    pub id: Option<u32>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub state: Option<String>,
    /// The function that runs first, its callers below.
    pub frames: Vec<Frame>,
    #[serde(default)]
    pub truncated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub file: String,
    #[serde(default)]
    pub line: Option<u32>,
    pub function: String,
}

/// Looks at the processes in the PID namespace of `first`.
pub(crate) fn of(first: Pid) -> Stacks {
    let deadline = Instant::now() + PATIENCE;
    let (entries, mut truncated) = kernel::processes(first, PROCESSES);
    let mut left = TEXT;
    let mut processes = Vec::new();
    for entry in entries {
        if left == 0 || Instant::now() >= deadline {
            truncated = true;
            break;
        }
        // One that has just ended is none.
        let Some(mut process) = entry.look() else {
            continue;
        };
        if let Some(memory) = Memory::of(&entry.folder, deadline) {
            read(&entry, &memory, &mut process, &mut left, &mut truncated);
        }
        processes.push(process);
    }
    Stacks {
        processes,
        truncated,
    }
}

fn read(
    entry: &Entry,
    memory: &Memory<Of>,
    process: &mut Process,
    left: &mut usize,
    truncated: &mut bool,
) {
    let Some(python) = python::find(memory, &entry.modules()) else {
        return;
    };
    process.python = Some(python.version());
    let (threads, more) = python.threads(memory, process.pid, THREADS);
    *truncated |= more;
    let mut told = entry.threads();
    for thread in threads {
        let size = |frame: &Frame| frame.file.len() + frame.function.len() + FRAME;
        let size: usize = thread.frames.iter().map(size).sum();
        let Some(rest) = left.checked_sub(size) else {
            (*left, *truncated) = (0, true);
            return;
        };
        *left = rest;
        let known = thread.id.and_then(|id| told.remove(&id));
        let (name, state) = known.unzip();
        process.threads.push(Thread {
            name,
            state,
            ..thread
        });
    }
}

/// Text of a stranger as it may be shown: no control characters, and not too long.
fn shown(text: &str, most: usize) -> String {
    let clean = text.chars().map(|letter| match letter {
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    });
    let mut shown: String = clean.take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::*;

    const PROGRAM: &str = "\
import sys, threading, time

class Träger:
    def go(self):

        print('ready', flush=True)
        sys.stdin.read()

def numbers():
    for number in range(3):
        if number == 2:
            Träger().go()
        yield number

threading.Thread(target=threading.Event().wait, daemon=True).start()
sum(number
    for number in
    numbers())
";

    /// The Pythons of this machine: those that can be called by name, and what pyenv keeps.
    fn pythons() -> Vec<PathBuf> {
        let named = (9..=14).map(|minor| PathBuf::from(format!("python3.{minor}")));
        let home = std::env::home_dir().unwrap_or_default();
        let kept = std::fs::read_dir(home.join(".pyenv/versions"));
        let kept = kept.into_iter().flatten().flatten();
        let kept = kept.map(|entry| entry.path().join("bin/python3"));
        let works = |python: &PathBuf| {
            let new = "import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 15))";
            let output = Command::new(python).args(["-c", new]).output();
            output.is_ok_and(|output| output.status.success())
        };
        named.chain(kept).filter(works).collect()
    }

    #[test]
    fn the_stacks_of_every_python_of_this_machine_are_read() {
        for python in pythons() {
            let mut child = Command::new(&python)
                .args(["-c", PROGRAM])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            let folder = PathBuf::from(format!("/proc/{}", child.id()));
            let deadline = Instant::now() + Duration::from_mins(1);
            let entry = Entry::at(folder).unwrap();
            let (mut told, mut truncated) = (Process::default(), false);
            // It says so shortly before it waits.
            while told.system_call.as_deref() != Some("read") {
                assert!(Instant::now() < deadline, "{told:#?}");
                told = entry.look().unwrap();
                let memory = Memory::of(&entry.folder, deadline).unwrap();
                read(
                    &entry,
                    &memory,
                    &mut told,
                    &mut TEXT.clone(),
                    &mut truncated,
                );
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let frames = told.threads[0].frames.iter();
            let frames: Vec<_> = frames
                .map(|frame| {
                    let name = frame.function.rsplit('.').next().unwrap();
                    (name, frame.line.unwrap())
                })
                .collect();
            let want = [
                ("go", 7),
                ("numbers", 12),
                ("<genexpr>", 16),
                ("<module>", 16),
            ];
            let version = told.python.as_deref().unwrap();
            // The line of a call over several lines is that of its beginning, or of the part that runs.
            let near = frames
                .iter()
                .zip(&want)
                .all(|(got, want)| got.0 == want.0 && (want.1..want.1 + 3).contains(&got.1));
            assert!(near && frames.len() == want.len(), "{version}: {frames:?}");
            assert_eq!(frames[..2], want[..2], "{version}");
            assert_eq!(told.threads.len(), 2, "{version}");
            assert!(
                told.threads[1]
                    .frames
                    .iter()
                    .any(|it| it.file.ends_with("threading.py"))
            );
            assert!(!truncated && told.threads.iter().all(|thread| !thread.truncated));
        }
    }
}
