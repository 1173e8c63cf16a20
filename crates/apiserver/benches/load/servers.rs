//! The servers under test, each in processes of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use astrago_apiserver::{Options, Server};

use crate::Error;
use crate::client::{TOKEN, Target};

/// Nothing takes longer to start than this.
const PATIENCE: Duration = Duration::from_mins(2);

/// A server that is ready, and how long it took.
pub(crate) struct Running {
    pub(crate) target: Target,
    pub(crate) ready: f64,
    processes: Vec<Process>,
}

impl Running {
    /// Resident memory of all its processes in megabytes.
    pub(crate) fn memory(&self) -> Result<f64, Error> {
        let each = self.processes.iter().map(Process::memory);
        each.sum()
    }
}

/// This program's server, in a process of its own.
pub(crate) async fn ours(directory: &Path) -> Result<Running, Error> {
    let _ = std::fs::remove_file(directory.join("address"));
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg(directory);
    let process = Process(command.spawn()?);
    let address = loop {
        match std::fs::read_to_string(directory.join("address")) {
            Ok(address) => break address,
            Err(_) => pause(began).await?,
        }
    };
    let target = Target::new(&address, &directory.join("ca.crt"))?;
    finish(target, began, vec![process]).await
}

/// What [`ours`] starts.
pub(crate) async fn serve(directory: &Path) -> Result<(), Error> {
    let mut options = Options::new(directory);
    options.admin_tokens = vec![TOKEN.to_owned()];
    let server = Server::open(options).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    std::fs::write(directory.join("address.new"), address)?;
    std::fs::rename(directory.join("address.new"), directory.join("address"))?;
    server
        .serve(listener, tokio_util::sync::CancellationToken::new())
        .await?;
    Ok(())
}

/// Where the real thing lies: `ASTRAGO_CLUSTER_BIN`, or where the tests against a cluster keep it.
pub(crate) fn peers() -> Option<PathBuf> {
    let folder = std::env::var_os("ASTRAGO_CLUSTER_BIN").map(PathBuf::from);
    let folder = folder.or_else(|| {
        let cache = std::env::var_os("ASTRAGO_CACHE").map(PathBuf::from);
        let cache = cache
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/astrago")))?;
        Some(cache.join("cluster/bin"))
    })?;
    let has = |name: &str| folder.join(name).is_file();
    (has("etcd") && has("kube-apiserver")).then_some(folder)
}

/// etcd and kube-apiserver as they come, which is with an fsync for each write.
pub(crate) async fn theirs(binaries: &Path, directory: &Path) -> Result<Running, Error> {
    let (client, peer, secure) = (free_port()?, free_port()?, free_port()?);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let began = Instant::now();
    let store = format!("http://127.0.0.1:{client}");
    let between = format!("http://127.0.0.1:{peer}");
    let mut etcd = Command::new(binaries.join("etcd"));
    etcd.args(["--name", "bench", "--log-level", "error", "--data-dir"])
        .arg(directory.join("etcd"))
        .args([
            "--listen-client-urls",
            &store,
            "--advertise-client-urls",
            &store,
        ])
        .args([
            "--listen-peer-urls",
            &between,
            "--initial-advertise-peer-urls",
            &between,
        ])
        .args(["--initial-cluster", &format!("bench={between}")]);
    let etcd = Process(quiet(&mut etcd).spawn()?);

    let pair = rcgen::KeyPair::generate()?;
    let (key, public) = (
        directory.join("accounts.key"),
        directory.join("accounts.pub"),
    );
    std::fs::write(&key, pair.serialize_pem())?;
    std::fs::write(&public, pair.public_key_pem())?;
    let tokens = directory.join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},bench,1,system:masters\n"))?;
    let certificates = directory.join("certificates");
    let mut server = Command::new(binaries.join("kube-apiserver"));
    server
        .args([
            "--bind-address",
            "127.0.0.1",
            "--authorization-mode",
            "RBAC",
        ])
        .args([
            "--secure-port",
            &secure.to_string(),
            "--etcd-servers",
            &store,
        ])
        .args(["--cert-dir", &text(certificates.clone())])
        .args(["--token-auth-file", &text(tokens)])
        .args(["--service-cluster-ip-range", "10.0.0.0/24"])
        .args(["--service-account-issuer", "https://localhost"])
        .args(["--service-account-key-file", &text(public)])
        .args(["--service-account-signing-key-file", &text(key)]);
    let server = Process(quiet(&mut server).spawn()?);

    let certificate = certificates.join("apiserver.crt");
    while !certificate.is_file() {
        pause(began).await?;
    }
    let address = format!("127.0.0.1:{secure}");
    let target = loop {
        match Target::new(&address, &certificate) {
            Ok(target) => break target,
            // The file is being written.
            Err(_) => pause(began).await?,
        }
    };
    finish(target, began, vec![server, etcd]).await
}

async fn finish(target: Target, began: Instant, processes: Vec<Process>) -> Result<Running, Error> {
    while let Err(error) = target.get("/readyz").await {
        if pause(began).await.is_err() {
            return Err(error);
        }
    }
    Ok(Running {
        target,
        ready: began.elapsed().as_secs_f64() * 1e3,
        processes,
    })
}

async fn pause(began: Instant) -> Result<(), Error> {
    if began.elapsed() > PATIENCE {
        return Err("a server did not become ready".into());
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

fn free_port() -> Result<u16, Error> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

/// Killed, not asked, when it is no longer needed.
struct Process(Child);

impl Process {
    fn memory(&self) -> Result<f64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .ok_or("no VmRSS")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
