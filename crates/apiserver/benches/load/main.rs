//! The server under load, over TLS, in a process of its own: `cargo bench -p astrago-apiserver --bench load`.
//!
//! Prints what the design compares, side by side with kube-apiserver and etcd where those are at hand (see
//! [`servers::peers`]): the same client, the same definition, the same TrainJobs, every acknowledged write fsync'ed. Then
//! how reads and watches behave as the store grows; `ASTRAGO_BENCH_OBJECTS` sets how far (100,000).

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod client;
mod servers;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::Value;

use client::{Target, latency, rate};
use servers::Running;

/// As in the product.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const OBJECTS: usize = 3000;
const READS: usize = 60_000;
/// Far fewer are enough to know a rate that is far lower.
const PEER_READS: usize = 10_000;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const COLLECTION: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, directory] = arguments.as_slice()
        && command == "serve"
    {
        return servers::serve(Path::new(directory)).await;
    }
    let directory = tempfile::tempdir()?;
    let server = servers::ours(directory.path()).await?;
    let ours = Figures::of(&server, READS).await?;
    let theirs = match servers::peers() {
        None => {
            println!("no kube-apiserver and etcd at hand: numbers without a peer");
            None
        }
        Some(binaries) => {
            let directory = tempfile::tempdir()?;
            let peer = servers::theirs(&binaries, directory.path()).await?;
            Some(Figures::of(&peer, PEER_READS).await?)
        }
    };
    compare(&ours, theirs.as_ref());
    grow(server, directory.path()).await
}

/// What is measured of both.
struct Figures {
    ready: f64,
    creates: f64,
    reads: f64,
    updates: f64,
    by_label: f64,
    memory: f64,
}

