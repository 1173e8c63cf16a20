//! `astrago up` at fixed addresses, so that clients find it again after each death.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take that has to happen. What works does not wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// After this an answer counts as missing; the server is never held up for so long on purpose.
const ANSWER: Duration = Duration::from_mins(1);

pub(crate) struct Server {
    pub(crate) data: PathBuf,
    /// A folder of the host in which jobs leave traces.
    pub(crate) place: PathBuf,
    folder: PathBuf,
    rest: u16,
    kube: u16,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn new(folder: &Path) -> Self {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let place = folder.join("place");
        std::fs::create_dir_all(&place).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&place, open).unwrap();
        Self {
            data: folder.join("data"),
            place,
            folder: folder.to_owned(),
            rest: free(),
            kube: free(),
            child: None,
        }
    }

    /// Starts it without waiting until it serves.
    pub(crate) fn spawn(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("stderr.log"))
            .unwrap();
        let program = std::env::var_os("LAB_ASTRAGO");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_astrago").into());
        let mut command = Command::new(program);
        for name in [
            "ASTRAGO_SERVER",
            "ASTRAGO_TOKEN",
            "ASTRAGO_CONFIG",
            "KUBECONFIG",
        ] {
            command.env_remove(name);
        }
        if std::env::var_os("ASTRAGO_EGRESS").is_none() {
            command.env("ASTRAGO_EGRESS", "off");
        }
        command
            .args(["up", "--listen", &format!("127.0.0.1:{}", self.rest)])
            .args(["--kube-listen", &format!("127.0.0.1:{}", self.kube)])
            .args(["--capacity", "cpu=64,memory=64Gi"])
            .arg("--allow-host-path")
            .arg(&self.place)
            .arg("--data-dir")
            .arg(&self.data)
            .stdout(Stdio::piped())
            .stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// Starts it and waits for the ready line.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.spawn();
        let output = self.child.as_mut().and_then(|child| child.stdout.take());
        let mut line = String::new();
        let read = BufReader::new(output.unwrap()).read_line(&mut line);
        if read.is_ok() && line.starts_with("ready") {
            return Ok(());
        }
        Err(format!("it did not start: {line:?}\n{}", self.log()))
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.id() {
            send(id, signal);
        }
    }

    /// The end of it, by this signal.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<(), String> {
        self.signal(signal);
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let deadline = Instant::now() + PATIENCE;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end after {signal:?}\n{}", self.log()));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(crate) async fn kube(&self) -> kube::Client {
        let config = Kubeconfig::read_from(self.data.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options)
            .await
            .unwrap();
        config.read_timeout = Some(ANSWER);
        kube::Client::try_from(config).unwrap()
    }

    pub(crate) fn rest(&self) -> Rest {
        let token = std::fs::read_to_string(self.data.join("admin.token")).unwrap();
        Rest {
            client: reqwest::Client::builder().timeout(ANSWER).build().unwrap(),
            url: format!("http://127.0.0.1:{}", self.rest),
            token: token.trim().to_owned(),
        }
    }

    /// The last lines that it wrote.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read(self.folder.join("stderr.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end(Signal::KILL);
    }
}

/// The product's own API.
#[derive(Clone)]
pub(crate) struct Rest {
    client: reqwest::Client,
    url: String,
    token: String,
}

impl Rest {
    /// The status and the body; `None` where there was no answer.
    pub(crate) async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let text = answer.text().await.ok()?;
        Some((
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        ))
    }

    pub(crate) async fn get(&self, path: &str) -> Option<(u16, Value)> {
        self.send(reqwest::Method::GET, path, None).await
    }
}

pub(crate) fn send(id: u32, signal: Signal) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, signal);
    }
}

/// Faults and load come at times, not on conditions.
pub(crate) async fn pause(milliseconds: u64) {
    let never = std::future::pending::<()>();
    let _ = tokio::time::timeout(Duration::from_millis(milliseconds), never).await;
}

/// Looks until there is something to see; otherwise tells what was seen last.
pub(crate) async fn eventually<T, F: Future<Output = Result<T, String>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(found) => return Ok(found),
            Err(last) if Instant::now() > deadline => {
                return Err(format!("{what} did not happen; last seen: {last}"));
            }
            Err(_) => pause(100).await,
        }
    }
}
