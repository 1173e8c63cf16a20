//! What one more job costs when there are many: a straight line is a column of equal numbers.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::load::{client, send_all};
use super::server::Server;
use crate::{CLIENTS, Result, blocker, milliseconds, queued, tell, train_job};

const SIZES: [usize; 3] = [1_000, 3_000, 10_000];

/// Every kind that a job is made of, and where it is listed.
const KINDS: [(&str, &str); 8] = [
    (
        "TrainJob",
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
    ),
    (
        "JobSet",
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    ),
    ("Job", "/apis/batch/v1/namespaces/default/jobs"),
    ("Pod", "/api/v1/namespaces/default/pods"),
    ("Service", "/api/v1/namespaces/default/services"),
    ("ConfigMap", "/api/v1/namespaces/default/configmaps"),
    (
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    ),
    ("Event", "/api/v1/namespaces/default/events"),
];

/// Two roads to many jobs, each with a server of its own.
pub(crate) async fn measure() -> Result {
    let server = Server::start().await?;
    println!("suspended TrainJobs over the Kubernetes API, one after the other size");
    grow(&server, |server, client, number| async move {
        let path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";
        let body = train_job(number).to_string();
        server.kube_post(&client, path, body).await
    })
    .await?;
    drop(server);
    let server = Server::start().await?;
    server.submit(&blocker()).await?;
    println!("two-node jobs that queue, over REST");
    grow(&server, |server, client, _| async move {
        let body = queued().to_string();
        server.post(&client, "/api/trainjob/create", body).await
    })
    .await
}

async fn grow<F>(server: &Server, create: impl Fn(Server, reqwest::Client, usize) -> F) -> Result
where
    F: Future<Output = Result>,
{
    let (empty, client) = (server.memory()?, client()?);
    let mut before = 0;
    println!("  jobs    creates/s   CPU/job   memory/job    list 50   page 500   one status");
    for size in SIZES {
        let cpu = server.cpu()?;
        let made = send_all(CLIENTS, size - before, |client, number| {
            create(server.clone(), client, before + number)
        })
        .await?;
        server.settle().await?;
        let cpu = server.cpu()? - cpu;
        let memory = server.memory()? - empty;
        let name = server.first_job().await?;
        let rest = |path: String| {
            let client = client.clone();
            async move { server.get(&client, &path).await.map(drop) }
        };
        let list = time(|| rest("/api/trainjobs?limit=50".to_owned())).await?;
        let status = format!("/api/trainjob/{name}/status?namespace=default");
        let status = time(|| rest(status.clone())).await?;
        let page = time(|| async {
            let path = format!("{}?limit=500", KINDS[0].1);
            server.kube_get(&client, &path).await.map(drop)
        })
        .await?;
        println!(
            "{size:>6} {:>12.0} {:>7.2} ms {:>9.1} kB {:>7.2} ms {:>7.2} ms {:>9.2} ms",
            made.per_second(),
            cpu * 1_000.0 / count(size - before),
            memory * 1_024.0 / count(size),
            milliseconds(list),
            milliseconds(page),
            milliseconds(status),
        );
        before = size;
    }
    Ok(())
}

/// The median of twenty.
async fn time<F: Future<Output = Result>>(ask: impl Fn() -> F) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        ask().await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// How many objects of each kind a server has for each of its jobs, and how much JSON one of them is.
pub(crate) async fn kinds(server: &Server, jobs: usize) -> Result {
    let client = client()?;
    for (kind, path) in KINDS {
        let path = format!("{path}?limit=500");
        let body = server.kube_get(&client, &path).await?;
        let list: Value = serde_json::from_slice(&body)?;
        let shown = list["items"].as_array().map_or(0, Vec::len);
        if shown == 0 {
            continue;
        }
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        let all = count(shown + usize::try_from(rest)?);
        tell(
            &format!("  {kind}: JSON of one"),
            count(body.len()) / count(shown) / 1_024.0,
            "kB",
        );
        tell("    and how many for each job", all / count(jobs), "");
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts of objects")]
fn count(of: usize) -> f64 {
    of as f64
}
