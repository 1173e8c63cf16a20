//! The REST API under load, beside a FastAPI backend on the same API server: `cargo bench --bench load`.
//!
//! Creates and status per second with 16 clients, with a token, over HTTP; then 10,000 jobs listed and 500
//! followers of one log: latency and memory. The server runs in a process of its own, with the API server that
//! both backends talk to and no controllers, so that what is measured is the backends. Every create that was
//! answered is on disk.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use astrago_apiserver::{Identity, Server};
use astrago_rest::{Options, Rest};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// As in the product.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TOKEN: &str = "bench-token";
const CLIENTS: usize = 16;
const CREATES: usize = 3000;
const READS: usize = 60_000;
const LISTED: usize = 10_000;
const FOLLOWERS: usize = 500;
/// The peer is slower; it gets fewer requests and the same time.
const PEER_SHARE: usize = 20;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, directory] = arguments.as_slice()
        && command == "serve"
    {
        return serve(Path::new(directory)).await;
    }
    let directory = tempfile::tempdir()?;
    let began = Instant::now();
    let server = Process::start(directory.path())?;
    let target = Target(wait_for(&directory.path().join("address")).await?);
    println!(
        "ready after start              {:>10.0} ms",
        milliseconds(began.elapsed())
    );

    let creates = creates(&target, CREATES).await?;
    println!("creates, 16 clients            {creates:>10.0} /s");
    let reads = reads(&target, READS).await?;
    println!("status, 16 clients             {reads:>10.0} /s");
    println!(
        "memory with {CREATES} jobs           {:>10.1} MB",
        server.memory()?
    );

    match Peer::start(directory.path()).await? {
        Some(peer) => {
            let theirs = crate::creates(&peer.target, CREATES / PEER_SHARE).await?;
            println!(
                "FastAPI: creates               {theirs:>10.0} /s   ratio {:.1}",
                creates / theirs
            );
            let theirs = crate::reads(&peer.target, READS / PEER_SHARE).await?;
            println!(
                "FastAPI: status                {theirs:>10.0} /s   ratio {:.1}",
                reads / theirs
            );
        }
        None => {
            println!("FastAPI is not installed in the test environment; scripts/setup installs it");
        }
    }
    list(&target, &server).await?;
    follow(&target, &server).await
}

/// Creates per second; the names are kept for [`reads`].
async fn creates(target: &Target, count: usize) -> Result<f64, Error> {
    let form = json!({
        "user_id": "bench", "namespace": "bench", "framework": "pytorch", "training_code": "print('training')",
        "config": { "num_nodes": 2, "gpu_per_node": 0, "cpu_per_node": 1, "memory_per_node": "1Gi" },
    });
    let form = Bytes::from(form.to_string());
    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&names);
    let per_second = rate(target, count, move |client, _| {
        let (form, names) = (form.clone(), Arc::clone(&kept));
        async move {
            let answer = client.send("POST", "/api/trainjob/create", form).await?;
            let answer: Value = serde_json::from_slice(&answer)?;
            let name = answer["trainjob_name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            names.lock().map_err(|_| "a client panicked")?.push(name);
            Ok(())
        }
    })
    .await?;
    let names = names.lock().map_err(|_| "a client panicked")?.clone();
    *NAMES.lock().map_err(|_| "a client panicked")? = names;
    Ok(per_second)
}

static NAMES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

/// Status answers per second, of the jobs that were created last.
async fn reads(target: &Target, count: usize) -> Result<f64, Error> {
    let names: Arc<Vec<String>> = Arc::new(NAMES.lock().map_err(|_| "a client panicked")?.clone());
    rate(target, count, move |client, index| {
        let name = names[index % names.len()].clone();
        async move {
            let path = format!("/api/trainjob/{name}/status?namespace=bench");
            client.send("GET", &path, Bytes::new()).await.map(drop)
        }
    })
    .await
}

/// How long a page of a list takes with ten thousand jobs.
async fn list(target: &Target, server: &Process) -> Result<(), Error> {
    let missing = LISTED - CREATES;
    let _ = creates(target, missing).await?;
    let mut client = target.connect().await?;
    let mut times = Vec::new();
    for page in 0..50 {
        let began = Instant::now();
        let path = format!("/api/trainjobs?limit=50&page={page}");
        let answer = client.send("GET", &path, Bytes::new()).await?;
        times.push(began.elapsed());
        let answer: Value = serde_json::from_slice(&answer)?;
        if answer["items"].as_array().map(Vec::len) != Some(50) {
            return Err(format!("a page of {answer}").into());
        }
    }
    println!(
        "a page of {LISTED} jobs           {:>10.1} ms   p99 {:.1} ms",
        milliseconds(share(&mut times, 50)),
        milliseconds(share(&mut times, 99))
    );
    println!(
        "memory with {LISTED} jobs          {:>10.1} MB",
        server.memory()?
    );
    Ok(())
}

