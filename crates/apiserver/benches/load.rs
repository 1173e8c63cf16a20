//! The server under load, over TLS, in a process of its own: `cargo bench -p astrago-apiserver --bench load`.
//!
//! Prints what the design page compares: time to ready, creates and reads per second with 16 clients, and
//! memory with 3,000 objects; then how lists and watches behave as the store grows. Every acknowledged
//! create has been fsync'ed. `ASTRAGO_BENCH_OBJECTS` sets the size of the last part (100,000).

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use astrago_apiserver::{Options, Server};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

const TOKEN: &str = "bench-token";
const CLIENTS: usize = 16;
const OBJECTS: usize = 3000;
const READS: usize = 60_000;

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
    let target = Target::find(directory.path()).await?;
    while target.get("/readyz").await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!(
        "ready after start            {:>10.0} ms",
        began.elapsed().as_secs_f64() * 1e3
    );

    target
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition(),
        )
        .await?;
    let creates = rate(&target, OBJECTS, |client, index| async move {
        client.send("POST", COLLECTION, job(index)).await
    });
    println!("creates, 16 clients          {:>10.0} /s", creates.await?);
    let reads = rate(&target, READS, |client, index| async move {
        client
            .send(
                "GET",
                &format!("{COLLECTION}/job-{}", index % OBJECTS),
                Value::Null,
            )
            .await
    });
    println!("reads, 16 clients            {:>10.0} /s", reads.await?);
    println!(
        "memory with {OBJECTS} objects     {:>10.1} MB",
        server.memory()?
    );

    let size = std::env::var("ASTRAGO_BENCH_OBJECTS")
        .ok()
        .and_then(|text| text.parse().ok());
    let size: usize = size.unwrap_or(100_000);
    let began = Instant::now();
    rate(&target, size - OBJECTS, |client, index| async move {
        client.send("POST", COLLECTION, job(index + OBJECTS)).await
    })
    .await?;
    println!(
        "store of {size:>7} objects in    {:>10.1} s",
        began.elapsed().as_secs_f64()
    );
    for (what, query) in [
        ("list 10 of them by label", "labelSelector=batch=7"),
        ("list a page of 500", "limit=500"),
        ("list one by field", "fieldSelector=metadata.name=job-7"),
    ] {
        let mut client = target.connect().await?;
        let path = format!("{COLLECTION}?{query}");
        let began = Instant::now();
        for _ in 0..20 {
            client.send("GET", &path, Value::Null).await?;
        }
        println!(
            "{what:<28} {:>10.2} ms",
            began.elapsed().as_secs_f64() * 1e3 / 20.0
        );
    }
    println!(
        "memory with {size:>7} objects  {:>10.1} MB",
        server.memory()?
    );
    drop(server);
    let began = Instant::now();
    let server = Process::start(directory.path())?;
    let target = Target::find(directory.path()).await?;
    while target.get("/readyz").await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!(
        "ready with {size:>7} objects   {:>10.0} ms",
        began.elapsed().as_secs_f64() * 1e3
    );
    drop(server);
    Ok(())
}

const COLLECTION: &str = "/apis/bench.example.org/v1/namespaces/default/trainjobs";

/// About what a training job looks like.
fn job(index: usize) -> Value {
    json!({
        "apiVersion": "bench.example.org/v1",
        "kind": "TrainJob",
        "metadata": {
            "name": format!("job-{index}"),
            "labels": { "app": "bench", "batch": (index / 10).to_string() },
            "annotations": { "example.org/note": "made by the benchmark" },
        },
        "spec": {
            "runtimeRef": { "name": "torch-distributed", "kind": "ClusterTrainingRuntime" },
            "trainer": {
                "image": "example.org/trainer:1", "numNodes": 2,
                "command": ["bash", "-c", "torchrun train.py --epochs 10 --batch-size 64"],
                "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                "resourcesPerNode": { "limits": { "cpu": "2", "memory": "4Gi" } },
            },
        },
    })
}

fn definition() -> Value {
    let text = json!({ "type": "string" });
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "trainjobs.bench.example.org" },
        "spec": {
            "group": "bench.example.org", "scope": "Namespaced",
            "names": { "plural": "trainjobs", "kind": "TrainJob" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "suspend": { "type": "boolean", "default": false },
                        "managedBy": { "type": "string", "default": "example.org/controller" },
                        "runtimeRef": { "type": "object", "properties": { "name": text, "kind": text } },
                        "trainer": { "type": "object", "properties": {
                            "image": text,
                            "numNodes": { "type": "integer", "minimum": 1 },
                            "command": { "type": "array", "items": text },
                            "env": {
                                "type": "array",
                                "items": { "type": "object", "properties": { "name": text, "value": text }, "required": ["name"] },
                                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            },
                            "resourcesPerNode": anything,
                        } },
                    } },
                    "status": anything,
                } } },
            }],
        },
    })
}

async fn serve(directory: &Path) -> Result<(), Error> {
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

/// The server's process; killed, not asked, when it is no longer needed.
struct Process(Child);

impl Process {
    fn start(directory: &Path) -> Result<Self, Error> {
        let _ = std::fs::remove_file(directory.join("address"));
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

#[derive(Clone)]
struct Target {
    address: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Target {
    /// Waits for the server to say where it listens.
    async fn find(directory: &Path) -> Result<Self, Error> {
        let address = loop {
            match std::fs::read_to_string(directory.join("address")) {
                Ok(address) => break address,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls_pki_types::CertificateDer::from_pem_file(
            directory.join("ca.crt"),
        )?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            tls: Arc::new(tls),
        })
    }

    async fn connect(&self) -> Result<Client, Error> {
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let stream = connector
            .connect(ServerName::try_from("localhost")?, stream)
            .await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client(sender))
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.connect().await?.send("GET", path, Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<Bytes, Error> {
        self.connect().await?.send("POST", path, body).await
    }
}

/// One kept-alive connection.
struct Client(SendRequest<Full<Bytes>>);

impl Client {
    async fn send(&mut self, method: &str, path: &str, body: Value) -> Result<Bytes, Error> {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
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
        let body = response.into_body().collect().await?.to_bytes();
        if code.is_success() {
            Ok(body)
        } else {
            Err(format!("{code}: {body:?}").into())
        }
    }
}

/// A client that is lent to one request at a time.
struct Lent(tokio::sync::Mutex<Client>);

impl Lent {
    async fn send(&self, method: &str, path: &str, body: Value) -> Result<Bytes, Error> {
        self.0.lock().await.send(method, path, body).await
    }
}

/// Makes `count` requests with all clients at once; requests per second.
async fn rate<F, R>(target: &Target, count: usize, request: F) -> Result<f64, Error>
where
    F: Fn(Arc<Lent>, usize) -> R + Clone + Send + 'static,
    R: Future<Output = Result<Bytes, Error>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Arc::new(Lent(tokio::sync::Mutex::new(
            target.connect().await?,
        ))));
    }
    let began = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
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
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let rate = count as f64 / began.elapsed().as_secs_f64();
    Ok(rate)
}
