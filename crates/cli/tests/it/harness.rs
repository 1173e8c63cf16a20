//! A running `astrago up` in a folder of its own, and a small HTTP client for it; or, where
//! `ASTRAGO_TEST_TARGET` says so, a Kubernetes cluster with `astrago serve` and `astrago node`.

pub(crate) mod cluster;
pub(crate) mod kubeflow;
mod pki;
pub(crate) mod process;
pub(crate) mod target;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::cluster::{Cluster, kubeconfig};
use self::kubeflow::Kubeflow;
use self::pki::Authority;
use self::process::Process;
use self::target::Target;

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
    /// The administrator's token of a cluster. There the server always asks who is calling, so that it
    /// runs with the rights of deploy/; for a test that wants `--no-auth`, the harness answers.
    token: Option<String>,
    answers: bool,
    node: Option<Process>,
    kubeflow: Option<Kubeflow>,
    pub(crate) cluster: Option<Cluster>,
}

impl Up {
    /// Starts with free ports and waits for the ready line. The flags are those of `astrago up`; on a
    /// Kubernetes cluster they go to `astrago serve` and `astrago node`, which do the same together.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::chosen();
        if target.kubernetes {
            return Self::start_on_kubernetes(folder, target, flags);
        }
        let (child, address) = spawn_ready(&mut up_command(folder.path(), flags), folder.path());
        let kubeflow = target.kubeflow.map(|release| {
            let authority = Authority::new(&folder.path().join("pki"));
            Kubeflow::install_without_webhooks(
                folder.path(),
                release,
                &kubeconfig(folder.path()),
                &authority,
            )
        });
        let up = Self {
            child,
            folder,
            address,
            token: None,
            answers: false,
            node: None,
            kubeflow,
            cluster: None,
        };
        // The harness itself speaks no TLS, and the one test of it makes no jobs.
        if target.kubeflow.is_some() && !flags.contains(&"--tls-cert") {
            up.eventually("that the server knows the Trainer", |up| {
                let (_, cluster) = up.request("GET", "/api/cluster", None, &[&up.bearer()]);
                let says_version = cluster["trainer_version"].is_string();
                if cluster["dialect"] == target.dialect()
                    && says_version != target.is_kubeflow_2_1()
                {
                    Ok(())
                } else {
                    Err(cluster)
                }
            });
        }
        up
    }

    /// The same by a command of the test's own, in a folder that it prepared; always on the embedded engine.
    pub(crate) fn start_with(
        mut command: Command,
        folder: tempfile::TempDir,
        flags: &[&str],
    ) -> Self {
        up_arguments(&mut command, folder.path(), flags);
        let (child, address) = spawn_ready(&mut command, folder.path());
        Self {
            child,
            folder,
            address,
            token: None,
            answers: false,
            node: None,
            kubeflow: None,
            cluster: None,
        }
    }

    fn start_on_kubernetes(folder: tempfile::TempDir, target: Target, flags: &[&str]) -> Self {
        let cluster = Cluster::start(folder.path(), target);
        let node = start_node(folder.path(), &cluster, flags);
        let token = cluster.token("kube-system", "tester");
        let account = "--serviceaccount=kube-system:tester";
        let role = "--clusterrole=cluster-admin";
        cluster.kubectl(&["create", "clusterrolebinding", "tester", role, account]);
        let (child, address) = spawn_ready(
            &mut serve_command(folder.path(), &cluster.server_kubeconfig()),
            folder.path(),
        );
        Self {
            child,
            folder,
            address,
            token: Some(token),
            answers: flags.contains(&"--no-auth"),
            node,
            kubeflow: None,
            cluster: Some(cluster),
        }
    }

    /// Kills it as a power cut would and starts it again on the same data; pods go on meanwhile. On a
    /// cluster that is the API server, the node, our controllers and the REST API.
    pub(crate) fn kill_and_start(&mut self, flags: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let folder = self.folder.path();
        let mut command = match &mut self.cluster {
            None => up_command(folder, flags),
            Some(cluster) => {
                if let Some(node) = &mut self.node {
                    node.kill();
                }
                cluster.kill_controllers();
                cluster.kill_api_server();
                cluster.start_api_server();
                cluster.start_own_controllers();
                self.node = start_node(folder, cluster, flags);
                serve_command(folder, &cluster.server_kubeconfig())
            }
        };
        let (child, address) = spawn_ready(&mut command, folder);
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
            .env("KUBECONFIG", kubeconfig(self.folder.path()))
            .current_dir(self.folder.path());
        command
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = astrago();
        command.envs(self.client()).args(arguments);
        command.output().unwrap()
    }

    /// The variables by which `astrago` finds this server.
    pub(crate) fn client(&self) -> Vec<(&'static str, String)> {
        if let Some(token) = &self.token {
            vec![
                ("ASTRAGO_SERVER", format!("http://{}", self.address)),
                ("ASTRAGO_TOKEN", token.clone()),
            ]
        } else {
            let data = self.folder.path().join("data");
            vec![("ASTRAGO_DATA_DIR", data.display().to_string())]
        }
    }

    /// The header with the administrator's token.
    pub(crate) fn bearer(&self) -> String {
        let token = self.token.clone().unwrap_or_else(|| {
            let file = self.folder.path().join("data/admin.token");
            std::fs::read_to_string(file).unwrap().trim().to_owned()
        });
        format!("authorization: Bearer {token}")
    }

    /// Where the node keeps its pods, and the REST API its history.
    pub(crate) fn node_data(&self) -> PathBuf {
        let alone = self.cluster.is_some();
        let folder = if alone {
            "data/node-alone"
        } else {
            "data/node"
        };
        self.folder.path().join(folder)
    }

    pub(crate) fn history(&self) -> PathBuf {
        let alone = self.cluster.is_some();
        let folder = if alone {
            "data/serve/history"
        } else {
            "data/history"
        };
        self.folder.path().join(folder)
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
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        let own = self.answers && !headers.iter().any(|it| it.starts_with("authorization:"));
        let own = own.then(|| self.bearer());
        for header in headers.iter().copied().chain(own.as_deref()) {
            head.push_str(header);
            head.push_str("\r\n");
        }
        let answer = exchange(&mut stream, &format!("{head}\r\n{body}")).unwrap();
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
                    panic!(
                        "{what} did not happen; last seen: {last:#}\n{}",
                        self.logs()
                    );
                }
                Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
            }
        }
    }

    /// The server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server's process where it is, or lets it go on.
    pub(crate) fn freeze(&self, frozen: bool) {
        let signal = if frozen { "-STOP" } else { "-CONT" };
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.unwrap().success());
    }

    /// The ends of the logs of everything that runs.
    pub(crate) fn logs(&self) -> String {
        let mut text = process::tail(&self.folder.path().join("stderr.log"));
        text.extend(self.node.iter().map(Process::log));
        text.extend(self.kubeflow.iter().map(Kubeflow::logs));
        text.extend(self.cluster.iter().map(Cluster::logs));
        text
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
        process::terminate(&mut self.child, Duration::from_secs(20));
        // Before the folder goes, in which the node finds its pods, and while there is still an API server.
        drop(self.node.take());
        drop(self.kubeflow.take());
        drop(self.cluster.take());
    }
}