/// How long a line takes from its pod to five hundred followers.
async fn follow(target: &Target, server: &Process) -> Result<(), Error> {
    let before = server.memory()?;
    let latencies = Arc::new(std::sync::Mutex::new(Vec::new()));
    let connected = Arc::new(AtomicUsize::new(0));
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let mut client = target.connect().await?;
        let (latencies, connected) = (Arc::clone(&latencies), Arc::clone(&connected));
        followers.push(tokio::spawn(async move {
            let path = "/api/trainjobs/followed/logs/stream?namespace=bench&tail=0";
            let mut body = client.open(path).await?;
            connected.fetch_add(1, Ordering::Relaxed);
            let mut text = String::new();
            while let Some(frame) = body.frame().await {
                text.push_str(std::str::from_utf8(
                    &frame?.into_data().unwrap_or_default(),
                )?);
                let now = nanoseconds();
                while let Some((line, rest)) = text.split_once("\n\n") {
                    if let Some((_, sent)) = line.split_once("sent=") {
                        let digits: String =
                            sent.chars().take_while(char::is_ascii_digit).collect();
                        let late = now.saturating_sub(digits.parse()?);
                        latencies
                            .lock()
                            .map_err(|_| "a follower panicked")?
                            .push(Duration::from_nanos(late));
                    }
                    text = rest.to_owned();
                }
            }
            Ok::<_, Error>(())
        }));
    }
    while connected.load(Ordering::Relaxed) < FOLLOWERS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    latencies.lock().map_err(|_| "a follower panicked")?.clear();
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let seconds = began.elapsed().as_secs_f64();
    let mut times = std::mem::take(&mut *latencies.lock().map_err(|_| "a follower panicked")?);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number of lines for people to read"
    )]
    let per_second = times.len() as f64 / seconds;
    println!(
        "{FOLLOWERS} followers, {per_second:.0} lines/s     {:>10.1} ms   p99 {:.1} ms",
        milliseconds(share(&mut times, 50)),
        milliseconds(share(&mut times, 99))
    );
    println!(
        "memory of {FOLLOWERS} followers         {:>10.1} MB",
        server.memory()? - before
    );
    followers.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

/// API server and REST API, until killed. The log of the job `followed` has a line every 100 ms.
async fn serve(directory: &Path) -> Result<(), Error> {
    let mut options = astrago_apiserver::Options::new(directory.join("apiserver"));
    options.admin_tokens = vec![TOKEN.to_owned()];
    let server = Server::open(options).await?;
    let stop = CancellationToken::new();
    let kube = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", kube.local_addr()?);
    std::fs::write(
        directory.join("kubeconfig"),
        server.kubeconfig(&url, "admin", TOKEN, "bench"),
    )?;
    let serving = server.clone();
    tokio::spawn({
        let stop = stop.clone();
        async move { serving.serve(kube, stop).await }
    });
    let client = Client::new(server.local(Identity::component("astrago")), "default");
    install(&client).await?;
    let options = Options::new(with_log(&client), directory.join("history"));
    let rest = Rest::start(options, stop).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    std::fs::write(directory.join("address.new"), address)?;
    std::fs::rename(directory.join("address.new"), directory.join("address"))?;
    axum::serve(listener, rest.router()).await?;
    Ok(())
}

async fn install(client: &Client) -> Result<(), Error> {
    use k8s_openapi::api::core::v1::{Namespace, Pod};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in astrago_api::crds() {
        definitions
            .create(&PostParams::default(), &definition)
            .await?;
    }
    let runtimes: Api<astrago_api::ClusterTrainingRuntime> = Api::all(client.clone());
    for runtime in astrago_plan::built_in_runtimes() {
        while runtimes
            .create(&PostParams::default(), runtime)
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": "bench" } }))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let jobs: Api<astrago_api::TrainJob> = Api::namespaced(client.clone(), "bench");
    let job = json!({ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                      "metadata": { "name": "followed" }, "spec": { "runtimeRef": { "name": "pytorch-simple" } } });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?)
        .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "bench");
    let labels = json!({ "jobset.sigs.k8s.io/jobset-name": "followed", "jobset.sigs.k8s.io/replicatedjob-name": "node",
                         "batch.kubernetes.io/job-completion-index": "0" });
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "followed-node-0-0-bench", "labels": labels },
        "spec": { "containers": [{ "name": "node", "image": "none" }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let running = json!({ "status": { "phase": "Running", "containerStatuses": [{
        "name": "node", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }] } });
    pods.patch_status(
        "followed-node-0-0-bench",
        &PatchParams::default(),
        &Patch::Merge(running),
    )
    .await?;
    Ok(())
}

/// A client that answers for the node: there is none here, and the log is made up.
fn with_log(inner: &Client) -> Client {
    let inner = inner.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            if !request.uri().path().ends_with("/log") {
                let response = inner.send(request).await?;
                return Ok(response.map(|body| body.map_err(tower::BoxError::from).boxed_unsync()));
            }
            let lines = futures::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let line = format!("2026-01-01T00:00:00Z step sent={}\n", nanoseconds());
                let frame = hyper::body::Frame::data(Bytes::from(line));
                Some((Ok::<_, std::convert::Infallible>(frame), ()))
            });
            let body = http_body_util::StreamBody::new(lines.boxed());
            let body = body.map_err(tower::BoxError::from).boxed_unsync();
            Ok::<_, tower::BoxError>(http::Response::new(body))
        }
    });
    Client::new(service.map_err(tower::BoxError::from), "default")
}

