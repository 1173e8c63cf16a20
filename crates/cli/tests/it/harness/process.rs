//! A program in the background whose output goes to a file, and that ends with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to do what is waited for; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    gentle: bool,
}

impl Process {
    /// Starts it with stdout and stderr appended to `folder/name.log`.
    pub(crate) fn start(folder: &Path, name: &str, command: &mut Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = || {
            std::fs::File::options()
                .create(true)
                .append(true)
                .open(&log)
                .unwrap()
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(file())
            .stderr(file())
            .spawn()
            .unwrap_or_else(|error| panic!("failed to start {name}: {error}"));
        Self {
            child,
            log,
            gentle: false,
        }
    }

    /// Lets it end by itself when the test is over: it has something to clean up. Everything else is
    /// killed, because nobody needs what it would write, and a control plane takes its time.
    pub(crate) fn gentle(mut self) -> Self {
        self.gentle = true;
        self
    }

    /// Waits until `look` finds what it looks for; fails when the program ends before.
    pub(crate) fn wait<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{what} did not happen ({ended:?}):\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// The end of what it wrote.
    pub(crate) fn log(&self) -> String {
        tail(&self.log)
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.gentle {
            terminate(&mut self.child, Duration::from_mins(1));
        } else {
            self.kill();
        }
    }
}

/// SIGTERM, and SIGKILL for a program that does not listen.
pub(crate) fn terminate(child: &mut Child, patience: Duration) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    let _ = Command::new("kill")
        .arg(child.id().to_string())
        .stderr(Stdio::null())
        .status();
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The last lines of a file.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.len().saturating_sub(40);
    format!("--- {}\n{}\n", path.display(), lines[begin..].join("\n"))
}