impl Figures {
    async fn of(server: &Running, reads: usize) -> Result<Self, Error> {
        let target = &server.target;
        target.post(DEFINITIONS, definition()?).await?;
        // A definition takes a moment to be served.
        let began = Instant::now();
        while target.get(COLLECTION).await.is_err() {
            if began.elapsed() > Duration::from_mins(1) {
                return Err("the definition is not served".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let job = template()?;
        let creates = rate(target, OBJECTS, move |index| {
            ("POST", COLLECTION.to_owned(), named(&job, index))
        });
        let creates = creates.await?;
        let memory = server.memory()?;
        let reads = rate(target, reads, |index| {
            ("GET", path(index % OBJECTS), Bytes::new())
        });
        let reads = reads.await?;
        let updates = rate(target, OBJECTS, |index| {
            let patch = format!(r#"{{"metadata":{{"labels":{{"round":"{index}"}}}}}}"#);
            ("PATCH", path(index), patch.into())
        });
        let updates = updates.await?;
        let by_label = latency(target, &format!("{COLLECTION}?labelSelector=batch=7")).await?;
        Ok(Self {
            ready: server.ready,
            creates,
            reads,
            updates,
            by_label,
            memory,
        })
    }
}

fn compare(ours: &Figures, theirs: Option<&Figures>) {
    println!(
        "{:<34}{:>12}{:>18}{:>10}   goal",
        "", "astrago", "kube-apiserver", "ratio"
    );
    let line = |what: &str, of: fn(&Figures) -> f64, unit: &str, less: bool, goal: &str| {
        let own = of(ours);
        let (peer, ratio) = theirs.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |theirs| {
                let peer = of(theirs);
                let ratio = if less { peer / own } else { own / peer };
                (format!("{peer:.1} {unit}"), format!("{ratio:.1}×"))
            },
        );
        let own = format!("{own:.1} {unit}");
        println!("{what:<34}{own:>12}{peer:>18}{ratio:>10}   {goal}");
    };
    line("ready after start", |one| one.ready, "ms", true, "200 ms");
    line("creates, 16 clients", |one| one.creates, "/s", false, "10×");
    line("reads, 16 clients", |one| one.reads, "/s", false, "20×");
    line(
        "label patches, 16 clients",
        |one| one.updates,
        "/s",
        false,
        "",
    );
    line(
        "list 10 of 3,000 by label",
        |one| one.by_label,
        "ms",
        true,
        "",
    );
    line(
        "memory with 3,000 TrainJobs",
        |one| one.memory,
        "MB",
        true,
        "60 MB",
    );
}

/// How reads and watches of our server change with what is stored.
async fn grow(server: Running, directory: &Path) -> Result<(), Error> {
    let size = std::env::var("ASTRAGO_BENCH_OBJECTS").ok();
    let size = size.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let before = Reads::of(&server.target, OBJECTS).await?;
    let job = template()?;
    let began = Instant::now();
    rate(&server.target, size - OBJECTS, move |index| {
        ("POST", COLLECTION.to_owned(), named(&job, index + OBJECTS))
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    let after = Reads::of(&server.target, size).await?;
    println!("\nthe same with {OBJECTS} and with {size} objects, which took {took:.1} s to create");
    for (what, before, after) in [
        ("list 10 by label", before.by_label, after.by_label),
        ("list a page of 500", before.page, after.page),
        ("list one by field", before.by_field, after.by_field),
        ("one change seen by a watch", before.watch, after.watch),
    ] {
        println!("{what:<34}{before:>9.2} ms{after:>15.2} ms");
    }
    println!("memory with {size} objects{:>25.1} MB", server.memory()?);
    drop(server);
    let again = servers::ours(directory).await?;
    println!("ready with {size} objects{:>26.0} ms", again.ready);
    Ok(())
}

struct Reads {
    by_label: f64,
    page: f64,
    by_field: f64,
    watch: f64,
}

impl Reads {
    async fn of(target: &Target, size: usize) -> Result<Self, Error> {
        let last = size - 1;
        let path = |query: &str| format!("{COLLECTION}?{query}");
        Ok(Self {
            by_label: latency(target, &path("labelSelector=batch=7")).await?,
            page: latency(target, &path("limit=500")).await?,
            by_field: latency(target, &path("fieldSelector=metadata.name=job-7")).await?,
            watch: watched(target, last).await?,
        })
    }
}

/// The mean time from a change of one object until a watch of its label has it, in milliseconds.
async fn watched(target: &Target, last: usize) -> Result<f64, Error> {
    const CHANGES: u32 = 50;
    let mut watcher = target.connect().await?;
    let query = format!("{COLLECTION}?watch=true&labelSelector=batch={}", last / 10);
    let mut events = watcher
        .begin("GET", &query, Bytes::new())
        .await?
        .into_body();
    let mut client = target.connect().await?;
    let mut read = Vec::new();
    let mut took = Duration::ZERO;
    for round in 0..CHANGES {
        let mark = format!("mark-{last}-{round}");
        let patch = format!(r#"{{"metadata":{{"annotations":{{"mark":"{mark}"}}}}}}"#);
        let began = Instant::now();
        client.send("PATCH", &path(last), patch.into()).await?;
        while !contains(&read, mark.as_bytes()) {
            let frame = events.frame().await.ok_or("the watch ended")??;
            read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
        took += began.elapsed();
        read.clear();
    }
    Ok(took.as_secs_f64() * 1e3 / f64::from(CHANGES))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn path(index: usize) -> String {
    format!("{COLLECTION}/job-{index}")
}

/// The definition of TrainJobs, as it is installed.
fn definition() -> Result<Bytes, Error> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../manifests/crds/trainer.kubeflow.org_trainjobs.yaml"
    );
    let value: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    Ok(value.to_string().into())
}

/// A TrainJob of the examples: two nodes, three volumes, environment.
fn template() -> Result<Value, Error> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/pytorch-volumes/trainjob.yaml"
    );
    let mut job: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    job["metadata"]["namespace"] = "default".into();
    Ok(job)
}

fn named(template: &Value, index: usize) -> Bytes {
    let mut job = template.clone();
    job["metadata"]["name"] = format!("job-{index}").into();
    job["metadata"]["labels"]["app"] = "bench".into();
    job["metadata"]["labels"]["batch"] = (index / 10).to_string().into();
    job.to_string().into()
}