/// The FastAPI backend, with one worker per core as people run it.
struct Peer {
    process: Child,
    target: Target,
}

impl Peer {
    async fn start(directory: &Path) -> Result<Option<Self>, Error> {
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default();
        let python = std::env::var_os("ASTRAGO_TEST_PYTHON").map_or_else(
            || home.join(".cache/astrago/python/bin/python3"),
            PathBuf::from,
        );
        let installed = Command::new(&python)
            .args(["-c", "import fastapi, uvicorn, kubernetes"])
            .stderr(Stdio::null())
            .status();
        if !installed.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer");
        let process = Command::new(python)
            .args([
                "-m",
                "uvicorn",
                "backend:app",
                "--workers",
                "2",
                "--log-level",
                "warning",
            ])
            .args(["--port", &port.to_string()])
            .current_dir(folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("KUBECONFIG", directory.join("kubeconfig"))
            .env("PEER_TOKEN", TOKEN)
            .spawn()?;
        let peer = Self {
            process,
            target: Target(format!("127.0.0.1:{port}")),
        };
        let began = Instant::now();
        loop {
            if let Ok(mut client) = peer.target.connect().await
                && client.send("GET", "/healthz", Bytes::new()).await.is_ok()
            {
                return Ok(Some(peer));
            }
            if began.elapsed() > Duration::from_mins(2) {
                return Err("the peer did not start".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its workers end with it.
        let _ = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let _ = self.process.wait();
    }
}

/// The server's process; killed, not asked, when it is no longer needed.
struct Process(Child);

impl Process {
    fn start(directory: &Path) -> Result<Self, Error> {
        let program = std::env::current_exe()?;
        Ok(Self(
            Command::new(program).arg("serve").arg(directory).spawn()?,
        ))
    }

    /// Resident memory in megabytes.
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

async fn wait_for(path: &Path) -> Result<String, Error> {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) => return Ok(text),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Where a backend listens.
struct Target(String);

impl Target {
    async fn connect(&self) -> Result<Connection, Error> {
        let stream = tokio::net::TcpStream::connect(&self.0).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection(sender))
    }
}

/// One kept-alive connection.
struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn send(&mut self, method: &str, path: &str, body: Bytes) -> Result<Bytes, Error> {
        let response = self.request(method, path, body).await?;
        Ok(response.collect().await?.to_bytes())
    }

    async fn open(&mut self, path: &str) -> Result<hyper::body::Incoming, Error> {
        self.request("GET", path, Bytes::new()).await
    }

    async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<hyper::body::Incoming, Error> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        let code = response.status();
        if code.is_success() {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await?.to_bytes();
        Err(format!("{method} {path}: {code} {body:?}").into())
    }
}

/// A connection that is lent to one request at a time.
struct Lent(tokio::sync::Mutex<Connection>);

impl Lent {
    async fn send(&self, method: &str, path: &str, body: Bytes) -> Result<Bytes, Error> {
        self.0.lock().await.send(method, path, body).await
    }
}

/// Makes `count` requests with all clients at once; requests per second.
async fn rate<F, R>(target: &Target, count: usize, request: F) -> Result<f64, Error>
where
    F: Fn(Arc<Lent>, usize) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), Error>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Arc::new(Lent(tokio::sync::Mutex::new(
            target.connect().await?,
        ))));
    }
    let began = Instant::now();
    let tasks = clients.into_iter().map(|client| {
        let (next, request) = (Arc::clone(&next), request.clone());
        tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok::<_, Error>(());
                }
                request(Arc::clone(&client), index).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number of requests for people to read"
    )]
    let count = count as f64;
    Ok(count / began.elapsed().as_secs_f64())
}

fn share(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    times.get(last * percent / 100).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn nanoseconds() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
