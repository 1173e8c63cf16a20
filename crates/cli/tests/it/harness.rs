//! A running `astrago up` in a folder of its own, and a small HTTP client for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) fn astrago() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_astrago"));
    for name in [
        "ASTRAGO_SERVER",
        "ASTRAGO_TOKEN",
        "ASTRAGO_DATA_DIR",
        "ASTRAGO_NAMESPACE",
        "KUBECONFIG",
    ] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    // No test may send anything to where it does not belong.
    command.env("ASTRAGO_EGRESS", "off");
    command
}

/// Whether pods can be run here; prints why not, and fails instead where that must not be.
pub(crate) fn can_run_pods() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    if root {
        return true;
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI must run this test as root"
    );
    println!("skipped: this test runs pods and needs root");
    false
}

/// A Python with PyTorch, TensorFlow and Kubeflow's SDK; `None`, with the reason printed, where there is none.
pub(crate) fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let found = std::env::var_os("ASTRAGO_TEST_PYTHON")
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".cache/astrago/python/bin/python3")))
        .filter(|python| python.exists());
    needed(found, "a Python with the frameworks (ASTRAGO_TEST_PYTHON)")
}

/// Whether kubectl is installed; prints why not, and fails instead where that must not be.
pub(crate) fn has_kubectl() -> bool {
    let output = Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .ok();
    needed(output.filter(|output| output.status.success()), "kubectl").is_some()
}

pub(crate) fn needed<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "CI must have {what}"
        );
        println!("skipped: this test needs {what}");
    }
    found
}

pub(crate) struct Up {
    child: Child,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: String,
}

impl Up {
    /// Starts with free ports and waits for the ready line.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, address) = Self::spawn_ready(folder.path(), flags);
        Self {
            child,
            folder,
            address,
        }
    }

    /// The same by a command of the test's own, in a folder that it prepared.
    pub(crate) fn start_with(command: Command, folder: tempfile::TempDir, flags: &[&str]) -> Self {
        let child = Self::spawn(command, folder.path(), flags);
        let (child, address) = Self::ready(child);
        Self {
            child,
            folder,
            address,
        }
    }

    fn spawn_ready(folder: &Path, flags: &[&str]) -> (Child, String) {
        Self::ready(Self::spawn(astrago(), folder, flags))
    }

    fn ready(mut child: Child) -> (Child, String) {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().expect("the ready line").unwrap();
        assert!(ready.starts_with("ready"), "{ready}");
        let address = ready.split("://").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap().to_owned();
        (child, address)
    }

    fn spawn(mut command: Command, folder: &Path, flags: &[&str]) -> Child {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join("stderr.log"))
            .unwrap();
        command
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--kube-listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(folder.join("data"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Kills it as a power cut would and starts it again on the same data; pods go on meanwhile.
    pub(crate) fn kill_and_start(&mut self, flags: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, address) = Self::spawn_ready(self.folder.path(), flags);
        self.child = child;
        self.address = address;
    }

    /// Runs kubectl against this server as the administrator; what it prints, when it succeeds.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_command().args(arguments).output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {stdout}\n{stderr}"
        );
        stdout.into_owned()
    }

    pub(crate) fn kubectl_command(&self) -> Command {
        let mut command = Command::new("kubectl");
        command
            .env("KUBECONFIG", self.folder.path().join("data/kubeconfig"))
            .current_dir(self.folder.path());
        command
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        astrago()
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(arguments)
            .output()
            .unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, None, &[])
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path, Some(body), &[])
    }

    /// One request over one connection; the answer's body as JSON.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[&str],
    ) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        write!(stream, "{head}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
        let text = answer.split_once("\r\n\r\n").map_or("", |(_, text)| text);
        (
            status,
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        )
    }

    /// Waits until a look at the server gives something; shows the last look when it takes too long.
    pub(crate) fn eventually<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&Self) -> Result<T, Value>,
    ) -> T {
        // Long, because frameworks share a busy machine; what works does not wait for it.
        let deadline = Instant::now() + Duration::from_mins(10);
        loop {
            match look(self) {
                Ok(found) => return found,
                Err(last) if Instant::now() > deadline => {
                    let log = std::fs::read_to_string(self.folder.path().join("stderr.log"))
                        .unwrap_or_default();
                    panic!("{what} did not happen; last seen: {last:#}\n{log}");
                }
                Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
            }
        }
    }

    /// Sends SIGTERM and waits; tells how it ended and how long it took.
    pub(crate) fn stop(mut self) -> (Option<i32>, Duration) {
        let begin = Instant::now();
        let killed = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(killed.success());
        let status = self.child.wait().unwrap();
        (status.code(), begin.elapsed())
    }
}

impl Drop for Up {
    /// A test that failed half-way must not leave anything behind: SIGTERM lets `--stop-pods` end the
    /// pods, and SIGKILL follows for a server that does not answer.
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .stderr(Stdio::null())
            .status();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
