//! `astrago up` as a process, and what one sees of it from outside.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::load::client;
use crate::{Error, Result};

/// How long the server must have used next to no time until it counts as quiet.
const QUIET: Duration = Duration::from_millis(1_500);

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) ready_after: Duration,
    rest: String,
    kube: String,
    token: String,
    folder: Arc<tempfile::TempDir>,
    process: Arc<Mutex<Process>>,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Server {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_in(Arc::new(tempfile::tempdir()?)).await
    }

    /// Stops and starts with the same folder.
    pub(crate) async fn restart(self) -> Result<Self> {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::start_in(folder).await
    }

    async fn start_in(folder: Arc<tempfile::TempDir>) -> Result<Self> {
        let data = folder.path().join("data");
        let log = std::fs::File::create(folder.path().join("stderr.log"))?;
        let begin = Instant::now();
        let mut child = Command::new(binary())
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--kube-listen",
                "127.0.0.1:0",
            ])
            .args(["--no-auth", "--stop-pods", "--data-dir"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let ready = lines.next().ok_or("the server ended")??;
        let endpoints: Value =
            serde_json::from_slice(&std::fs::read(data.join("endpoints.json"))?)?;
        let address = |name: &str| endpoints[name].as_str().unwrap_or_default().to_owned();
        let server = Self {
            ready_after: Duration::ZERO,
            rest: address("rest"),
            kube: address("kube"),
            token: std::fs::read_to_string(data.join("admin.token"))?,
            folder,
            process: Arc::new(Mutex::new(Process(child))),
        };
        let path = format!("{}/healthz", server.rest);
        let answer = client()?.get(path).send().await?;
        if !answer.status().is_success() {
            return Err(format!("not ready, though it says {ready:?}").into());
        }
        Ok(Self {
            ready_after: begin.elapsed(),
            ..server
        })
    }

    /// A client of this server.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.env("ASTRAGO_SERVER", &self.rest);
        command
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// An answer that is read as it comes, if what it is about exists.
    pub(crate) async fn stream(
        &self,
        client: &reqwest::Client,
        path: &str,
    ) -> Result<Option<reqwest::Response>> {
        let answer = client.get(format!("{}{path}", self.rest)).send().await?;
        Ok(Some(answer).filter(|answer| answer.status().is_success()))
    }

    pub(crate) async fn post(&self, client: &reqwest::Client, path: &str, body: String) -> Result {
        let request = client.post(format!("{}{path}", self.rest)).body(body);
        done(request.header("content-type", "application/json"))
            .await
            .map(drop)
    }

    pub(crate) async fn get(&self, client: &reqwest::Client, path: &str) -> Result<Value> {
        let answer = done(client.get(format!("{}{path}", self.rest))).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    pub(crate) async fn kube_post(
        &self,
        client: &reqwest::Client,
        path: &str,
        body: String,
    ) -> Result {
        let request = client.post(format!("{}{path}", self.kube)).body(body);
        let request = request.header("content-type", "application/json");
        done(request.bearer_auth(self.token.trim())).await.map(drop)
    }

    pub(crate) async fn kube_get(
        &self,
        client: &reqwest::Client,
        path: &str,
    ) -> Result<bytes::Bytes> {
        let request = client.get(format!("{}{path}", self.kube));
        done(request.bearer_auth(self.token.trim())).await
    }

    pub(crate) async fn submit(&self, job: &Value) -> Result {
        self.post(&client()?, "/api/trainjob/create", job.to_string())
            .await?;
        let client = client()?;
        loop {
            let jobs = self.get(&client, "/api/trainjobs?limit=1").await?;
            if jobs["items"][0]["state"] == "Running" {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn first_job(&self) -> Result<String> {
        let jobs = self.get(&client()?, "/api/trainjobs?limit=1").await?;
        let name = jobs["items"][0]["name"].as_str();
        Ok(name.ok_or("there are no jobs")?.to_owned())
    }

    /// How many objects the Kubernetes API lists.
    pub(crate) async fn count(&self, path: &str) -> Result<u32> {
        let request = client()?.get(format!("{}{path}?limit=1", self.kube));
        let answer = done(request.bearer_auth(self.token.trim())).await?;
        let list: Value = serde_json::from_slice(&answer)?;
        let shown = list["items"].as_array().map_or(0, Vec::len) as u64;
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(u32::try_from(shown + rest)?)
    }

    /// Waits until that many jobs are complete.
    pub(crate) async fn complete(&self, jobs: usize) -> Result {
        let client = client()?;
        loop {
            let page = self
                .get(&client, "/api/trainjobs?limit=1&state=Complete")
                .await?;
            if page["total"].as_u64().unwrap_or(0) >= jobs as u64 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the server has nothing to do any more. Says how long that took, without the quiet time itself.
    pub(crate) async fn settle(&self) -> Result<Duration> {
        let begin = Instant::now();
        let mut last = self.cpu()?;
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let now = self.cpu()?;
            if now - last > 0.03 {
                quiet_since = Instant::now();
            }
            last = now;
        }
        Ok(quiet_since - begin)
    }

    /// Memory that only this process has and that no file backs, in MB.
    pub(crate) fn memory(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.id()))?;
        let kilobytes: f64 = text
            .lines()
            .filter(|line| line.starts_with("Private_Dirty"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
            .sum();
        Ok(kilobytes / 1_024.0)
    }

    /// Seconds of CPU that the server has used.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        let (_, rest) = text.rsplit_once(')').ok_or("no stat")?;
        let ticks: f64 = rest
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<f64>().ok())
            .sum();
        // The kernel's unit for user space, everywhere.
        Ok(ticks / 100.0)
    }

    /// Seconds of CPU of all pods that were on this machine, as their common cgroup counts them; 0 where there is none.
    pub(crate) fn cpu_of_pods() -> f64 {
        let first = std::fs::read_to_string("/sys/fs/cgroup/cpuacct/astrago/cpuacct.usage");
        let first = first.ok().and_then(|text| text.trim().parse::<f64>().ok());
        let second = || {
            let text = std::fs::read_to_string("/sys/fs/cgroup/astrago/cpu.stat").ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "))?;
            line.parse::<f64>().ok().map(|micros| micros * 1_000.0)
        };
        first.or_else(second).unwrap_or(0.0) / 1e9
    }

    fn id(&self) -> u32 {
        let process = self
            .process
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        process.0.id()
    }
}

fn binary() -> PathBuf {
    std::env::var_os("ASTRAGO_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_astrago")),
        PathBuf::from,
    )
}

async fn done(request: reqwest::RequestBuilder) -> Result<bytes::Bytes> {
    let answer = request.send().await?;
    let status = answer.status();
    let body = answer.bytes().await?;
    if status.is_success() {
        return Ok(body);
    }
    let text = String::from_utf8_lossy(&body);
    Err(Error::from(format!("{status}: {text}")))
}