fn up_arguments(command: &mut Command, folder: &Path, flags: &[&str]) {
    command.args(["up", "--listen", "127.0.0.1:0", "--kube-listen"]);
    command.arg(kube_address(folder)).arg("--data-dir");
    command.arg(folder.join("data")).args(flags);
}

/// The address of the Kubernetes API: a free one, or where it was before if Kubeflow's controllers look for it there.
fn kube_address(folder: &Path) -> String {
    let before = std::fs::read(folder.join("data/endpoints.json")).ok();
    let before: Option<Value> = before.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    before
        .filter(|_| Target::chosen().kubeflow.is_some())
        .as_ref()
        .and_then(|before| before["kube"].as_str()?.strip_prefix("https://"))
        .unwrap_or("127.0.0.1:0")
        .to_owned()
}

fn up_command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = astrago();
    up_arguments(&mut command, folder, flags);
    if Target::chosen().kubeflow.is_some() {
        // TrainJobs and JobSets are Kubeflow's.
        command.args(["--controllers", "jobs,legacy-jobs,scheduler,nodes"]);
    }
    command
}

/// `astrago node` with those of the flags of `astrago up` that are a node's.
fn start_node(folder: &Path, cluster: &Cluster, flags: &[&str]) -> Option<Process> {
    if flags.contains(&"--no-node") {
        return None;
    }
    let mut command = astrago();
    command
        .args(["node", "--name", "machine", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .arg("--kubelet-client-ca")
        .arg(cluster.certificate_authority())
        .arg("--data-dir")
        .arg(folder.join("data"))
        .args(chosen(
            flags,
            &["--capacity", "--python", "--allow-host-path"],
        ))
        .args(flags.iter().filter(|flag| **flag == "--stop-pods"));
    Some(Process::start(folder, "astrago-node", &mut command).gentle())
}

fn serve_command(folder: &Path, kubeconfig: &Path) -> Command {
    let mut command = astrago();
    command.args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig"]);
    command
        .arg(kubeconfig)
        .arg("--data-dir")
        .arg(folder.join("data"));
    command
}

/// Starts a server and waits for its ready line, which names its address.
fn spawn_ready(command: &mut Command, folder: &Path) -> (Child, String) {
    let log = folder.join("stderr.log");
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(&log)
        .unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let Some(Ok(ready)) = lines.next() else {
        panic!("there was no ready line\n{}", process::tail(&log));
    };
    assert!(ready.starts_with("ready"), "{ready}");
    let address = ready.split("://").nth(1).unwrap();
    let address = address.split_whitespace().next().unwrap().to_owned();
    (child, address)
}

/// The given flags, with their values, of those in `names`.
fn chosen<'a>(flags: &[&'a str], names: &[&str]) -> Vec<&'a str> {
    let pairs = flags.windows(2).filter(|pair| names.contains(&pair[0]));
    pairs.flatten().copied().collect()
}

/// Sends a request and reads the answer to its end.
pub(crate) fn exchange(stream: &mut TcpStream, request: &str) -> std::io::Result<String> {
    // Frameworks that train beside it take all of a small machine.
    stream.set_read_timeout(Some(Duration::from_mins(2)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
