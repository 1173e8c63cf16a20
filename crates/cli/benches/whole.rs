//! The whole product, as its user has it: the release binary, `astrago up`, everything on.
//!
//! `cargo bench --bench whole` runs all of it; `cargo bench --bench whole -- queue burst` runs some, and
//! `SECONDS=60` says for how long requests are sent. Every scenario has a server and a data folder of its own.
//! Floors (the disk, a process, a request that does nothing) are measured in the same run.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod whole {
    pub(crate) mod floors;
    pub(crate) mod growth;
    pub(crate) mod lines;
    pub(crate) mod load;
    pub(crate) mod pods;
    pub(crate) mod server;
}

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use whole::load::{Summary, send_all, send_for};
use whole::server::Server;
use whole::{floors, growth, lines, pods};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T = ()> = std::result::Result<T, Error>;

const CLIENTS: usize = 16;

#[tokio::main]
async fn main() -> Result {
    // The process has one, whoever asks first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    if wanted("floors") {
        floors::measure().await?;
    }
    if wanted("start") {
        start().await?;
    }
    if wanted("queue") {
        queue().await?;
    }
    if wanted("suspended") {
        suspended().await?;
    }
    if wanted("burst") {
        burst(1).await?;
        burst(25).await?;
    }
    if wanted("stream") {
        stream().await?;
    }
    if wanted("pods") {
        pods::measure().await?;
    }
    if wanted("growth") {
        growth::measure().await?;
    }
    if wanted("lines") {
        lines::measure().await?;
    }
    Ok(())
}

/// Ready with a new folder, and what an empty server keeps.
async fn start() -> Result {
    let mut times = Vec::new();
    for _ in 0..5 {
        let server = Server::start().await?;
        times.push(server.ready_after);
        tell("empty server, private memory", server.memory()?, "MB");
    }
    times.sort();
    tell(
        "ready, new folder (median of 5)",
        milliseconds(times[2]),
        "ms",
    );
    Ok(())
}

/// Two-node jobs that must queue behind one that takes the whole machine: the rate of creates, reads meanwhile, and what
/// they cost in memory.
async fn queue() -> Result {
    let server = Server::start().await?;
    server.submit(&blocker()).await?;
    let empty = server.memory()?;
    let body = queued().to_string();
    let before = server.cpu()?;

    let creates = send_all(CLIENTS, 1_600, |client, _| {
        let (server, body) = (server.clone(), body.clone());
        async move { server.post(&client, "/api/trainjob/create", body).await }
    })
    .await?;
    report("REST creates, 1,600 jobs that queue", &creates);
    let settled = server.settle().await?;
    tell(
        "  CPU until all is quiet",
        (server.cpu()? - before) * 1_000.0 / 1_600.0,
        "ms/job",
    );
    tell("  quiet after", settled.as_secs_f64(), "s");
    let pods = server.count("/api/v1/pods").await?;
    tell("  pods that exist", pods, "");
    let memory = server.memory()?;
    tell("  memory", memory, "MB");
    tell(
        "  memory of one job",
        (memory - empty) * 1_024.0 / 1_600.0,
        "kB",
    );
    growth::kinds(&server, 1_601).await?;

    let create = |client: reqwest::Client, _: usize| {
        let (server, body) = (server.clone(), body.clone());
        async move { server.post(&client, "/api/trainjob/create", body).await }
    };
    let sustained = send_for(CLIENTS, seconds(), create).await?;
    report("REST creates, sustained", &sustained);
    let name = server.first_job().await?;
    let path = format!("/api/trainjob/{name}/status?namespace=default");
    let read = |client: reqwest::Client, _: usize| {
        let (server, path) = (server.clone(), path.clone());
        async move { server.get(&client, &path).await.map(drop) }
    };
    let time = Duration::from_secs(5);
    // One client goes on creating jobs, so that there is something to do all the time.
    let (reads, creates) =
        tokio::try_join!(send_for(CLIENTS - 1, time, read), send_for(1, time, create),)?;
    report("reads while controllers work", &reads);
    tell("  and creates beside them", creates.per_second(), "/s");
    tell(
        "reads when nothing else is done",
        {
            server.settle().await?;
            send_for(CLIENTS, time, read).await?.per_second()
        },
        "/s",
    );
    tell("  memory at the end", server.memory()?, "MB");
    Ok(())
}

/// Suspended TrainJobs over the Kubernetes API: the rate, the memory, and how long the next start takes.
async fn suspended() -> Result {
    const JOBS: usize = 5_220;
    let server = Server::start().await?;
    let creates = send_all(CLIENTS, JOBS, |client, number| {
        let server = server.clone();
        async move {
            let path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";
            let body = train_job(number).to_string();
            server.kube_post(&client, path, body).await
        }
    })
    .await?;
    report("kube creates, suspended TrainJobs", &creates);
    server.settle().await?;
    tell("  memory of 5,220", server.memory()?, "MB");
    let again = server.restart().await?;
    tell(
        "ready with 5,220 jobs",
        milliseconds(again.ready_after),
        "ms",
    );
    tell("  memory after that start", again.memory()?, "MB");
    Ok(())
}

/// 500 jobs of one node that do nothing, all at once.
async fn burst(namespaces: usize) -> Result {
    const JOBS: usize = 500;
    let server = Server::start().await?;
    let before = (server.cpu()?, Server::cpu_of_pods());
    let begin = Instant::now();
    send_all(CLIENTS, JOBS, |client, number| {
        let server = server.clone();
        async move {
            let body = nothing(&format!("bench-{}", number % namespaces)).to_string();
            server.post(&client, "/api/trainjob/create", body).await
        }
    })
    .await?;
    let accepted = begin.elapsed();
    server.complete(JOBS).await?;
    println!("500 one-node jobs of `true`, {namespaces} namespace(s)");
    tell("  accepted after", accepted.as_secs_f64(), "s");
    tell("  complete after", begin.elapsed().as_secs_f64(), "s");
    tell(
        "  CPU of the server",
        (server.cpu()? - before.0) * 1_000.0 / 500.0,
        "ms/job",
    );
    tell(
        "  CPU of the pods, supervisors included",
        (Server::cpu_of_pods() - before.1) * 1_000.0 / 500.0,
        "ms/job",
    );
    tell("  memory", server.memory()?, "MB");
    Ok(())
}

/// 2,002 jobs in bursts of 77, each burst after the one before is complete.
async fn stream() -> Result {
    const BURST: usize = 77;
    const BURSTS: usize = 26;
    let server = Server::start().await?;
    let (empty, begin) = (server.memory()?, Instant::now());
    println!("2,002 jobs in bursts");
    tell("  memory before", empty, "MB");
    for burst in 1..=BURSTS {
        send_all(CLIENTS, BURST, |client, _| {
            let server = server.clone();
            async move {
                let body = nothing("bench").to_string();
                server.post(&client, "/api/trainjob/create", body).await
            }
        })
        .await?;
        server.complete(burst * BURST).await?;
        if burst % 5 == 1 {
            let what = format!("  memory after {} jobs", burst * BURST);
            tell(&what, server.memory()?, "MB");
        }
    }
    tell("  complete after", begin.elapsed().as_secs_f64(), "s");
    Ok(())
}

fn blocker() -> Value {
    let mut job = queued();
    job["training_code"] = "import time; time.sleep(3600)".into();
    job
}

fn queued() -> Value {
    json!({
        "user_id": "bench", "namespace": "default", "framework": "pytorch", "training_code": "print('training')",
        "config": { "num_nodes": 2, "gpu_per_node": 0, "cpu_per_node": 1, "memory_per_node": "1Gi" },
    })
}

fn nothing(namespace: &str) -> Value {
    json!({
        "user_id": "bench", "namespace": namespace, "framework": "pytorch", "training_code": "pass", "command": "true",
        "num_nodes": 1, "cpu_request": "10m", "memory_request": "16Mi",
    })
}

fn train_job(number: usize) -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": format!("suspended-{number}") },
        "spec": {
            "suspend": true,
            "runtimeRef": { "name": "torch-distributed" },
            "trainer": {
                "numNodes": 2, "image": "example.test/train:1", "command": ["python", "train.py"],
                "env": [{ "name": "LEARNING_RATE", "value": "0.1" }],
                "resourcesPerNode": { "requests": { "cpu": "1", "memory": "1Gi" } },
            },
        },
    })
}

fn seconds() -> Duration {
    let asked = std::env::var("SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(10))
}

fn report(what: &str, summary: &Summary) {
    tell(what, summary.per_second(), "/s");
    quantiles("  p50, p99, longest", summary);
}

fn quantiles(what: &str, summary: &Summary) {
    println!(
        "{what:<42}{:>7.1}, {:.1}, {:.0} ms",
        milliseconds(summary.quantile(0.5)),
        milliseconds(summary.quantile(0.99)),
        milliseconds(summary.quantile(1.0)),
    );
}

fn tell(what: &str, number: impl Into<f64>, unit: &str) {
    println!("{what:<42}{:>10.1} {unit}", number.into());
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
